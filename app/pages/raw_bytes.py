"""Raw bytes that a row or a reject refers to: a member of an input, at an offset into its own bytes.

Only inputs of a plan are opened, by their uri and member there. The bytes are unscrubbed and may contain secrets. They
are for a page on this machine, and must be scrubbed before they are written to a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from trajmill.pipelines.storage.compression import MAGIC_BYTES, is_compressed
from trajmill.pipelines.storage.paths import Place, opened, text_of
from trajmill.pipelines.storage.stored_blob import open_raw
from trajmill.schemas import ParseError, ShardError

BEFORE: Final = 400
AFTER: Final = 6000
_DEEPEST: Final = 1 << 30
"""Most decompressed bytes that are read to reach a position."""

_CHUNK: Final = 1 << 20
_TABLES: Final = (b"PAR1", b"ARROW1")


Members: TypeAlias = Mapping[str, Mapping[str, Place]]
"""uri → member → location."""


@dataclass(frozen=True, slots=True)
class RawBytes:
    """Bytes around a position.

    Attributes:
        path: Path of the file on this machine, as text; for a member of an archive, with the names of its members.
        offset: Offset of the position; 0 if the row or reject has none.
        at: Bytes from it to the end of its line.
        after: Bytes that follow these.
        fault: Reason why there are no bytes, or not all; empty if all is well.
        is_gone: True if the file cannot be opened.
    """

    path: str
    offset: int
    before: bytes = b""
    at: bytes = b""
    after: bytes = b""
    fault: str = ""
    is_gone: bool = False

    def hex_lines(self, most: int = 16) -> list[tuple[str, str, str]]:
        """Return the first bytes from the position on as (offset, hex digits, printable ASCII), 16 a line."""
        data = (self.at + self.after)[: most * 16]
        rows = [(offset, data[offset : offset + 16]) for offset in range(0, len(data), 16)]
        return [(f"{self.offset + offset:08x}", row.hex(" "), _printable(row)) for offset, row in rows]


def _display_path(path: str) -> str:
    """Return a path as text, relative to the working folder if the file is in it."""
    below = f"{os.getcwd()}/"
    return text_of(path.removeprefix(below))


def _printable(row: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)


class RawPlaces:
    """Locations of the inputs of a run's plans: (uri, member) → the file, or the member of an archive.

    Args:
        plans: Plan files; the first that lists a location wins.
        deepest: Most decompressed bytes that are read to reach a position.
    """

    def __init__(self, plans: Iterable[Path], deepest: int = _DEEPEST) -> None:
        self._plans, self._deepest = list(plans), deepest
        self._members: list[Members] | None = None
        self._scrubbed: list[Members] | None = None

    @classmethod
    def of(cls, *members: Members, deepest: int = _DEEPEST) -> RawPlaces:
        """Build the locations from known inputs; the first mapping that lists a location wins."""
        places = cls([], deepest)
        places._members = list(members)
        return places

    def at(self, uri: str, member: str, offset: int) -> RawBytes | None:
        """Read the bytes at a position; None if no plan lists it. Faults of the file are reported in the result."""
        location = self._place(uri, member)
        if location is None:
            return None
        path = "/".join([_display_path(location.path), *map(text_of, location.within)])
        try:
            return _around(location, uri, member, max(offset, 0), path, self._deepest)
        except (ParseError, ShardError, OSError) as error:
            gone = not isinstance(error, ParseError)
            return RawBytes(path, offset, fault=getattr(error, "detail", "") or str(error), is_gone=gone)

    def _place(self, uri: str, member: str) -> Place | None:
        if self._members is None:
            self._members = [members_of(plan.read_bytes()) for plan in self._plans]
        location = _find_place(self._members, uri, member)
        if location is None:
            if self._scrubbed is None:
                self._scrubbed = [_scrub_names(members) for members in self._members]
            location = _find_place(self._scrubbed, uri, member)
        return location


def _find_place(plans: Iterable[Members], uri: str, member: str) -> Place | None:
    for plan in plans:
        members = plan.get(uri, {})
        if member in members:
            return members[member]
        # a connector may name a part of its member, such as a row of a table; use the file that contains it
        inner = next((name for name in members if name and member.startswith(f"{name}/")), None)
        if inner is not None or len(members) == 1:
            return members[inner] if inner is not None else next(iter(members.values()))
    return None


def _scrub_names(plan: Members) -> Members:
    """Rename a plan's inputs and members as rows name them, if their names held a secret of a default kind."""
    from trajmill.quality.scrub import scrub_name

    names = {uri: scrub_name(uri) for uri in plan}
    changed = ((name, plan[uri]) for uri, name in names.items())
    return {name: {scrub_name(member): location for member, location in members.items()} for name, members in changed}


def members_of(plan: bytes) -> Members:
    """Return the inputs of a plan file; empty if it is damaged."""
    from trajmill.pipelines.plan.plan import (
        Plan,  # here, since it brings connectors, which a list of trajectories does not need
    )

    try:
        return {log.uri: log.members for log in Plan.from_json(plan).inputs}
    except (ValueError, KeyError, TypeError):
        return {}


def _around(location: Place, uri: str, member: str, offset: int, path: str, deepest: int) -> RawBytes:
    begin = max(0, offset - BEFORE)
    data = _read(location, uri, member, begin, offset + AFTER, deepest)
    if begin == 0 and data.startswith(_TABLES):
        return RawBytes(path, offset, at=data[:256], fault=f"it is a table: the place is row {offset}, not a byte")
    before, rest = data[: offset - begin], data[offset - begin :]
    line = _record_end(before, rest)
    fault = "" if rest else "the file ends before that place"
    return RawBytes(path, offset, before, rest[:line], rest[line:], fault)


def _record_end(before: bytes, data: bytes) -> int:
    """Return the end offset of the record that begins there: a JSON value, indented JSON up to its closing line,
    otherwise a line.
    """
    line = data.find(b"\n") + 1 or len(data)
    if data[:1] in (b"{", b"["):
        text = data.decode("utf-8", "surrogateescape")
        with suppress(ValueError, RecursionError):
            return len(text[: json.JSONDecoder().raw_decode(text)[1]].encode("utf-8", "surrogateescape"))
        if data[:line].rstrip().endswith((b"{", b"[", b",", b":")):  # damaged, or longer than what was read
            indent = before.rpartition(b"\n")[2]
            closing = b"\n" + indent[: len(indent) - len(indent.lstrip())] + (b"}" if data[:1] == b"{" else b"]")
            end = data.find(closing)
            return end + len(closing) if end >= 0 else len(data)
    return line


def _read(location: Place, uri: str, member: str, begin: int, end: int, deepest: int) -> bytes:
    if not location.within:
        with opened(location.path) as plain:
            head = plain.read(MAGIC_BYTES)
            if not is_compressed(head):
                if head.startswith(_TABLES):
                    begin, end = 0, 512
                plain.seek(begin)
                return plain.read(end - begin)
    if end > deepest:
        raise ParseError(uri, begin, "too_large", f"it stands beyond {deepest:,} bytes of a compressed file", member)
    with open_raw(location, uri, member, deepest + 1) as stream:
        rest = begin
        while rest and (skipped := stream.read(min(rest, _CHUNK))):
            rest -= len(skipped)
        try:
            return stream.read(end - begin)
        except ParseError:
            return b""
