"""Inputs that earlier generations read: known by their bytes, whatever their names, and by where they lie.

A log whose bytes are known is not read again. One that lies where a known one lay, with other bytes, has grown or was
changed: it is left as it was read first, or read again, as the recipe says. One that is gone stays read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.connectors.registry import connectors
from trajmill.pipelines.generations.forgotten_keys import LOG, Tombstones
from trajmill.pipelines.generations.ledgers import INPUTS
from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.plan.raw_files import RawFile, raw_file
from trajmill.pipelines.plan.recognition import Input, Recognized, stamp_of
from trajmill.pipelines.storage.folders import Folder, sha256_of
from trajmill.pipelines.storage.parquet import read_table
from trajmill.pipelines.storage.paths import Place, filesystem_of, url_of
from trajmill.pipelines.storage.stored_blob import StoredBlob, opened_archive
from trajmill.schemas import ParseError, Reject


@dataclass(slots=True)
class Contents:
    """What raw files hold now, each read once.

    Attributes:
        limit: decompressed bytes of a file above which it is not read.
    """

    limit: int = 8 << 30
    _of: dict[str, str] = field(default_factory=dict)
    _of_members: dict[Place, str] = field(default_factory=dict)
    _sizes: dict[Place, dict[str, int]] = field(default_factory=dict)

    def of(self, one: Input) -> str:
        """The digest of the bytes of an input's files, and of who reads them; of a member of an archive, of its own.

        Empty where these are not the bytes that the input was found with: a file is gone, or was changed since.
        """
        return self._digest(one, lambda place: (self._member(place) if place.within else self._file(place.path), ()))

    def by_archive(self, one: Input) -> str:
        """The same with the bytes of archives for those of their members, as earlier releases wrote it; else empty."""
        if not any(place.within for place in one.members.values()):
            return ""
        return self._digest(one, lambda place: (self._file(place.path), place.within))

    def _digest(self, one: Input, of: Callable[[Place], tuple[str, Sequence[str]]]) -> str:
        try:
            if stamp_of({name: self._raw(place) for name, place in one.members.items()}) != one.stamp:
                return ""
            found = [[name if len(one.members) > 1 else "", *of(place)] for name, place in sorted(one.members.items())]
        except (OSError, ParseError, KeyError):
            return ""
        return _content(one, found)

    def _member(self, place: Place) -> str:
        if place not in self._of_members:
            self._of_members[place] = StoredBlob(place.name, {"": place}, self.limit).digest()
        return self._of_members[place]

    def _raw(self, place: Place) -> RawFile:
        file = raw_file(place.path)
        return replace(file, bytes=self._members(place.archive)[place.within[-1]]) if place.within else file

    def _members(self, archive: Place) -> dict[str, int]:
        """The sizes of the members of an archive."""
        if archive not in self._sizes:
            found = opened_archive(archive, self.limit).members()
            self._sizes[archive] = {one.name: one.bytes for one in found if not isinstance(one, Reject)}
        return self._sizes[archive]

    def _file(self, path: str) -> str:
        if path not in self._of:
            url = url_of(path)
            if url is None:
                self._of[path] = sha256_of(path)
            else:
                filesystem, name = filesystem_of(url)
                with filesystem.open(name, "rb") as stream:
                    self._of[path] = hashlib.file_digest(stream, "sha256").hexdigest()
        return self._of[path]


def _content(one: Input, found: list[list[Any]]) -> str:
    return hashlib.sha256(json.dumps([one.connector, found]).encode()).hexdigest()


def place_of(one: Input) -> str:
    """The digest of where an input's files lie, and who reads them."""
    places = [place.to_json() for _, place in sorted(one.members.items())]
    return hashlib.sha256(json.dumps([one.connector, places]).encode()).hexdigest()


