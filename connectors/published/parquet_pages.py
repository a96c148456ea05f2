"""Memory that a row of a Parquet file can take, from the headers of its pages, before any page is decompressed.

The sizes stated in the footer may be wrong. A page states its uncompressed size and its number of values in a header of
its own, according to which readers allocate memory. A value in a dictionary is stored once in the file, but takes
memory for each use, and repetition levels state how many values a row has (Parquet format, `PageHeader`, `Encodings`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.schemas.record import record

ROW_BYTES: Final = 384 << 20
"""Largest size in bytes of a row or a page; pages of long rows have some hundred megabytes."""

NESTED_VALUES: Final = 64 << 20
"""Largest number of values in the lists of a row group."""

_PLAIN_BYTES: Final = 128 << 20
"""Bytes of a row group below which its rows are not checked."""

_DICTIONARY_PAGE, _DATA_PAGE, _DATA_PAGE_V2 = 2, 0, 3
_DICTIONARY_ENCODINGS: Final = (2, 8)
_DELTA_BYTE_ARRAY: Final = 7
_HEADER_BYTES: Final = 1 << 12
_LONGEST_HEADER: Final = 16 << 20
_PIECE_BYTES: Final = 1 << 20


class PageError(ValueError):
    """Error for a page or a row that is not read; the message explains why.

    Attributes:
        reason: `bad_parquet`, `row_too_large` or `too_many_values`.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@record
class Page:
    """A page: the offset of its data, its stored and uncompressed bytes, its number of values and their encoding.

    `levels` are the sizes in bytes of the repetition and definition levels as stated by version 2, where they are not
    compressed.
    """

    kind: int
    begin: int
    stored: int
    size: int
    values: int
    encoding: int
    levels: tuple[int, int] | None
    is_compressed: bool


def largest_row(file: pq.ParquetFile, stream: BinaryIO, group: int, columns: Sequence[str]) -> int:
    """Return the approximate size in bytes of the largest row of a row group; 0 if all of its rows together are small.

    Args:
        file: Parquet file over the stream.
        columns: names of the columns to be read.

    Raises:
        PageError: the row takes more than `ROW_BYTES`, the lists hold too many values, or a page is damaged.
    """
    metadata = file.metadata.row_group(group)
    chunks = [
        (file.schema.column(number), _Chunk(stream, metadata.column(number)))
        for number in range(metadata.num_columns)
        if file.schema.column(number).path.partition(".")[0] in columns
    ]
    nested = sum(chunk.values for column, chunk in chunks if column.max_repetition_level)
    if nested > NESTED_VALUES:
        raise PageError("too_many_values", f"lists of {nested} values, of which {NESTED_VALUES} are read at most")
    largest = max((page.size for _, chunk in chunks for page in chunk.pages), default=0)
    if largest > ROW_BYTES:
        raise PageError("row_too_large", f"a page of {largest} bytes, of which {ROW_BYTES} are read at most")
    if sum(chunk.most for _, chunk in chunks) <= _PLAIN_BYTES:
        return 0
    row = sum(chunk.largest_row(column.max_repetition_level) for column, chunk in chunks)
    if row > ROW_BYTES:
        raise PageError("row_too_large", f"a row that may take {row} bytes, of which {ROW_BYTES} are read at most")
    return row


class _Chunk:
    """The pages of a column in a row group.

    Attributes:
        most: bytes of all values, if each had the largest possible size.
    """

    def __init__(self, stream: BinaryIO, metadata: pq.ColumnChunkMetaData) -> None:
        self._stream, self._told = stream, metadata
        self.pages = list(_pages(stream, metadata))
        data = [page for page in self.pages if page.kind != _DICTIONARY_PAGE]
        self.values = sum(page.values for page in data)
        dictionary_bytes = max((page.size for page in self.pages if page.kind == _DICTIONARY_PAGE), default=0)
        self.most = sum(self._bytes(page, page.values, dictionary_bytes) for page in data)

    def _bytes(self, page: Page, values: int, longest: int) -> int:
        """Return the most bytes that a number of values of a page can take."""
        if page.encoding in _DICTIONARY_ENCODINGS:
            return values * longest
        return values * page.size if page.encoding == _DELTA_BYTE_ARRAY else page.size

    def largest_row(self, max_level: int) -> int:
        """Return the largest size of a row in bytes."""
        longest = max((self._longest(page) for page in self.pages if page.kind == _DICTIONARY_PAGE), default=0)
        largest = open_row = 0
        for page in self.pages:
            if page.kind == _DICTIONARY_PAGE:
                continue
            if not max_level:
                largest = max(largest, self._bytes(page, 1, longest))
                continue
            runs = row_runs(self._levels(page), max_level, page.values)
            open_row += self._bytes(page, runs.before, longest) if runs.before else 0
            largest = max(largest, open_row)
            if runs.last is not None:
                open_row = self._bytes(page, runs.last, longest)
                largest = max(largest, self._bytes(page, runs.longest, longest))
        return largest

    def _data(self, page: Page, begin: int = 0) -> bytes:
        """Return the uncompressed data of a page; compression begins at `begin`."""
        self._stream.seek(page.begin + begin)
        data = self._stream.read(page.stored - begin)
        name = self._told.compression.lower()
        if not page.is_compressed or name == "uncompressed":
            return data
        try:
            codec = pa.Codec("lz4_raw" if name == "lz4" else name)
            return bytes(codec.decompress(data, page.size - begin))
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise PageError("bad_parquet", f"a page cannot be decompressed: {error}") from error

    def _longest(self, page: Page) -> int:
        """Return the size in bytes of the longest value of a dictionary."""
        if self._told.physical_type != "BYTE_ARRAY":
            return page.size // max(1, page.values)
        data, position, longest = self._data(page), 0, 0
        while position < len(data):
            size = int.from_bytes(data[position : position + 4], "little")
            longest, position = max(longest, size), position + 4 + size
        return longest

    def _levels(self, page: Page) -> bytes:
        """Return the encoded repetition levels of a page."""
        if page.levels is not None:
            self._stream.seek(page.begin)
            return self._stream.read(page.levels[0])
        data = self._data(page)
        return data[4 : 4 + int.from_bytes(data[:4], "little")]


