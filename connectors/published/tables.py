"""Tables as rows: Parquet, Arrow (files, and the streams that `save_to_disk` of `datasets` writes), JSON Lines.

A row is a dict of Python values with its position: the byte offset in JSON Lines, the 0-based number of the row in
Parquet and Arrow, where a row has no offset of its own. Rows are read in batches of a few megabytes, so that a file of
any size takes little memory; of Arrow, one record batch is held at a time. This module does not interpret columns.

The possible size of a row is checked before pages and buffers are decompressed (`parquet_pages`, `arrow_buffers`), and
its actual size before it becomes Python values (`row_weights`). A row that is too large is replaced by an error.

A cell of JSON (`arrow.json`, the `Json` of `datasets`) becomes the value of its text, at any level.

Null fields of a struct are dropped, since Parquet fills ragged structs with nulls: a null cannot be distinguished from
an absent field. NaN is null. Bytes that are UTF-8 are text; of other bytes only the digest is kept, as text. Times are
ISO 8601 texts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import date, time, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.connectors.connector import Blob, FileSlice
from trajmill.connectors.published.arrow_buffers import BatchMessage, PassedOver, batch_messages
from trajmill.connectors.published.parquet_pages import PageError, largest_row
from trajmill.connectors.published.row_weights import row_weights
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.lines import LINE_BYTES, is_by_line, json_lines
from trajmill.connectors.reading.places import places_by_beginning
from trajmill.connectors.reading.values import JsonError, json_value
from trajmill.schemas import ParseError
from trajmill.schemas.record import record

PARQUET: Final = b"PAR1"
ARROW_FILE: Final = b"ARROW1\x00\x00"
ARROW_STREAM: Final = b"\xff\xff\xff\xff"

BATCH_BYTES: Final = 8 << 20
"""Approximate size of the batches in which rows become Python values, in uncompressed bytes as stated by the file."""

RECORD_BATCH_BYTES: Final = 640 << 20
"""Largest size in bytes of a record batch of an Arrow file, packed and unpacked."""

_ROWS: Final = 4096
_ROWS_BYTES: Final = 256 << 20
"""Largest size in bytes of rows that are decoded together, if each had the largest possible size."""

_BUFFER: Final = 1 << 20
_NAMES: Final = 16 << 20
_COLUMNS: Final = 200_000
_DEPTH: Final = 64
_FAULTS: Final = (pa.ArrowException, OSError, ValueError, OverflowError, ArithmeticError)
"""Exceptions of pyarrow for damaged files: its own, and Python's for bad values."""

_PLAIN: Final = frozenset({str, int, bool, type(None)})

Row = dict[str, Any]
Found = Iterator[tuple[int, Row | ParseError]]


def kind_of(head: bytes) -> str | None:
    """Return `parquet`, `arrow` or `stream` by the first bytes of a file; None for anything else."""
    if head.startswith(PARQUET):
        return "parquet"
    if head.startswith(ARROW_FILE):
        return "arrow"
    return "stream" if head.startswith(ARROW_STREAM) and len(head) > 8 and b"\x10\x00\x00\x00" in head[:16] else None


