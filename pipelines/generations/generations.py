"""Generations of an output folder: a chain of manifests, each committed by one file that is created only if absent.

Generation 1 is the first run. Each later one has its own folder below `generations/`, named by the digest of its
inputs, and joins the chain once `generations/<number>/manifest.json` names it. See docs/decisions/generations.md.
Ledgers are written once beside a generation: the groups and pools of nodes, and the logs that were read. The ledgers of
a folder are those of all its generations.

Leftovers of killed runs that never committed are removed. On a local disk a lock shows that nobody works there. In an
object store the marker of a generation's folder is a lease: a worker rewrites it regularly, and once more right before
the commit. A folder that nobody wrote to for a day is taken over through that marker, under the version that was seen,
and then removed; younger folders stay.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.storage.folders import MARKER, Folder, OvertakenError
from trajmill.pipelines.storage.object_store import Listed, forget
from trajmill.pipelines.storage.ownership import PLAN
from trajmill.pipelines.storage.parquet import read_batches, write_parquet
from trajmill.pipelines.storage.units import MANIFEST
from trajmill.quality.sets import holds
from trajmill.schemas import ConfigError
from trajmill.schemas.manifest import FileEntry

PLACES: Final = np.dtype([("node", "<u8"), ("group", "<u8"), ("pool", "<u8")])
"""A node of a task, instance, trajectory, environment, log or document, its group, and the number of its pool."""

INPUTS: Final = np.dtype(
    [("content", "<u8"), ("content_low", "<u8"), ("place", "<u8"), ("place_low", "<u8"), ("stamp", "<u8")]
)
"""The first 128 bits of the digest of a log's bytes and of its place, and 64 bits of its stamp (see `recognition`)."""

KINDS: Final = {"places": PLACES, "inputs": INPUTS}

_ROWS: Final = 1 << 20


