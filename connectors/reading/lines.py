"""Lines of a stream, each with its byte offset, and the JSON values in them: the first step of line-oriented formats.

A killed writer, or two concurrent writers, leave lines that are no JSON but contain whole records: half a record before
a whole one, two records without a line end between them, zeros for bytes that never reached the disk, a byte of another
encoding. Whole records are returned as values, the rest as faults. The caller turns such a `ParseError` into a reject
or lets it end the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import RawIOBase
from itertools import takewhile
from typing import Any, BinaryIO, Final

from trajmill.connectors.connector import Blob, FileSlice
from trajmill.connectors.reading.values import BOM, JsonError, json_value, value_or_none
from trajmill.schemas import ParseError
from trajmill.schemas.record import record

LINE_BYTES: Final = 64 << 20
"""Largest line, in bytes, that is held in memory; a longer one becomes a reject."""

WHOLE_BYTES: Final = 256 << 20
"""Largest file, in bytes, of formats that cannot be read piece by piece."""

_SKIPPED_BYTES: Final = 1 << 20
_EXCERPT: Final = 4096

_NOTHING: Final = b" \t\r\0"
"""Characters between two values of a line that are no lost text; zeros alone are reported."""

_GLUED: Final = 1024
"""Largest number of whole values after half a value; each is held until the first of them is found."""

_KEY: Final = 256

_AHEAD: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]]', re.DOTALL)
_BACK: Final = re.compile(rb'"(?:[^"]++|"(?=(?:\\\\)*+\\(?!\\)))*+"|[{}\[\]]', re.DOTALL)
"""Strings and brackets of a line, read forward (`_AHEAD`), and of its bytes in reverse order (`_BACK`).

A quote after an odd number of backslashes belongs to its string, so the beginning of a string is known from either end.
"""


@record
class Line:
    """Line without its line end.

    `data` is None for a line over the limit. `ended` is True if it had a line end.
    """

    offset: int
    data: bytes | None
    ended: bool


class LineStream(RawIOBase):
    """Stream over lines that are generated on reading."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        super().__init__()
        self._restart(lines)

    def _restart(self, lines: Iterator[bytes], offset: int = 0) -> None:
        """Continue with other lines, the first of which begins at an offset."""
        self._lines, self._left, self._offset = lines, memoryview(b""), offset

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._left:
            self._left = memoryview(next(self._lines, b""))
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        self._offset += count
        return count


def lines(stream: BinaryIO, limit: int = LINE_BYTES, start: int = 0) -> Iterator[Line]:
    r"""The lines of a stream with their offsets, split at `\n`; a `\r` before it and a leading BOM are taken off.

    Args:
        limit: bytes of a line above which it is not held.
        start: offset of the stream, at which a line begins.
    """
    while data := stream.readline(limit + 1):
        size, ended = len(data), data.endswith(b"\n")
        if size - ended > limit:
            data = b""
            while not ended and (more := stream.readline(_SKIPPED_BYTES)):
                size, ended = size + len(more), more.endswith(b"\n")
            yield _line(start, None, ended)
        else:
            yield _line(start, data.removesuffix(b"\n"), ended)
        start += size


def _line(start: int, data: bytes | None, ended: bool) -> Line:
    if data is not None and start == 0 and data.startswith(BOM):
        return Line(len(BOM), data[len(BOM) :].removesuffix(b"\r"), ended)
    return Line(start, data if data is None else data.removesuffix(b"\r"), ended)


def first_line(blob: Blob) -> Line | None:
    """Return the first line that is not blank; None if there is none."""
    with blob.open() as stream:
        return next((line for line in lines(stream) if line.data is None or line.data.strip()), None)


def is_by_line(blob: Blob) -> bool:
    """Check whether a blob of objects has one per line, by its first line that is not blank.

    That line is a whole object, the damaged beginning of one, or too long to check.
    """
    first = first_line(blob)
    if first is None or first.data is None:
        return first is not None
    try:
        return isinstance(json_value(first.data), dict)
    except JsonError:
        begin = first.data.strip(_NOTHING + b"\n")
        return begin[:1] == b"{" and len(begin) > 1 and first.ended


def line_values(
    stream: BinaryIO, uri: str, member: str = "", wanted: FileSlice | None = None
) -> Iterator[tuple[Line, Any | ParseError]]:
    """Yield (line, value) of each line that is not blank; the value of invalid JSON is a `ParseError`.

    With `wanted`, the stream must be at its beginning, and only the lines that begin in the slice are returned. The
    reasons are those of `line_fault`, and `line_too_long` over `LINE_BYTES`. An invalid line that contains whole values
    gives each of them, and a fault for each stretch between them, with that part as their line. A line with too many
    values is not searched for them.
    """
    if wanted is None:
        return _values(lines(stream), uri, member)
    begun = lines(stream, start=_skip(stream, wanted.begin))
    return _values(takewhile(lambda line: wanted.holds(line.offset), begun), uri, member)


def _skip(stream: BinaryIO, begin: int) -> int:
    """Move a stream from its beginning to the first line that begins at or after an offset; return its offset."""
    if begin == 0:
        return 0
    offset = stream.seek(begin - 1) if stream.seekable() else len(stream.read(begin - 1))
    while data := stream.readline(_SKIPPED_BYTES):
        offset += len(data)
        if data.endswith(b"\n"):
            break
    return offset


