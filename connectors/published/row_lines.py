"""Rows of a table as lines of JSON, for the connectors that read such lines.

Data sets published as JSON Lines are published as Parquet and Arrow as well. A table is recognized by its first rows,
as a file of lines is, and the same code reads both. Only the offsets of the results are replaced by the positions of
their rows.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from io import BufferedReader, BytesIO
from itertools import islice
from typing import BinaryIO, Final, cast

from trajmill.connectors.apis.chat_tools.rows import messages_of
from trajmill.connectors.connector import HEAD_BYTES, Blob, Connector, FileSlice
from trajmill.connectors.published.inside_row import Made
from trajmill.connectors.published.tables import Found, Table
from trajmill.connectors.reading.documents import head_rows
from trajmill.connectors.reading.head_outline import OUTLINED_BYTES
from trajmill.connectors.reading.lines import LineStream
from trajmill.connectors.registry import connector, sniff
from trajmill.schemas import ParseError, Reject, json_text

_FORMATS: Final = (
    "agentworldbench",
    "adp",
    "agent_traces",
    "agentnet",
    "android_control_jsonl",
    "android_world",
    "chat_tools",
    "mind2web",
    "openhands",
    "step_rows",
    "swe_rows",
    "swebench_predictions",
    "terminus_rows",
    "turn_rows",
    "webdancer",
    "refused",
)
"""Formats whose lines are rows."""


class RowLines:
    """A blob with one line for each row of a table.

    For a slice of a table, the blob holds the first rows of the table, by which `format` recognizes it, and then those
    of the slice. The slice of the lines consists of those after the first rows.

    Args:
        blob: the table's log.
        columns: columns to read; by default all except those of bytes.

    Attributes:
        faults: errors of rows that cannot be read, by position; these have no line.
        broken: why no row after the last line could be read, if any is left.
    """

    def __init__(self, blob: Blob, table: Table, columns: Sequence[str] | None = None) -> None:
        self.uri, self.choices = blob.uri, blob.choices
        self.members: tuple[str, ...] = ("",)
        self.faults: dict[int, ParseError] = {}
        self.broken: ParseError | None = None
        self._table, self._columns = table, columns
        self._begins = array("q")
        self._places = array("q")
        self._first: list[bytes] = []
        self._rest: Iterator[bytes] | None = self._made(table.rows(columns, from_first=True))
        self._is_sliced = blob.file_slice is not None

    @property
    def file_slice(self) -> FileSlice | None:
        """The requested lines; None for all."""
        return FileSlice(sum(map(len, self._first)), None) if self._is_sliced else None

    def format(self) -> Connector | None:
        """Return the connector that reads the rows; None if there is none.

        Conversations whose first rows have no call are left to `chat_tools`, which rejects them row by row.
        """
        candidates = {name: connector(name) for name in _FORMATS}
        longer = partial(self._beginning, OUTLINED_BYTES)
        matches = sniff(self._beginning(HEAD_BYTES), "rows.jsonl", candidates, longer=longer)
        if matches:
            return matches[0][0]
        first = next(iter(head_rows(self._beginning(HEAD_BYTES))), None)
        return None if messages_of(first) is None else connector("chat_tools")

    def read_by(self, inner: Connector, name: str) -> Made:
        """Yield the trajectories and rejects of the rows, each with the position of its row.

        Args:
            inner: the connector that reads the lines.
            name: name of the connector that reads the table, for rejects.

        Raises:
            ParseError: reading cannot continue.
        """
        if self._is_sliced:  # what is wrong with the first rows is told with their own slice
            self.faults, self.broken = {}, None
        try:
            for result in inner.parse(self):
                if isinstance(result, Reject):
                    yield replace(result, offset=self._place(result.offset), connector=name)
                    continue
                yield replace(result, steps=[replace(step, offset=self._place(step.offset)) for step in result.steps])
        except ParseError as error:
            at = self._place(error.offset)
            raise self.broken or ParseError(self.uri, at, error.reason, error.detail) from error
        finally:
            yield from (Reject.of(fault, "record", name) for fault in self.faults.values())
        if self.broken is not None:
            raise self.broken

    def open(self, member: str = "") -> BinaryIO:
        return cast("BinaryIO", BufferedReader(LineStream(self._lines()), 1 << 16))

    def seekable(self, member: str = "") -> BinaryIO:
        return BytesIO(self.read())

    def read(self, member: str = "") -> bytes:
        return b"".join(self._lines())

    def digest(self, member: str = "") -> str:
        return hashlib.sha256(self.read()).hexdigest()

    def _place(self, offset: int) -> int:
        """Return the position of the row whose line contains an offset; -1 for none."""
        return self._places[bisect_right(self._begins, offset) - 1] if offset >= 0 and self._begins else -1

    def _beginning(self, size: int) -> bytes:
        """Return the first bytes of the lines, which are kept for reading."""
        length = sum(map(len, self._first))
        while length < size and self._rest is not None and (line := next(self._rest, b"")):
            self._first.append(line)
            length += len(line)
        return b"".join(self._first)[:size]

    def _lines(self) -> Iterator[bytes]:
        yield from self._first
        if self._is_sliced:
            yield from self._made(self._table.rows(self._columns), sum(map(len, self._first)))
            return
        rest, self._rest = self._rest, None
        yield from islice(self._made(self._table.rows(self._columns)), len(self._first), None) if rest is None else rest

    def _made(self, rows: Found, begin: int = 0) -> Iterator[bytes]:
        try:
            for position, row in rows:
                if isinstance(row, ParseError):
                    self.faults[position] = row
                    continue
                if not self._begins or begin > self._begins[-1]:
                    self._begins.append(begin)
                    self._places.append(position)
                line = json_text(row).encode() + b"\n"
                begin += len(line)
                yield line
        except ParseError as error:
            self.broken = error
