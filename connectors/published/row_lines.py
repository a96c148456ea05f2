"""Rows of a table as lines of JSON, so that the connector that reads such lines reads the table too.

A format that is published as JSON Lines is published as Parquet as well. Which format it is, is told by the rows, and
they are read by the same code; only the place of what was read is that of the row.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from io import BufferedReader, BytesIO, RawIOBase
from typing import BinaryIO, Final, cast

from trajmill.connectors.connector import HEAD_BYTES, Blob, Connector
from trajmill.connectors.published.cells import text
from trajmill.connectors.published.inside_row import Made
from trajmill.connectors.published.tables import Table
from trajmill.connectors.reading.head_outline import OUTLINED_BYTES
from trajmill.connectors.registry import connector, sniff
from trajmill.schemas import ParseError, Reject, json_text

_FORMATS: Final = (
    "adp",
    "agentnet",
    "android_control_jsonl",
    "android_world",
    "chat_tools",
    "openhands",
    "swe_rows",
    "swebench_predictions",
    "terminus_rows",
    "webdancer",
)
"""Formats whose lines are rows, each a log of its own."""


def format_of(table: Table) -> Connector | None:
    """The connector that reads the rows of a table as lines; None if there is none."""
    among = [connector(name) for name in _FORMATS]
    found = sniff(_beginning(table, HEAD_BYTES), "rows.jsonl", among, longer=lambda: _beginning(table, OUTLINED_BYTES))
    return found[0][0] if found else None


def _beginning(table: Table, size: int) -> bytes:
    """The first bytes of the lines of a table, as far as its rows can be read."""
    data = bytearray()
    with suppress(ParseError):
        for _, row in table.rows():
            if not isinstance(row, ParseError):
                data += json_text(row).encode() + b"\n"
            if len(data) >= size:
                break
    return bytes(data[:size])


def read_lines(blob: Blob, name: str, table: Table, inner: Connector) -> Made:
    """The trajectories and rejects of a table's rows, each at the place of its row.

    Args:
        blob: of the table.
        name: of the connector that reads it, for rejects.
        table: the open table.
        inner: the connector that reads the lines.

    Raises:
        ParseError: reading cannot go on.
    """
    lines = RowLines(blob, table)
    try:
        for found in inner.parse(lines):
            if isinstance(found, Reject):
                yield replace(found, offset=lines.place(found.offset), connector=name)
                continue
            steps = [replace(step, offset=lines.place(step.offset)) for step in found.steps]
            licence = found.licence or lines.licence(found.steps[0].offset)
            yield replace(found, steps=steps, licence=licence)
    except ParseError as error:
        at = lines.place(error.offset)
        raise lines.broken or ParseError(blob.uri, at, error.reason, error.detail) from error
    finally:
        yield from (Reject.of(fault, "record", name) for fault in lines.faults.values())
    if lines.broken is not None:
        raise lines.broken


class RowLines:
    """A blob of one line for each row of a table.

    Attributes:
        faults: of rows that cannot be read, by place; these have no line.
        broken: why no row after the last line could be read, if any is left.
    """

    def __init__(self, blob: Blob, table: Table) -> None:
        self.uri, self.choices = blob.uri, blob.choices
        self.members: tuple[str, ...] = ("",)
        self.faults: dict[int, ParseError] = {}
        self.broken: ParseError | None = None
        self._table = table
        self._begins = array("q")
        self._places = array("q")
        self._licences: dict[int, str] = {}

    def place(self, offset: int) -> int:
        """The place of the row in whose line an offset lies; -1 for none."""
        return self._places[bisect_right(self._begins, offset) - 1] if offset >= 0 and self._begins else -1

    def licence(self, offset: int) -> str | None:
        """The licence that the row in whose line an offset lies names."""
        return self._licences.get(self.place(offset))

    def open(self, member: str = "") -> BinaryIO:
        return cast("BinaryIO", BufferedReader(_Lines(self._lines()), 1 << 16))

    def seekable(self, member: str = "") -> BinaryIO:
        return BytesIO(self.read())

    def read(self, member: str = "") -> bytes:
        return b"".join(self._lines())

    def digest(self, member: str = "") -> str:
        return hashlib.sha256(self.read()).hexdigest()

    def _lines(self) -> Iterator[bytes]:
        begin = 0
        try:
            for place, row in self._table.rows():
                if isinstance(row, ParseError):
                    self.faults[place] = row
                    continue
                if not self._begins or begin > self._begins[-1]:
                    self._begins.append(begin)
                    self._places.append(place)
                    if licence := text(row.get("license")):
                        self._licences[place] = licence
                line = json_text(row).encode() + b"\n"
                begin += len(line)
                yield line
        except ParseError as error:
            self.broken = error


class _Lines(RawIOBase):
    """A stream over lines that are made as it is read."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        super().__init__()
        self._lines = lines
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._left:
            self._left = memoryview(next(self._lines, b""))
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