class Table:
    """An open table: its columns, and its rows one after the other.

    Raises:
        ParseError: the file is no table, or its schema or footer is damaged.
    """

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        with blob.open() as stream:
            self.kind = kind_of(stream.read(16)) or "json"
        self.schema: pa.Schema | None = None if self.kind == "json" else self._raise_as_parse_error(self._read_schema)

    def _raise_as_parse_error(self, read: Callable[[], Any], position: int = 0) -> Any:
        try:
            return read()
        except _FAULTS as error:
            raise self._fault(position, f"bad_{self.kind}", _describe(error)) from error

    def _fault(self, position: int, reason: str, detail: str) -> ParseError:
        return ParseError(self._blob.uri, position, reason, detail)

    def _read_schema(self) -> pa.Schema:
        with closing(self._blob.seekable()) as stream:
            if self.kind == "parquet":
                schema = self._parquet(stream).schema_arrow
            else:
                schema = (pa.ipc.open_file if self.kind == "arrow" else pa.ipc.open_stream)(stream).schema
            names_in(schema)
            if len(set(schema.names)) < len(schema.names):
                raise self._fault(0, "repeated_column", "two columns have one name")
            return schema

    def _parquet(self, stream: BinaryIO) -> pq.ParquetFile:
        """Open the file.

        Raises:
            ParseError: the file states more rows than it has bytes.
        """
        size = stream.seek(0, 2)
        stream.seek(0)
        file = pq.ParquetFile(
            stream,
            buffer_size=_BUFFER,
            pre_buffer=False,
            thrift_string_size_limit=_NAMES,
            thrift_container_size_limit=_COLUMNS,
            arrow_extensions_enabled=True,
        )
        self._counted(file.metadata.num_rows, size)
        return file

    def rows(self, columns: Sequence[str] | None = None, *, from_first: bool = False) -> Found:
        """Yield (position, row) of each row in file order; a `ParseError` replaces a row that cannot be read.

        Args:
            columns: names of the requested columns; by default all except those of bytes. JSON rows are always
                complete.
            from_first: whether to yield all rows of Parquet and Arrow, even if the blob's slice holds others.

        Raises:
            ParseError: reading cannot continue.
        """
        if self.kind == "json":
            return _json_rows(self._blob)
        return self._batches(columns, None if from_first else self._blob.file_slice)

    def _batches(self, columns: Sequence[str] | None, wanted: FileSlice | None) -> Found:
        position = 0
        with closing(self._blob.seekable()) as stream:
            if self.kind == "parquet":
                batches = self._parquet_batches(stream, columns, wanted)
            else:
                batches = self._arrow_batches(stream, columns, wanted)
            while True:
                batch = self._raise_as_parse_error(lambda: next(batches, None), position)
                if batch is None:
                    return
                if isinstance(batch, int):
                    position += batch
                    continue
                if isinstance(batch, _Unread):
                    yield position, self._fault(position, batch.reason, batch.detail)
                    position += batch.rows
                    continue
                yield from self._values(batch, position)
                position += batch.num_rows

    def _wanted(self, columns: Sequence[str] | None) -> list[str]:
        assert self.schema is not None
        readable = [field.name for field in self.schema if columns is not None or not _is_blob(field.type)]
        return [name for name in dict.fromkeys(readable) if columns is None or name in columns]

    def _parquet_batches(
        self, stream: BinaryIO, columns: Sequence[str] | None, wanted: FileSlice | None
    ) -> Iterator[pa.RecordBatch | _Unread | int]:
        """Yield the batches of the row groups; the number of rows for a group outside of the slice."""
        file = self._parquet(stream)
        names = self._wanted(columns)
        if not names:
            return
        with closing(self._blob.seekable()) as pages:
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                if wanted is not None and not wanted.holds(_begin_of(group)):
                    yield group.num_rows
                    continue
                try:
                    row = largest_row(file, pages, number, names)
                except PageError as error:
                    yield _Unread(error.reason, f"{error}, in a group of {group.num_rows} rows", group.num_rows)
                    continue
                count = min(max(1, BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)), _ROWS)
                count = min(count, max(1, _ROWS_BYTES // row)) if row else count
                yield from file.iter_batches(count, row_groups=[number], columns=names, use_threads=False)

    def _arrow_batches(
        self, stream: BinaryIO, columns: Sequence[str] | None, wanted: FileSlice | None
    ) -> Iterator[pa.RecordBatch | int]:
        """Yield the record batches; the number of rows for a batch outside of the slice."""
        names = self._wanted(columns)
        size, begin = stream.seek(0, 2), 0
        stream.seek(0)
        most = size
        if self.kind == "arrow":
            most, begin = pa.ipc.open_file(stream).num_record_batches, len(ARROW_FILE)
        stream.seek(begin)
        sliced = PassedOver(stream)
        batches = pa.ipc.open_stream(sliced)
        if batches.schema != self.schema:
            raise ValueError("the schema at its beginning is not that at its end")
        with closing(self._blob.seekable()) as messages:
            for message in islice(_in_slice(batch_messages(messages, begin), begin, wanted), most):
                if wanted is not None and not wanted.holds(message.begin):
                    sliced.pass_over(message)
                    yield message.rows
                    continue
                if message.bytes > RECORD_BATCH_BYTES:
                    detail = f"a record batch of {message.bytes} bytes, of which {RECORD_BATCH_BYTES} are read at most"
                    raise ParseError(self._blob.uri, -1, "batch_too_large", detail)
                batch = batches.read_next_batch()
                self._counted(batch.num_rows, size)
                batch.validate(full=True)
                yield batch.select(names)

    def _counted(self, rows: int, size: int) -> int:
        """Return the stated number of rows after checking it against the file's size in bytes."""
        if not 0 <= rows <= size:
            raise self._fault(0, "too_many_rows", f"{rows} rows stated in {size} bytes")
        return rows

    def _values(self, batch: pa.RecordBatch, position: int) -> Found:
        """Yield the rows of a batch, some at a time by their size."""
        weights = self._raise_as_parse_error(lambda: row_weights(batch), position)
        first = 0
        while first < batch.num_rows:
            taken = np.cumsum(weights[first : first + _ROWS])
            count = int(np.searchsorted(taken, BATCH_BYTES, "right")) or 1
            if weights[first] > LINE_BYTES:
                detail = f"a row of {weights[first]} bytes, of which {LINE_BYTES} are read at most"
                yield position + first, self._fault(position + first, "row_too_large", detail)
            else:
                yield from self._rows(batch.slice(first, count), position + first)
            first += count

    def _rows(self, batch: pa.RecordBatch, position: int) -> Found:
        """Yield the rows of a batch, one by one if a value cannot be a Python value, so that only its row is lost."""
        try:
            for number, row in enumerate(_python(batch)):
                yield position + number, row
        except _UnreadableError:
            for number in range(batch.num_rows):
                try:
                    yield position + number, _python(batch.slice(number, 1))[0]
                except _UnreadableError as error:
                    yield position + number, self._fault(position + number, "bad_value", str(error))


def _in_slice(messages: Iterator[BatchMessage], begin: int, wanted: FileSlice | None) -> Iterator[BatchMessage]:
    """Yield the messages up to the end of a slice. Damage before the slice ends them; its own slice reports it.

    Raises:
        ValueError: a message is damaged.
    """
    while True:
        try:
            message = next(messages, None)
        except ValueError:
            if wanted is None or wanted.holds(begin):
                raise
            return
        if message is None or (wanted is not None and wanted.end is not None and message.begin >= wanted.end):
            return
        begin = message.end
        yield message


def _begin_of(group: pq.RowGroupMetaData) -> int:
    """Return the offset of the first page of a row group, as its first column states it."""
    column = group.column(0)
    return max(0, int(column.dictionary_page_offset or column.data_page_offset))


@record
class _Unread:
    """Rows of a row group that are not read, and the reason."""

    reason: str
    detail: str
    rows: int


class _UnreadableError(Exception):
    """Error for a batch with a value that Python cannot represent."""


def _python(batch: pa.RecordBatch) -> list[Row]:
    try:
        batch.validate(full=True)
        rows = [{name: plain_value(value) for name, value in row.items()} for row in batch.to_pylist()]
        for field in batch.schema:
            if _holds_json(field.type):
                for row in rows:
                    row[field.name] = _parse_json_texts(row[field.name], field.type)
    except (*_FAULTS, RecursionError) as error:
        raise _UnreadableError(_describe(error)) from error
    return rows


@lru_cache(256)
def _holds_json(kind: Any) -> bool:
    """Check if a value of the type is or contains JSON text."""
    if pa.types.is_struct(kind):
        return any(_holds_json(field.type) for field in kind.fields)
    return isinstance(kind, pa.JsonType) or (_is_list(kind) and _holds_json(kind.value_type))


def _parse_json_texts(value: Any, kind: Any) -> Any:
    """Parse the JSON texts in the value; a text that is no JSON is kept."""
    if value is None or not _holds_json(kind):
        return value
    if pa.types.is_struct(kind):
        kinds = {field.name: field.type for field in kind.fields}
        return {name: _parse_json_texts(member, kinds[name]) for name, member in value.items()}
    if _is_list(kind):
        return [_parse_json_texts(element, kind.value_type) for element in value]
    try:
        return json_value(value)
    except JsonError:
        return value


def _is_list(kind: Any) -> bool:
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


def _is_blob(kind: pa.DataType) -> bool:
    """Check if the type is bytes, or a picture as `datasets` stores it: a struct of bytes and path."""
    if pa.types.is_struct(kind):
        return any(field.name == "bytes" and _is_blob(field.type) for field in kind.fields)
    if _is_list(kind):
        return _is_blob(kind.value_type)
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def plain_value(value: Any, depth: int = 0) -> Any:
    """Convert a value to a JSON value, as described in the module's docstring.

    Raises:
        ValueError: the value nests more than 64 levels deep.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if depth > _DEPTH:
        raise ValueError(f"it nests more than {_DEPTH} levels deep")
    if kind is dict:
        return {key: plain_value(member, depth + 1) for key, member in value.items() if member is not None}
    if kind is list or kind is tuple:
        return [plain_value(element, depth + 1) for element in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"sha256:{hashlib.sha256(value).hexdigest()}"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return str(value)
    return None


def _json_rows(blob: Blob) -> Found:
    """Yield the rows of JSON Lines, or of a document that is an array of objects, each with its byte offset."""
    if is_by_line(blob):
        for offset, value in json_lines(blob):
            bad = isinstance(value, dict | ParseError)
            yield offset, value if bad else ParseError(blob.uri, offset, "not_an_object", "wanted an object as a row")
        return
    value, data = json_document(blob)
    rows = value if isinstance(value, list) else [value]
    for row, offset in zip(rows, places_by_beginning(data, rows) if isinstance(value, list) else [0], strict=True):
        fault = ParseError(blob.uri, offset, "not_an_object", "wanted an object as a row")
        yield offset, row if isinstance(row, dict) else fault


def names_in(schema: pa.Schema) -> list[str]:
    """Return the names of all columns, and of the fields of structs within them, through lists, joined by dots.

    Raises:
        UnicodeDecodeError: a name is no UTF-8.
    """
    return [name for field in schema for name in _names(field.name, field.type)]


def _names(name: str, kind: Any) -> Iterator[str]:
    yield name
    while _is_list(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        for field in kind.fields:
            yield from _names(f"{name}.{field.name}", field.type)