@record
class Runs:
    """Numbers of values of a page by row: of the row continued from the page before, of the longest, and of the last.

    `last` is None if no row begins in the page.
    """

    before: int
    longest: int
    last: int | None


def row_runs(levels: bytes, max_level: int, count: int) -> Runs:
    """Count the values of a page by row.

    Args:
        levels: repetition levels, in runs or packed (Parquet's RLE and bit-packing hybrid); 0 begins a row.
        max_level: the highest level.
        count: number of levels.
    """
    width = max_level.bit_length()
    before = longest = position = 0
    last: int | None = None
    while position < len(levels) and count > 0:
        header, position = _varint(levels, position)
        if header & 1:
            end = position + (header >> 1) * width
            packed = levels[position:end]
            position = end
            parts = (
                packed[begin : begin + _PIECE_BYTES * width] for begin in range(0, len(packed), _PIECE_BYTES * width)
            )
        else:
            size, value = min(header >> 1, count), int.from_bytes(levels[position : position + 1], "little")
            position += (width + 7) // 8
            count -= size
            if not value:
                longest, last = max(longest, last or 0, 1), 1
            elif last is None:
                before += size
            else:
                last += size
            continue
        for part in parts:
            bits = np.unpackbits(np.frombuffer(part, np.uint8), bitorder="little")
            within = bits[: len(bits) // width * width].reshape(-1, width).max(axis=1)[:count] > 0
            count -= len(within)
            starts = np.flatnonzero(~within)
            carried = int(starts[0]) if len(starts) else len(within)
            if last is None:
                before += carried
            else:
                last += carried
            if len(starts):
                lengths = np.diff(starts, append=len(within))
                longest, last = max(longest, last or 0, int(lengths.max())), int(lengths[-1])
    return Runs(before, max(longest, last or 0), last)


def _pages(stream: BinaryIO, metadata: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """Yield the pages of a column in a row group, up to the first without a header, where readers stop too."""
    position = metadata.data_page_offset
    if metadata.has_dictionary_page and 0 < (metadata.dictionary_page_offset or 0) < position:
        position = metadata.dictionary_page_offset
    values = 0
    while values < metadata.num_values:
        try:
            fields, size = _header(stream, position)
        except IndexError:
            return
        kind, unpacked, stored = (_number(fields, number, -1) for number in (1, 2, 3))
        if stored < 0 or unpacked < 0:
            return
        position += size
        own = fields.get({_DICTIONARY_PAGE: 7, _DATA_PAGE: 5, _DATA_PAGE_V2: 8}.get(kind, 0))
        if isinstance(own, dict):
            is_second = kind == _DATA_PAGE_V2
            count, encoding = _number(own, 1), _number(own, 4 if is_second else 2)
            levels = (_number(own, 6), _number(own, 5)) if is_second else None
            if min(count, *(levels or (0,))) < 0:
                return
            yield Page(kind, position, stored, unpacked, count, encoding, levels, own.get(7) is not False)
            values += count if kind != _DICTIONARY_PAGE else 0
        position += stored


def _number(fields: dict[int, Any], number: int, absent: int = 0) -> int:
    """Return the integer in a field; any other value counts as absent, as it does for readers."""
    value = fields.get(number)
    return value if type(value) is int else absent


def _header(stream: BinaryIO, position: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a page header by number, and its size in bytes.

    Raises:
        IndexError: there is no header.
    """
    size = _HEADER_BYTES
    while True:
        stream.seek(position)
        data = stream.read(size)
        try:
            return _struct(data, 0)
        except IndexError:
            if len(data) < size or size >= _LONGEST_HEADER:
                raise
            size *= 16


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _struct(data: bytes, position: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Read a struct in Thrift's compact protocol: its fields by number, if they are numbers, booleans or structs."""
    fields: dict[int, Any] = {}
    number = 0
    while head := data[position]:
        position += 1
        if head >> 4:
            number += head >> 4
        else:
            zigzag, position = _varint(data, position)
            number = zigzag >> 1
        fields[number], position = _value(head & 15, data, position, depth)
    return fields, position + 1


def _value(kind: int, data: bytes, position: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, position
    if kind == 3:
        return data[position], position + 1
    if kind in (4, 5, 6):
        zigzag, position = _varint(data, position)
        return (zigzag >> 1) ^ -(zigzag & 1), position
    if kind == 8:
        size, position = _varint(data, position)
        data[position + size - 1]  # beyond what was read
        return None, position + size
    if kind == 7:
        return None, position + 8
    if kind in (9, 10) and depth < 8:
        size, inner = data[position] >> 4, data[position] & 15
        size, position = (size, position + 1) if size < 15 else _varint(data, position + 1)
        for _ in range(size):
            _, position = _value(3 if inner < 3 else inner, data, position, depth + 1)
        return None, position
    if kind == 12 and depth < 8:
        return _struct(data, position, depth + 1)
    if kind in (9, 10, 11, 12):
        raise PageError("bad_parquet", f"a page header holds a field of kind {kind} that is not read")
    raise IndexError