def write_ledger(folder: Folder, kind: str, rows: npt.NDArray[np.void]) -> FileEntry:
    """Write the distinct rows, sorted, and return the file's entry."""
    distinct = np.unique(rows)
    schema = pa.schema([(field, pa.uint64()) for field in KINDS[kind].names or ()])

    def batches() -> Iterator[pa.RecordBatch]:
        for begin in range(0, len(distinct), _ROWS):
            part = distinct[begin : begin + _ROWS]
            columns = [pa.array(np.ascontiguousarray(part[name])) for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return write_parquet(folder, f"{kind}.parquet", schema, batches())


def read_ledger(
    folders: Sequence[Folder], kind: str, keys: npt.NDArray[np.uint64] | None = None
) -> npt.NDArray[np.void]:
    """Read the rows of a kind of ledger, in order of generation.

    Args:
        keys: distinct keys, ascending; only rows whose first field is one of them are read. None reads all.
    """
    parts = [np.zeros(0, KINDS[kind])]
    for folder in folders:
        for batch in read_batches(folder, f"{kind}.parquet"):
            some = batch if keys is None else batch.filter(pa.array(holds(keys, batch.column(0).to_numpy())))
            parts.append(_rows(some, KINDS[kind]))
    return np.concatenate(parts)


def _rows(batch: pa.RecordBatch, kind: np.dtype[Any]) -> npt.NDArray[np.void]:
    rows = np.zeros(batch.num_rows, kind)
    for name in kind.names or ():
        rows[name] = batch[name].to_numpy()
    return rows


GENERATIONS: Final = "generations"
LEDGERS: Final = "ledgers"
JOURNAL: Final = f"{GENERATIONS}/forgetting.json"
"""Path of the journal of records that are being forgotten."""

FIRST: Final = 1
_NAME_DIGITS: Final = 16
_CLOSED: Final = b'{"forgetting": true}\n'
"""Placeholder for the next generation's manifest in an object store.

It blocks commits while records are being forgotten.
"""


@dataclass(frozen=True, slots=True)
class Generation:
    """A committed generation.

    Attributes:
        number: number of the generation, from 1.
        parent: sha256 of the previous generation's manifest; empty for the first.
        folder: folder of its stages, relative to the output folder; empty for the first, whose stages are in the output
            folder itself.
        plan: digest of the logs that it read, by their bytes.
        recipe: digest of the recipe.
        versions: versions of comparison, scrubbing and the texts of samples.
        values: values of the recipe (see `generations.compatibility`); empty if an earlier release wrote none.
        connectors: connectors that read its logs, with their versions.
        counts: counts of samples and other counts of its shards.
        mixture: draws of its stages.
        models: digests of the files that the recipe names.
        shards: files that it added to `shards/`.
        ledgers: files that it added to the ledgers.
        read: sha256 of the manifest as it was read, which an earlier release may have written with fewer values. It is
            not part of the manifest.
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
        """Serialize the manifest, with the same bytes for the same content."""
        values = asdict(self)
        del values["read"]
        return json.dumps(values, indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Generation:
        """Parse the generation that `to_json` wrote."""
        values: dict[str, Any] = json.loads(data)
        files = {name: tuple(FileEntry(**entry) for entry in values[name]) for name in ("shards", "ledgers")}
        return cls(**values | files, read=hashlib.sha256(data).hexdigest())

    @property
    def digest(self) -> str:
        """Sha256 of the manifest, by which the next generation names its parent."""
        return self.read or hashlib.sha256(self.to_json()).hexdigest()


def manifest_of(number: int) -> str:
    """Return the name of a generation's manifest in the output folder."""
    return f"{GENERATIONS}/{number:04d}/{MANIFEST}"


def folder_of(parent: str, plan: str, recipe: str) -> str:
    """Return the folder of a generation of that parent, plan and recipe, relative to the output folder."""
    digest = hashlib.sha256(json.dumps([parent, plan, recipe]).encode()).hexdigest()
    return f"{GENERATIONS}/{digest[:_NAME_DIGITS]}"


def stages_of(out: Folder, generation: Generation) -> Folder:
    """Return the folder of a generation's stages."""
    return out / generation.folder if generation.folder else out


def plan_of(out: Folder, generation: Generation) -> Plan:
    """Read the plan of a generation."""
    return Plan.from_json(stages_of(out, generation).read(PLAN))


def stage_folders(out: Folder) -> list[Folder]:
    """List the folders of the stages of all runs: the output folder itself, then its generations in order."""
    return [out, *(stages_of(out, generation) for generation in chain(out) if generation.folder)]


def ledgers_of(out: Folder, generation: Generation) -> Folder:
    """Return the folder of a generation's ledgers."""
    return out / (f"{generation.folder}/{LEDGERS}" if generation.folder else f"{GENERATIONS}/{FIRST:04d}/{LEDGERS}")


def chain(out: Folder, *, moved: bool = False) -> list[Generation]:
    """Read the committed generations of an output folder, in order; empty if nothing was ever appended.

    Args:
        moved: whether the digests of parents may differ, as while the manifests are being rewritten.

    Raises:
        ConfigError: a manifest is damaged, or does not belong to the chain.
    """
    generations: list[Generation] = []
    if not moved and out.found(JOURNAL) is not None:
        raise _unforgotten(out)
    while (data := out.found(name := manifest_of(len(generations) + 1))) is not None:
        if data == _CLOSED:
            if not moved:
                raise _unforgotten(out)
            break
        try:
            generation = Generation.from_json(data)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{out.path(name)} is damaged: it is no manifest of a generation.") from error
        follows = moved or generation.parent == (generations[-1].digest if generations else "")
        if generation.number != len(generations) + 1 or not follows:
            raise ConfigError(f"{out.path(name)} does not follow the generation before it: it was changed or copied.")
        generations.append(generation)
    return generations


def _unforgotten(out: Folder) -> ConfigError:
    return ConfigError(f"{out.path()} was not done forgetting. Run the same trajmill forget again.")


def close_chain(out: Folder) -> list[Generation]:
    """Read the generations in order to rewrite them. In an object store no commit is possible until `reopen`."""
    while True:
        generations = chain(out, moved=True)
        name = manifest_of(len(generations) + 1)
        if out.is_local or out.create(name, _CLOSED) or out.latest(name)[0] == _CLOSED:
            return generations


def reopen(out: Folder, generations: Sequence[Generation]) -> None:
    """Allow the next generation to be committed again.

    Raises:
        ShardError: the store refuses to remove the placeholder.
    """
    if not out.is_local:
        out.remove(manifest_of(len(generations) + 1))


def commit(out: Folder, generation: Generation) -> bool:
    """Add a generation to the chain; return False if another one was committed in its place.

    In an object store, return False too if its parent was rewritten meanwhile by a process that forgot records. A new
    generation then has to be made.
    """
    if generation.parent and not out.is_local:
        parent, _ = out.latest(manifest_of(generation.number - 1))
        if hashlib.sha256(parent or b"").hexdigest() != generation.parent:
            forget()  # what of the folder was read before
            return False
    name = manifest_of(generation.number)
    return out.create(name, generation.to_json()) or out.read(name) == generation.to_json()


LEASE: Final = timedelta(days=1)
_FOLDER: Final = re.compile(r"([0-9a-f]{16})/(.+)", re.DOTALL)
_AT_ONCE: Final = 64
"""Number of files that are removed between two checks that no other run began there."""


def clear_abandoned(out: Folder, keep: Iterable[str], lease: timedelta | None = None) -> tuple[str, ...]:
    """Remove uncommitted generations that nobody works on, and return those that may still be in use.

    Args:
        out: the output folder. The caller has locked it on a local disk, or has just written its marker in a store.
        keep: folders of generations, relative to it, that are committed or in use by the caller.
        lease: time without writes after which a folder is removed; `LEASE` by default.
    """
    kept_folders = {name.removeprefix(f"{GENERATIONS}/") for name in keep}
    if out.is_local:
        for name in (out / GENERATIONS).names(unfinished=True):
            match = _FOLDER.fullmatch(name)
            if match and match[1] not in kept_folders:
                out.remove(f"{GENERATIONS}/{name}")
        return ()
    begun: dict[str, dict[str, Listed]] = {}
    for name, listed_file in (out / GENERATIONS).listed().items():
        match = _FOLDER.fullmatch(name)
        if match and match[1] not in kept_folders:
            begun.setdefault(match[1], {})[match[2]] = listed_file
    if not begun:
        return ()
    marker = out.told(MARKER)
    now = marker.written if marker is not None else None
    last = None if now is None else now - (LEASE if lease is None else lease)
    left = [name for name, files in sorted(begun.items()) if not _remove_if_idle(out / GENERATIONS / name, files, last)]
    return tuple(f"{GENERATIONS}/{name}" for name in left)


def _remove_if_idle(folder: Folder, files: Mapping[str, Listed], last: datetime | None) -> bool:
    """Remove a folder without writes since a time of the store's own clock; return True if it is gone."""
    written = [listed_file.written for listed_file in files.values()]
    if last is None or any(time is None or time > last for time in written):
        return False
    marker, seen = folder.latest(MARKER)
    if seen != (files[MARKER].version if MARKER in files else ""):
        return False
    taken = json.loads(marker or b"{}") | {"token": token_hex(16)}  # it names the files still: a kill may come
    with suppress(OvertakenError):
        mine = folder.write_over(MARKER, json.dumps(taken).encode(), seen)
        for number, name in enumerate(sorted(files.keys() - {MARKER})):
            if number % _AT_ONCE == 0 and folder.version(MARKER) != mine:
                return False
            folder.remove(name)
        folder.remove(MARKER)
        return True
    return False
