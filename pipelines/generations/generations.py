"""The generations of an output folder: a chain of manifests, each committed by one file that appears only if none is
there.

Generation 1 is what a run made; each later one lies in a folder of its own below `generations/`, whose name is the
digest of what it is made of, and is of the chain once `generations/<number>/manifest.json` names it. See
docs/decisions/generations.md. This module does not know what the files hold.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.object_store import forget
from trajmill.pipelines.storage.ownership import PLAN
from trajmill.pipelines.storage.units import MANIFEST
from trajmill.schemas import ConfigError
from trajmill.schemas.manifest import FileEntry

GENERATIONS: Final = "generations"
LEDGERS: Final = "ledgers"
JOURNAL: Final = f"{GENERATIONS}/forgetting.json"
"""What is being forgotten, while it is."""

FIRST: Final = 1
_NAME_DIGITS: Final = 16
_CLOSED: Final = b'{"forgetting": true}\n'
"""Stands where the next generation's manifest would, in a store, so that none is committed while one forgets."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A committed generation.

    Attributes:
        number: from 1.
        parent: sha256 of the manifest of the one before; empty for the first.
        folder: where its stages lie, relative to the output folder; empty for the first, whose stages lie there.
        plan: digest of the logs that it read, by their bytes.
        recipe: digest of the recipe.
        versions: of what decides who is equal to whom, what is scrubbed and how samples read.
        values: of the recipe (see `generations.compatibility`); empty where an earlier release wrote none.
        connectors: those that read its logs, and their versions.
        counts: samples and what else is counted of its shards.
        mixture: what its stages drew.
        models: digests of what the recipe names.
        shards: files that it added to `shards/`.
        ledgers: files that it added to the ledgers.
        read: sha256 of the manifest as it was read, which an earlier release may have written with fewer values; not
            part of it.
    """

    number: int
    parent: str
    folder: str
    plan: str
    recipe: str
    versions: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    connectors: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    mixture: dict[str, Any] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    shards: tuple[FileEntry, ...] = ()
    ledgers: tuple[FileEntry, ...] = ()
    read: str = field(default="", compare=False)

    def to_json(self) -> bytes:
        """The manifest, the same bytes for the same content."""
        values = asdict(self)
        del values["read"]
        return json.dumps(values, indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Generation:
        """The generation that `to_json` wrote."""
        values: dict[str, Any] = json.loads(data)
        files = {name: tuple(FileEntry(**one) for one in values[name]) for name in ("shards", "ledgers")}
        return cls(**values | files, read=hashlib.sha256(data).hexdigest())

    @property
    def digest(self) -> str:
        """Sha256 of the manifest, by which the next one names its parent."""
        return self.read or hashlib.sha256(self.to_json()).hexdigest()


def manifest_of(number: int) -> str:
    """The name of a generation's manifest in the output folder."""
    return f"{GENERATIONS}/{number:04d}/{MANIFEST}"


def folder_of(parent: str, plan: str, recipe: str) -> str:
    """Where a generation of that parent, plan and recipe is made, relative to the output folder."""
    digest = hashlib.sha256(json.dumps([parent, plan, recipe]).encode()).hexdigest()
    return f"{GENERATIONS}/{digest[:_NAME_DIGITS]}"


def stages_of(out: Folder, one: Generation) -> Folder:
    """The folder of a generation's stages."""
    return out / one.folder if one.folder else out


def plan_of(out: Folder, one: Generation) -> Plan:
    """What a generation read."""
    return Plan.from_json(stages_of(out, one).read(PLAN))


def stage_folders(out: Folder) -> list[Folder]:
    """Where the stages of all runs of an output folder lie, in order: the folder itself, then its generations.

    Raises:
        ConfigError: as of `chain`.
    """
    return [out, *(stages_of(out, one) for one in chain(out) if one.folder)]


def ledgers_of(out: Folder, one: Generation) -> Folder:
    """The folder of a generation's ledgers."""
    return out / (f"{one.folder}/{LEDGERS}" if one.folder else f"{GENERATIONS}/{FIRST:04d}/{LEDGERS}")


def chain(out: Folder, *, moved: bool = False) -> list[Generation]:
    """The committed generations of an output folder, the first first; empty where nothing was ever added to it.

    Args:
        out: the folder.
        moved: whether one may follow another than the one before it, as where these are written again.

    Raises:
        ConfigError: a manifest is damaged, or is not of the chain.
        ShardError: one cannot be read.
    """
    found: list[Generation] = []
    if not moved and out.found(JOURNAL) is not None:
        raise _unforgotten(out)
    while (data := out.found(name := manifest_of(len(found) + 1))) is not None:
        if data == _CLOSED:
            if not moved:
                raise _unforgotten(out)
            break
        try:
            one = Generation.from_json(data)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{out.path(name)} is damaged: it is no manifest of a generation.") from error
        follows = moved or one.parent == (found[-1].digest if found else "")
        if one.number != len(found) + 1 or not follows:
            raise ConfigError(f"{out.path(name)} does not follow the generation before it: it was changed or copied.")
        found.append(one)
    return found


def _unforgotten(out: Folder) -> ConfigError:
    return ConfigError(f"{out.path()} was not done forgetting. Run the same trajmill forget again.")


def closed_chain(out: Folder) -> list[Generation]:
    """The same where generations are written again; in a store none is committed from now on, until `reopen`.

    Raises:
        ConfigError: as of `chain`.
        ShardError: a manifest cannot be read or written.
    """
    while True:
        found = chain(out, moved=True)
        name = manifest_of(len(found) + 1)
        if out.is_local or out.create(name, _CLOSED) or out.latest(name)[0] == _CLOSED:
            return found


def reopen(out: Folder, generations: Sequence[Generation]) -> None:
    """Lets the next generation be committed again.

    Raises:
        ShardError: the store does not let it.
    """
    if not out.is_local:
        out.remove(manifest_of(len(generations) + 1))


def commit(out: Folder, one: Generation) -> bool:
    """Adds a generation to the chain; False if another one is there, whose child it has to be made.

    So where its parent was written again since, in a store, by somebody who forgot.

    Raises:
        ShardError: the manifest cannot be written.
    """
    if one.parent and not out.is_local:
        parent, _ = out.latest(manifest_of(one.number - 1))
        if hashlib.sha256(parent or b"").hexdigest() != one.parent:
            forget()  # what of the folder was read before
            return False
    name = manifest_of(one.number)
    return out.create(name, one.to_json()) or out.read(name) == one.to_json()
