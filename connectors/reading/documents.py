"""Members that are one JSON document, or JSON values one after the other: whole, or by their first bytes.

A document is read whole, or by its outline if its format names the parts that may be long; see `reading.large.outline`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO, Final

from trajmill.connectors.connector import HEAD_BYTES, Blob
from trajmill.connectors.reading.arrays import elements, with_places
from trajmill.connectors.reading.large.outline import ARRAY, DocumentError, Shape, outline, read_if_small
from trajmill.connectors.reading.lines import is_by_line, json_lines, lines
from trajmill.connectors.reading.values import (
    BOM,
    DEPTH,
    JsonError,
    first_value,
    json_value,
    object_or_none,
    value_or_none,
)
from trajmill.schemas import ParseError, json_text

_TOKEN: Final = re.compile(rb'(?:[^"{}\[\],]++|"(?:[^"\\]++|\\.)*+")*+(["{}\[\],]|\Z)', re.DOTALL)
"""Next character that decides where a value ends, after any strings and other text; empty at the end."""

_OPENS: Final = {b"{": b"}", b"[": b"]"}
_SPACE: Final = re.compile(r"[ \t\r\n\0]*")
_EXCERPT: Final = 256
"""Bytes before and after an error that its reject shows."""

_LINES: Final = 64
_BLANK_BYTES: Final = 4096
_NOTHING: Final = b" \t\r\n\0"
"""Characters that may follow a value that is the whole of a file."""


def json_document(blob: Blob, member: str = "", shapes: Sequence[Shape] = ()) -> tuple[Any, bytes]:
    """Return the JSON value of a member, and its bytes; no bytes for a document read by its outline.

    Args:
        shapes: Parts of a large document that may be long, as in `outline`; empty to always load the document.

    Raises:
        ParseError: `empty`, `not_utf8`, `truncated`, `nested_too_deeply` or `bad_json`, with the byte of the error;
            `value_too_long` for a part of a large document.
    """
    data = read_if_small(blob, member) if shapes else blob.read(member)
    if data is None:
        return large_document(blob.seekable(member), blob.uri, shapes, member), b""
    return document_in(data, blob.uri, member), data


def document_in(data: bytes, uri: str, member: str = "", start: int | None = None, skipped: int = 0) -> Any:
    """Return the JSON value of bytes.

    Args:
        data: Bytes of a member, or of a file in an archive.
        start: Offset of the compressed source of `data`, for errors; None if `data` is the member itself.
        skipped: Bytes of the member before `data`.

    Raises:
        ParseError: As in `json_document`.
    """
    try:
        return json_value(data)
    except JsonError as error:
        at = error.offset
        excerpt = data[max(0, at - _EXCERPT) : at + _EXCERPT]
        raise _fault(error, uri, member, skipped + at if start is None else start, excerpt) from None


def large_document(
    stream: BinaryIO, uri: str, shapes: Sequence[Shape], member: str = "", start: int | None = None
) -> Any:
    """Return the JSON value of a large document by its outline; arguments as in `document_in` and `outline`.

    The stream is closed with the value.
    """
    try:
        return outline(stream, uri, member, shapes)
    except DocumentError as error:
        excerpt = error.bytes_from(error.offset - _EXCERPT, error.offset + _EXCERPT)
        raise _fault(error, uri, member, error.offset if start is None else start, excerpt) from None


def _fault(error: JsonError, uri: str, member: str, offset: int, excerpt: bytes) -> ParseError:
    return ParseError(uri, offset, error.reason, f"wanted a JSON document: {error}", member, excerpt)


@dataclass(frozen=True, slots=True)
class Opening:
    """Beginning of a file: its JSON values, the last possibly truncated; one value of a document, several of lines."""

    lines: bool
    values: tuple[Any, ...]


@lru_cache(8)
def opening(head: bytes) -> Opening | None:
    """Read the JSON values of the first bytes of a file; None if they are no JSON.

    The values are shared and must not be changed.
    """
    data = head.removeprefix(BOM).lstrip()
    if data[:1] not in (b"{", b"["):
        return None
    first, _, rest = data.partition(b"\n")
    value = _head_value(first) if rest else None
    if value is None or not rest.strip(_NOTHING):
        document = _head_value(data)
        if document is not None:
            return Opening(False, (document,))
    if value is None:
        value = _cut_value(data)
        return None if value is None else Opening(False, (value,))
    lines = [line for line in rest.split(b"\n") if line.strip()][: _LINES - 1]
    later = [value_or_none(line) for line in lines]
    if lines and later[-1] is None and len(head) >= HEAD_BYTES:
        later[-1] = _cut_value(lines[-1])
    return Opening(True, (value, *(row for row in later if row is not None)))


@lru_cache(64)
def head_object(line: bytes) -> dict[str, Any] | None:
    """Return `object_or_none` of a line of a file's beginning, cached for several formats; it must not be changed."""
    return object_or_none(line)


