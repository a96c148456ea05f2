"""Lines of a stream, each with its byte offset, and the JSON values in them: the first step of line-oriented formats.

What a bad line means is for the caller: it turns a `ParseError` into a reject or lets it end the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from trajmill.connectors.connector import Blob
from trajmill.connectors.reading.values import BOM, JsonError, json_value
from trajmill.schemas import ParseError
from trajmill.schemas.record import record

LINE_BYTES: Final = 128 << 20
"""A longer line is not held in memory; it becomes a reject."""

WHOLE_BYTES: Final = 256 << 20
"""A longer file is refused by formats that cannot be read piece by piece."""

_SKIPPED_BYTES: Final = 1 << 20
_EXCERPT: Final = 4096


@record
class Line:
    """A line without its line end; `data` is None if it was longer than the limit. `ended`: it had a line end."""

    offset: int
    data: bytes | None
    ended: bool


def lines(stream: BinaryIO, limit: int = LINE_BYTES) -> Iterator[Line]:
    r"""The lines of a stream with their offsets, split at `\n`; a `\r` before it and a leading BOM are taken off."""
    start = 0
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
    """The first line that is not blank; None if there is none."""
    with blob.open() as stream:
        return next((line for line in lines(stream) if line.data is None or line.data.strip()), None)


def is_by_line(blob: Blob) -> bool:
    """Whether a blob of objects holds one a line, by its first line that is not blank.

    That is an object of its own, or begins as one and is damaged, or is too long to be looked at.
    """
    first = first_line(blob)
    if first is None or first.data is None:
        return first is not None
    try:
        return isinstance(json_value(first.data), dict)
    except JsonError:
        return first.data.lstrip()[:1] == b"{" and len(first.data.strip()) > 1 and first.ended


def line_values(stream: BinaryIO, uri: str, member: str = "") -> Iterator[tuple[Line, Any | ParseError]]:
    """(line, value) of each line that is not blank; the value is a `ParseError` where the line is not JSON.

    The reasons are those of `line_fault`, and `line_too_long` over `LINE_BYTES`.
    """
    for line in lines(stream):
        data = line.data
        if data is None:
            detail = f"a line of more than {LINE_BYTES} bytes"
            yield line, ParseError(uri, line.offset, "line_too_long", detail, member)
        elif data and not data.isspace():
            try:
                value = json_value(data)
            except JsonError as error:
                value = line_fault(error, line, uri, member)
            yield line, value


def json_lines(blob: Blob, member: str = "") -> Iterator[tuple[int, Any | ParseError]]:
    """(offset, value) of each line of a member, as of `line_values`.

    Where the stream itself fails, its fault is the last value, so that a log that is damaged towards its end keeps what
    stands before.
    """
    with blob.open(member) as stream:
        try:
            for line, value in line_values(stream, blob.uri, member):
                yield line.offset, value
        except ParseError as error:
            yield error.offset, error


def line_fault(error: JsonError, line: Line, uri: str, member: str = "") -> ParseError:
    """What to say of a line that is no JSON: `truncated` if the file ends in it, else why it is none.

    The offset is that of the line, which is the record.
    """
    reason = ("bad_json" if error.reason == "truncated" else error.reason) if line.ended else "truncated"
    detail = f"wanted a JSON value: {error}"
    return ParseError(uri, line.offset, reason, detail, member, (line.data or b"")[:_EXCERPT])
