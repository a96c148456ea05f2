"""Inputs that earlier generations read, and which inputs an append therefore skips.

An input with the bytes of an earlier one is skipped, whatever its name. An input at the path of an earlier one with
other bytes has grown or was changed: `normalize.grown` of the recipe says whether it is read again. Data of a log
that was deleted stays.
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
    """Digests of the decompressed bytes of logs; each log is read once.

    Attributes:
        limit: a file with more decompressed bytes is not read.
    """

    limit: int = 8 << 30
    _of: dict[str, str] = field(default_factory=dict)

    def of(self, source: Input) -> str:
        """Digest the bytes of a log with the name of its connector; empty if it cannot be read."""
        key = f"{place_of(source)} {source.stamp}"
        if key not in self._of:
            try:
                with StoredBlob(source.uri, source.members, self.limit) as blob:
                    self._of[key] = _content(source, [(name, blob.digest(name)) for name in blob.members])
            except (OSError, ParseError, ShardError):
                self._of[key] = ""
        return self._of[key]

    def read(self, inputs: Iterable[Input], stages: Folder) -> dict[str, str]:
        """Digest logs as they were when a run read them, and return the digests by `place_of`.

        The digest of a log of one file is taken from its rows. A log of several files has a digest only if it was not
        changed since.
        """
        digests: dict[str, str] = {}
        for unit in units_in(stages):
            table = read_table(stages / "transitions", unit.name, ["provenance.uri", "provenance.sha256"])
            rows = table["provenance"].combine_chunks()
            pairs = pa.table({name: pc.struct_field(rows, name).cast(pa.string()) for name in ("uri", "sha256")})
            distinct = pairs.group_by(["uri", "sha256"]).aggregate([]).to_pylist()
            digests |= {row["uri"]: row["sha256"] for row in distinct if row["sha256"]}
        return {place_of(source): self._digest_as_read(source, digests.get(source.uri, "")) for source in inputs}

    def _digest_as_read(self, source: Input, digest: str) -> str:
        if len(source.members) == 1 and digest:
            return _content(source, [(name, digest) for name in source.members])
        if f"{place_of(source)} {source.stamp}" in self._of or _is_unchanged(source):
            return self.of(source)
        return ""


def _is_unchanged(source: Input) -> bool:
    try:
        files = {name: raw_file(location.path) for name, location in source.members.items() if not location.within}
    except OSError:
        return False
    return len(files) == len(source.members) and stamp_of(files) == source.stamp


def _content(source: Input, digests: Sequence[tuple[str, str]]) -> str:
    named = [[name if len(digests) > 1 else "", digest] for name, digest in sorted(digests)]
    return hashlib.sha256(json.dumps([source.connector, named]).encode()).hexdigest()


def place_of(source: Input) -> str:
    """Digest the paths of an input's files with the name of its connector."""
    locations = [location.to_json() for _, location in sorted(source.members.items())]
    return hashlib.sha256(json.dumps([source.connector, locations]).encode()).hexdigest()


def addresses_of(sources: Iterable[Input]) -> list[str]:
    """List the files of inputs as texts, each by its path and the names within its archive."""
    return sorted({json.dumps(place.to_json()) for source in sources for place in source.members.values()})


@dataclass(slots=True)
class KnownInputs:
    """Inputs that earlier generations read, and counts of those that occur again.

    Attributes:
        reads_grown: whether an input at a known path with other bytes is read.
        tombstones: logs that were forgotten; they are not read.
        contents: digests of raw files.
        again: number of inputs that were skipped because their bytes are known.
        changed: uris of inputs at a known path with other bytes.
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
        """Load the inputs of earlier generations for an append by a recipe."""
        ledgers = known.places if known.stages else ()  # a run that is known for its pools alone has no stages
        rows = read_ledger(ledgers, "inputs")
        return cls(rows, recipe.extends_logs, known.tombstones, contents)

    def __post_init__(self) -> None:
        self._known = set(self.rows[["content", "content_low"]].tolist()) - {(0, 0)}
        self._places = set(self.rows[["place", "place_low"]].tolist())
        self._stamps = set(self.rows[["place", "place_low", "stamp"]].tolist())

    def knows(self, source: Input) -> bool:
        """Return True if the input is to be skipped, and count it.

        A log at a known path that has not changed since is not opened.
        """
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
    """Results of earlier plans on files, valid while neither the file nor its connector changes.

    Attributes:
        inputs: place of a file → the inputs that consist of this file alone.
        opened: (digest of the plan's settings, place, stamp) of an archive → number of logs in it.
        again: number of logs in archives that were not opened again.
    """

    inputs: Mapping[Place, Sequence[Input]]
    opened: Mapping[tuple[str, Place, str], int] = field(default_factory=dict)
    again: int = 0

    @classmethod
    def of(cls, plans: Sequence[Plan]) -> FoundBefore:
        """Collect the results of earlier plans."""
        inputs: dict[Place, list[Input]] = {}
        for plan in plans:
            for source in plan.inputs:
                if list(source.members) == [""]:
                    inputs.setdefault(source.members[""], []).append(source)
        opened = {
            (plan.asked, archive.place, archive.stamp): archive.inputs for plan in plans for archive in plan.opened
        }
        return cls(inputs, opened)

    def among(self, asked: str) -> Callable[[RawFile], Recognized | None]:
        """Return a function as `plan.FoundBefore` describes it.

        For a known archive the function returns no inputs, and counts them as read before.
        """

        def recognize(file: RawFile) -> Recognized | None:
            stamp = stamp_of({"": file})
            for source in self.inputs.get(file.place, ()):
                connector = connectors().get(source.connector)
                if connector is not None and connector.version == source.version and source.stamp == stamp:
                    return Recognized([replace(source, uri=file.name)])
            inputs_inside = self.opened.get((asked, file.place, stamp))
            self.again += inputs_inside or 0
            return None if inputs_inside is None else Recognized()

        return recognize


def input_rows(inputs: Iterable[Input], contents: Mapping[str, str]) -> npt.NDArray[np.void]:
    """Build the rows of a ledger for inputs that were read; `contents` holds their digests by `place_of`."""
    keys = [(place_of(source), source.stamp) for source in inputs]
    rows = [(*_numbers(contents.get(key, "")), *_numbers(key), _numbers(stamp)[0]) for key, stamp in keys]
    return np.array(rows, INPUTS)


def _numbers(digest: str) -> tuple[int, int]:
    return (int(digest[:16], 16), int(digest[16:32], 16)) if digest else (0, 0)
