"""Inputs that earlier generations read: known by their bytes, whatever their names, and by where they lie.

A log whose bytes are known is not read again. One that lies where a known one lay, with other bytes, has grown or was
changed: it is left as it was read first, or read again, as the recipe says. One that is gone stays read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.connectors.registry import connectors
from trajmill.pipelines.generations.generations import INPUTS, read_ledger
from trajmill.pipelines.generations.known import KnownGenerations
from trajmill.pipelines.judge.judging import units_in
from trajmill.pipelines.normalize.forgotten_keys import FILE, LOG, Tombstones
from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.plan.raw_files import RawFile, raw_file
from trajmill.pipelines.plan.recognition import Input, Recognized, stamp_of
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.pipelines.storage.paths import Place
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.schemas import ParseError, ShardError


@dataclass(slots=True)
class Contents:
    """Digests of logs by their decompressed bytes, each read once.

    Attributes:
        limit: decompressed bytes of a file above which it is not read.
    """

    limit: int = 8 << 30
    _of: dict[str, str] = field(default_factory=dict)

    def of(self, source: Input) -> str:
        """Digest the bytes of a log and the connector that reads it; empty where they cannot be read."""
        key = f"{place_of(source)} {source.stamp}"
        if key not in self._of:
            try:
                with StoredBlob(source.uri, source.members, self.limit) as blob:
                    self._of[key] = _content(source, [(name, blob.digest(name)) for name in blob.members])
            except (OSError, ParseError, ShardError):
                self._of[key] = ""
        return self._of[key]

    def read(self, inputs: Iterable[Input], stages: Folder) -> dict[str, str]:
        """Digest logs as they were when a run read them, by `place_of`.

        A log of one file is told by its rows. One of several is known if nothing of it changed since.

        Args:
            inputs: that were read.
            stages: where the stages of the run lie.

        Raises:
            ShardError: the rows cannot be read.
        """
        digests: dict[str, str] = {}
        for unit in units_in(stages):
            table = read_table(stages / "transitions", unit.name, ["provenance.uri", "provenance.sha256"])
            rows = table["provenance"].combine_chunks()
            pairs = pa.table({name: pc.struct_field(rows, name).cast(pa.string()) for name in ("uri", "sha256")})
            distinct = pairs.group_by(["uri", "sha256"]).aggregate([]).to_pylist()
            digests |= {row["uri"]: row["sha256"] for row in distinct if row["sha256"]}
        return {place_of(source): self._was(source, digests.get(source.uri, "")) for source in inputs}

    def _was(self, source: Input, digest: str) -> str:
        if len(source.members) == 1 and digest:
            return _content(source, [(name, digest) for name in source.members])
        if f"{place_of(source)} {source.stamp}" in self._of or _is_as_it_was(source):
            return self.of(source)
        return ""


def _is_as_it_was(source: Input) -> bool:
    try:
        files = {name: raw_file(location.path) for name, location in source.members.items() if not location.within}
    except OSError:
        return False
    return len(files) == len(source.members) and stamp_of(files) == source.stamp


def _content(source: Input, digests: Sequence[tuple[str, str]]) -> str:
    named = [[name if len(digests) > 1 else "", digest] for name, digest in sorted(digests)]
    return hashlib.sha256(json.dumps([source.connector, named]).encode()).hexdigest()


def place_of(source: Input) -> str:
    """Digest the paths of an input's files, and the connector that reads them."""
    locations = [location.to_json() for _, location in sorted(source.members.items())]
    return hashlib.sha256(json.dumps([source.connector, locations]).encode()).hexdigest()


def addresses_of(sources: Iterable[Input]) -> list[str]:
    """List the files of inputs as texts, each by its path and the names within its archive."""
    return sorted({json.dumps(place.to_json()) for source in sources for place in source.members.values()})