@dataclass(slots=True)
class KnownInputs:
    """What earlier generations read, and what of it was met again.

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

    def __post_init__(self) -> None:
        self._known = set(self.rows[["content", "content_low"]].tolist()) - {(0, 0)}
        self._places = set(self.rows[["place", "place_low"]].tolist())
        self._stamps = set(self.rows[["place", "place_low", "stamp"]].tolist())

    def knows(self, one: Input) -> bool:
        """Whether the input is not to be read; what was met is noted. A log that has not changed is not opened."""
        place = _numbers(place_of(one))
        if (*place, _numbers(one.stamp)[0]) in self._stamps:
            self.again += 1
            return True
        if self._is_known(self.contents.of(one)) or self._is_known(self.contents.by_archive(one)):
            self.again += 1
            return True
        if place in self._places:
            self.changed.append(one.uri)
            return not self.reads_grown
        return False

    def _is_known(self, content: str) -> bool:
        return bool(content) and (_numbers(content) in self._known or self.tombstones.hold(LOG, content))


@dataclass(slots=True)
class FoundBefore:
    """What each file is by itself, as earlier plans have it, as long as neither it nor its connector changes.

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
        """That of earlier plans."""
        found: dict[Place, list[Input]] = {}
        for one in (one for plan in plans for one in plan.inputs):
            if list(one.members) == [""]:
                found.setdefault(one.members[""], []).append(one)
        opened = {(plan.asked, one.place, one.stamp): one.inputs for plan in plans for one in plan.opened}
        return cls(found, opened)

    def among(self, asked: str) -> Callable[[RawFile], Recognized | None]:
        """See `plan.FoundBefore`; what was opened and holds nothing new is nothing, and what was met is noted."""

        def told(file: RawFile) -> Recognized | None:
            stamp = stamp_of({"": file})
            for one in self.inputs.get(file.place, ()):
                connector = connectors().get(one.connector)
                if connector is not None and connector.version == one.version and one.stamp == stamp:
                    return Recognized([replace(one, uri=file.name)])
            held = self.opened.get((asked, file.place, stamp))
            self.again += held or 0
            return None if held is None else Recognized()

        return told


def input_rows(
    inputs: Iterable[Input], contents: Contents, read: Mapping[str, str] | None = None
) -> npt.NDArray[np.void]:
    """The rows of a ledger for inputs that were read; one whose files were changed since has no content.

    Args:
        inputs: those.
        contents: what lies there now.
        read: uri → digest of a member of an archive, as it was read: see `members_read`.
    """
    rows = []
    for one in inputs:
        was = (read or {}).get(one.uri)
        content = _content(one, [["", was, ()]]) if was and _is_member(one) else contents.of(one)
        rows.append((*_numbers(content), *_numbers(place_of(one)), _numbers(one.stamp)[0]))
    return np.array(rows, INPUTS)


def members_read(inputs: Iterable[Input], transitions: Folder, names: Iterable[str]) -> dict[str, str]:
    """The digests by which rows name the members of archives that they were read from, by uri.

    So a member is known though its archive was changed before it was written down what was read, and is not unpacked.

    Args:
        inputs: that were read.
        transitions: the folder of rows.
        names: of its files.

    Raises:
        ShardError: one cannot be read.
    """
    uris = {one.uri for one in inputs if _is_member(one)}
    found: dict[str, str] = {}
    for name in names if uris else ():
        table = read_table(transitions, name, ["provenance.uri", "provenance.sha256"])["provenance"].combine_chunks()
        told = pa.table({field: pc.struct_field(table, field).cast(pa.string()) for field in ("uri", "sha256")})
        rows = told.group_by(["uri", "sha256"]).aggregate([]).to_pylist()
        found |= {row["uri"]: row["sha256"] for row in rows if row["uri"] in uris and row["sha256"]}
    return found


def _is_member(one: Input) -> bool:
    return len(one.members) == 1 and all(place.within for place in one.members.values())


def _numbers(digest: str) -> tuple[int, int]:
    return (int(digest[:16], 16), int(digest[16:32], 16)) if digest else (0, 0)