def _head_value(data: bytes) -> Any:
    """Return the array or object that the data are; None for the beginning of one, which is not parsed."""
    if data.rstrip(b" \t\r\n\0")[-1:] not in (b"]", b"}"):
        return None
    return head_object(data) if data[:1] == b"{" else value_or_none(data)


@lru_cache(8)
def head_rows(head: bytes) -> tuple[dict[str, Any], ...]:
    """Return the first rows of a file: its lines, or the elements of one array; they must not be changed."""
    start = opening(head)
    values = () if start is None else start.values
    listed = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    return tuple(row for row in listed if isinstance(row, dict))


@lru_cache(2)
def row_texts(head: bytes, most: int) -> tuple[bytes, ...]:
    """Return the first rows of a file, at most `most`, as JSON: its lines, or the elements of one array."""
    begin = head.removeprefix(BOM).lstrip()
    if begin[:1] != b"[":
        return tuple(begin.split(b"\n", most)[:most])
    start = opening(head)
    rows = start.values[0] if start is not None and not start.lines else None
    listed = rows[:most] if isinstance(rows, list) else ()
    return tuple(json_text(row).encode("utf-8", "surrogatepass") for row in listed)


def json_rows(blob: Blob, member: str = "") -> Iterator[tuple[int, Any | ParseError]]:
    """Yield (offset, row) of the rows of a member: its lines, as in `json_lines`, or the elements of one array.

    Raises:
        ParseError: As in `json_document`, for an array.
    """
    with blob.open(member) as stream:
        is_array = stream.read(_EXCERPT).removeprefix(BOM).lstrip()[:1] == b"["
    if not is_array:
        yield from json_lines(blob, member)
        return
    value, data = json_document(blob, member, [[]])
    yield from with_places(data, value) if isinstance(value, ARRAY) else ()


def first_element(blob: Blob) -> dict[str, Any] | None:
    """Return the first element of a blob that is one JSON array of objects; None for others, and arrays as lines."""
    with blob.open() as stream:
        line = next(
            (line_read for line_read in lines(stream) if line_read.data is None or line_read.data.strip()), None
        )
        is_first = line is not None and line.ended and bool(stream.read(_BLANK_BYTES).strip())
    if line is None or (is_first and line.data is not None and value_or_none(line.data) is not None):
        return None
    with blob.open() as stream:
        try:
            return next((object_or_none(data) for _, data in elements(stream, blob.uri, ())), None)
        except ParseError:
            return None


def holds_rows(blob: Blob) -> bool:
    """Check whether a blob contains objects, one per line or as the elements of one array."""
    return is_by_line(blob) or first_element(blob) is not None


def array_values(
    stream: BinaryIO, uri: str, path: Sequence[str], member: str = ""
) -> Iterator[tuple[int, Any | ParseError, bytes]]:
    """Yield (offset, value, bytes) of each element of an array; the value of invalid JSON is a `ParseError`.

    Args:
        stream, uri, path, member: As in `arrays.elements`.

    Raises:
        ParseError: As in `arrays.elements`.
    """
    for offset, data in elements(stream, uri, path, member):
        try:
            value = document_in(data, uri, member, offset)
        except ParseError as error:
            value = error
        yield offset, value, data


def _cut_value(data: bytes) -> Any:
    """Return the value at the beginning of a document, up to its last whole element; None if there is none."""
    closers = b""
    last: tuple[int, bytes] | None = None
    for token in _TOKEN.finditer(data):
        sign = token[1]
        if sign == b",":
            last = token.start(1), closers
        elif sign in _OPENS:
            closers = _OPENS[sign] + closers
            if len(closers) > DEPTH:
                break
        elif sign in (b'"', b""):
            break
        elif closers[:1] != sign:
            return None
        else:
            closers = closers[1:]
            if not closers:
                break
    return None if last is None else value_or_none(data[: last[0]] + last[1])


def iterate_values(data: bytes, uri: str) -> Iterator[tuple[int, Any]]:
    """Yield (offset, value) of adjacent JSON values with any white space between them.

    Raises:
        ParseError: As in `json_document`, at the invalid value.
    """
    text = data.decode("utf-8-sig", "surrogateescape")
    position, offset = 0, len(data) - len(text.encode("utf-8", "surrogateescape"))
    while True:
        begin = _SPACE.match(text, position)
        assert begin is not None
        offset += begin.end() - position
        position = begin.end()
        if position == len(text):
            return
        try:
            end = first_value(text, position)[1]
        except JsonError:
            end = len(text)
        part = text[position:end].encode("utf-8", "surrogateescape")
        yield offset, document_in(part, uri, "", offset)
        offset += len(part)
        position = end