@dataclass(slots=True)
class KnownInputs:
    """Inputs that earlier generations read, and those of them that were met again.

    Attributes:
        rows: of the ledgers of inputs.
        contents: digests of raw files.
        reads_grown: whether an input that lies where a known one lay, with other bytes, is read too.
        tombstones: of logs that were forgotten, which are not read either.
        again: how many inputs were known by their bytes.
        changed: where those lie that have other bytes than were read there.
    """

    rows: npt.NDArray[np.void]
    reads_grown: bool = False
    tombstones: Tombstones = field(default_factory=Tombstones)
    contents: Contents = field(default_factory=Contents)
    again: int = 0
    changed: list[str] = field(default_factory=list)
    _known: set[tuple[int, int]] = field(init=False)
    _places: set[tuple[int, int]] = field(init=False)
    _stamps: set[tuple[int, int, int]] = field(init=False)

    @classmethod
    def of(cls, known: KnownGenerations, recipe: Recipe, contents: Contents) -> KnownInputs:
        """Those of earlier runs, for one by a recipe."""
        ledgers = known.places if known.stages else ()  # of who keeps pools alone, nothing else is known
        rows = read_ledger(ledgers, "inputs")
        return cls(rows, recipe.extends_logs, known.tombstones, contents)

    def __post_init__(self) -> None:
        self._known = set(self.rows[["content", "content_low"]].tolist()) - {(0, 0)}
        self._places = set(self.rows[["place", "place_low"]].tolist())
        self._stamps = set(self.rows[["place", "place_low", "stamp"]].tolist())

    def knows(self, source: Input) -> bool:
        """Return True if the input is not to be read; note what was met. A log that has not changed is not opened."""
        key = _numbers(place_of(source))
        if (*key, _numbers(source.stamp)[0]) in self._stamps:
            self.again += 1
            return True
        if any(self.tombstones.hold(FILE, address) for address in addresses_of([source])):
            self.again += 1  # a log that was forgotten stays forgotten when it grows
            return True
        if self._is_known(self.contents.of(source)):
            self.again += 1
            return True
        if key in self._places:
            self.changed.append(source.uri)
            return not self.reads_grown
        return False

    def _is_known(self, content: str) -> bool:
        return bool(content) and (_numbers(content) in self._known or self.tombstones.hold(LOG, content))


@dataclass(slots=True)
class FoundBefore:
    """Earlier plans' results on each file, as long as neither it nor its connector changes.

    Attributes:
        inputs: which are a file by themselves, by its place.
        opened: (digest of who was asked, place, stamp) of other files → how many logs it holds.
        again: how many logs of files that were not opened again are known by that.
    """

    inputs: Mapping[Place, Sequence[Input]]
    opened: Mapping[tuple[str, Place, str], int] = field(default_factory=dict)
    again: int = 0

    @classmethod
    def of(cls, plans: Sequence[Plan]) -> FoundBefore:
        """Collect the results of earlier plans."""
        inputs: dict[Place, list[Input]] = {}
        for source in (source_of_plan for plan in plans for source_of_plan in plan.inputs):
            if list(source.members) == [""]:
                inputs.setdefault(source.members[""], []).append(source)
        opened = {
            (plan.asked, archive.place, archive.stamp): archive.inputs for plan in plans for archive in plan.opened
        }
        return cls(inputs, opened)

    def among(self, asked: str) -> Callable[[RawFile], Recognized | None]:
        """See `plan.FoundBefore`; what was opened and holds nothing new is nothing, and what was met is noted."""

        def told(file: RawFile) -> Recognized | None:
            stamp = stamp_of({"": file})
            for source in self.inputs.get(file.place, ()):
                connector = connectors().get(source.connector)
                if connector is not None and connector.version == source.version and source.stamp == stamp:
                    return Recognized([replace(source, uri=file.name)])
            inputs_inside = self.opened.get((asked, file.place, stamp))
            self.again += inputs_inside or 0
            return None if inputs_inside is None else Recognized()

        return told


def input_rows(inputs: Iterable[Input], contents: Mapping[str, str]) -> npt.NDArray[np.void]:
    """Build the rows of a ledger for inputs that were read, of which the contents are told by place."""
    keys = [(place_of(source), source.stamp) for source in inputs]
    rows = [(*_numbers(contents.get(key, "")), *_numbers(key), _numbers(stamp)[0]) for key, stamp in keys]
    return np.array(rows, INPUTS)


def _numbers(digest: str) -> tuple[int, int]:
    return (int(digest[:16], 16), int(digest[16:32], 16)) if digest else (0, 0)