def values_of_line(line: Line, uri: str, member: str = "") -> Iterator[tuple[Line, Any | ParseError]]:
    """Yield the results of `line_values` for one line."""
    return _values((line,), uri, member)


def _values(some: Iterable[Line], uri: str, member: str) -> Iterator[tuple[Line, Any | ParseError]]:
    for line in some:
        data = line.data
        if data is None:
            yield line, ParseError(uri, line.offset, "line_too_long", f"a line of more than {LINE_BYTES} bytes", member)
        elif data and not data.isspace():
            try:
                value = json_value(data)
            except JsonError as fault:
                yield from _parts(line, data, fault, uri, member)
            else:
                yield line, value


def _parts(line: Line, data: bytes, fault: JsonError, uri: str, member: str) -> Iterator[tuple[Line, Any | ParseError]]:
    """Yield the whole values in a line with a fault, and a fault for each stretch between them."""
    end = 0
    for begin, after, value in _whole_values(data) if fault.reason != "too_many_values" else ():
        yield from _stretch(line, end, begin, uri, member)
        yield _part(line, begin, after), value
        end = after
    if end == 0:
        yield line, line_fault(fault, line, uri, member)
    else:
        yield from _stretch(line, end, len(data), uri, member)


def _part(line: Line, begin: int, end: int) -> Line:
    data = line.data or b""
    return Line(line.offset + begin, data[begin:end], line.ended or end < len(data))


def _stretch(line: Line, begin: int, end: int, uri: str, member: str) -> Iterator[tuple[Line, ParseError]]:
    """Yield the fault of a line's stretch between whole values, if it is not blank."""
    part = _part(line, begin, end)
    try:
        json_value(part.data or b"")
    except JsonError as error:
        if error.reason != "empty":
            yield part, line_fault(error, part, uri, member)
    else:
        yield part, line_fault(JsonError("bad_json", 0, "no object or array"), part, uri, member)


def _whole_values(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield (begin, end, value) of the whole objects and arrays in a damaged line, in order.

    They follow each other from the line's beginning, and after half a value up to its end. A value where half a value
    expects one is nested in it, unless it begins with the same key, as the records of a log do.
    """
    end = 0
    for begin, after in _find_balanced(_AHEAD, data):
        value = value_or_none(data[begin:after])
        if data[end:begin].strip(_NOTHING) or value is None:
            break
        yield begin, after, value
        end = after
    rest = data[end:]
    is_half = _is_half(rest)
    values: list[tuple[int, int, Any]] = []
    last = len(rest)
    for skipped, taken in _find_balanced(_BACK, rest[::-1]) if rest.strip(_NOTHING) else ():
        begin, after = len(rest) - taken, len(rest) - skipped
        value = value_or_none(rest[begin:after])
        is_nested = is_half or rest[max(0, begin - 8) : begin].rstrip(_NOTHING).endswith((b":", b"["))
        if is_nested and _first_key(rest) != _first_key(rest[begin : begin + _KEY]):
            break
        if rest[after:last].strip(_NOTHING) or value is None or len(values) == _GLUED:
            break
        values.append((end + begin, end + after, value))
        last = begin
    yield from reversed(values)


def _first_key(data: bytes) -> bytes:
    return data[:_KEY].strip(_NOTHING).partition(b":")[0]


def _find_balanced(tokens: re.Pattern[bytes], data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of stretches with balanced brackets, in the order of the bytes."""
    depth = begin = 0
    for token in tokens.finditer(data):
        sign = token[0]
        if sign[:1] == b'"':
            continue
        opens = sign in ((b"{", b"[") if tokens is _AHEAD else (b"}", b"]"))
        if opens and depth == 0:
            begin = token.start()
        depth += 1 if opens else -1
        if depth < 0:
            return
        if depth == 0:
            yield begin, token.end()


def _is_half(data: bytes) -> bool:
    """Check whether the data is only the beginning of a value."""
    try:
        json_value(data)
    except JsonError as error:
        return error.reason == "truncated"
    return False


def json_lines(blob: Blob, member: str = "") -> Iterator[tuple[int, Any | ParseError]]:
    """Yield (offset, value) of each line of a member, or of those in the blob's slice, as in `line_values`.

    If the stream itself fails, its fault is the last value, so that a log with a damaged end keeps its beginning.
    """
    with blob.open(member) as stream:
        try:
            for line, value in line_values(stream, blob.uri, member, blob.file_slice):
                yield line.offset, value
        except ParseError as error:
            yield error.offset, error


def line_fault(error: JsonError, line: Line, uri: str, member: str = "") -> ParseError:
    """Return the error of a line that is no JSON: `truncated` if the file ends in it, otherwise the specific reason.

    The offset is that of the line, which is the record.
    """
    reason = ("bad_json" if error.reason == "truncated" else error.reason) if line.ended else "truncated"
    detail = f"wanted a JSON value: {error}"
    return ParseError(uri, line.offset, reason, detail, member, (line.data or b"")[:_EXCERPT])
