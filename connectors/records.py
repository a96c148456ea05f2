"""Lines and JSON values of a stream, each with its byte offset; the shared first step of line-oriented formats.

It does not decide what a bad line means: the caller turns a `ParseError` into a reject or lets it end the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from json import encoder
from reprlib import Repr
from typing import Any, BinaryIO, Final

import orjson

from connectors.connector import Blob
from schemas import ParseError, json_text
from schemas.action import json_writer
from schemas.record import record

LINE_BYTES: Final = 128 << 20
"""A longer line is not held in memory; it becomes a reject."""

WHOLE_BYTES: Final = 256 << 20
"""A longer file is refused by formats that cannot be read piece by piece."""

_SKIPPED_BYTES: Final = 1 << 20

_BOM: Final = b"\xef\xbb\xbf"


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
        elif start:
            yield Line(start, data.removesuffix(b"\n").removesuffix(b"\r"), ended)
        else:
            yield _line(start, data.removesuffix(b"\n"), ended)
        start += size


def _line(start: int, data: bytes | None, ended: bool) -> Line:
    if data is not None and start == 0 and data.startswith(_BOM):
        return Line(len(_BOM), data[len(_BOM) :].removesuffix(b"\r"), ended)
    return Line(start, data if data is None else data.removesuffix(b"\r"), ended)


def json_value(data: bytes | str) -> Any:
    r"""The JSON value of `data`, lone `\u` surrogates and large integers included; a leading BOM is passed over.

    Raises:
        ValueError: it is not JSON, not UTF-8, or nested too deeply.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if isinstance(data, bytes) and data.startswith(_BOM):
            return json_value(data[len(_BOM) :])
        try:
            text = data if isinstance(data, str) else data.decode()
            return json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise error from None


def quoted(text: str) -> str:
    """The text as a JSON string, as `schemas.json_text` writes it, in a tenth of the time."""
    try:
        return orjson.dumps(text).decode()
    except TypeError:  # a lone surrogate
        return json_text(text)


_quote: Final = encoder.encode_basestring
_SHORT: Final = 64
"""Characters of text below which the standard library's encoder is the faster one."""


def _quoted(text: str) -> str:
    return _quote(text) if len(text) < _SHORT else quoted(text)


Pieces = Callable[[Any, int], Iterable[str]]
_pieces: Final[Pieces] = json_writer(_quoted)
_NESTED: Final = frozenset({dict, list})


def object_text(values: Mapping[str, Any] | Sequence[Any], pieces: Pieces = _pieces) -> str:
    """An object or array as JSON text, as `schemas.json_text` writes it; faster where texts in it are long.

    Args:
        values: to write.
        pieces: writes what is no text in an object of texts; a writer as of `schemas.action.json_writer`.

    Raises:
        RecursionError: a value is nested too deeply.
    """
    if type(values) is not dict:
        return "".join(pieces(values, 0))
    # Most objects are the arguments of a call: a few texts, put together in half the time that the encoder takes.
    written = []
    for name, value in values.items():
        if type(name) is not str:
            return "".join(pieces(values, 0))
        kind = type(value)
        if kind is str:
            text = _quote(value) if len(value) < _SHORT else quoted(value)
        elif kind is int:
            text = repr(value)
        else:
            text = "".join(pieces(value, 0))
        written.append(f"{_quote(name)}: {text}")
    return f"{{{', '.join(written)}}}"


def shallow_json(value: Any, levels: int) -> str | None:
    """A JSON value as text, as `schemas.json_text` writes it; None if it is nested more than so many levels deep."""
    if levels > 0 and type(value) is dict and _NESTED.isdisjoint(map(type, value.values())):
        return object_text(value)  # most arguments; counting the brackets of a long text costs more than writing it
    try:
        text = object_text(value)
    except RecursionError:
        return None
    return text if text.count("{") + text.count("[") <= levels or nesting(value) <= levels else None


def nesting(value: Any) -> int:
    """Levels of arrays and objects in a JSON value: 0 of a number and of `[]`, 1 of `[1]` and of `[[]]`."""
    level = [value] if type(value) in _NESTED else []
    levels = 0
    while level:
        inner = [
            one
            for holder in level
            for one in (holder.values() if type(holder) is dict else holder)
            if type(one) in _NESTED
        ]
        levels += bool(inner) or any(level)
        level = inner
    return levels


_SHOWN: Final = Repr()
_SHOWN.maxlevel, _SHOWN.maxdict, _SHOWN.maxlist, _SHOWN.maxstring, _SHOWN.maxlong = 20, 100, 100, 1000, 5000


def brief(value: Any, most: int = 80) -> str:
    """How `repr` of a JSON value begins, at most so many characters of it; of one nested however deep."""
    return _SHOWN.repr(value)[:most]


def plain_text(value: Any) -> str:
    """A text as it is, and any other JSON value as `brief` shows it: what stands where an id or a word is wanted."""
    return value if isinstance(value, str) else brief(value, 200)


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def json_lines(blob: Blob, member: str = "") -> Iterator[tuple[int, Any | ParseError]]:
    """(offset, value) of each line that is not blank; the value is a `ParseError` where the line is not JSON.

    The reason is `truncated` for a last line without line end that is not JSON, `bad_json` otherwise, and
    `line_too_long` over `LINE_BYTES`. Where the stream itself fails, its fault is the last value, so that a log that is
    damaged towards its end keeps what stands before.
    """
    with blob.open(member) as stream:
        try:
            for line in lines(stream):
                data = line.data
                if data is None:
                    detail = f"a line of more than {LINE_BYTES} bytes"
                    yield line.offset, ParseError(blob.uri, line.offset, "line_too_long", detail, member)
                elif data and not data.isspace():
                    try:
                        value = orjson.loads(data)
                    except orjson.JSONDecodeError:
                        value = _value(blob.uri, member, line, data)
                    yield line.offset, value
        except ParseError as error:
            yield error.offset, error


def _value(uri: str, member: str, line: Line, data: bytes) -> Any | ParseError:
    try:
        return json_value(data)
    except ValueError as error:
        reason = "bad_json" if line.ended else "truncated"
        return ParseError(uri, line.offset, reason, f"wanted a JSON value: {error}", member, data[:4096])
