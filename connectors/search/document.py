"""A file that is one JSON document, read whole or by its outline, and where its texts stand in it.

Lines of JSON are read by `connectors.records`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, BinaryIO, Final

import orjson

from connectors.outline import DocumentError, Shape, outline
from connectors.records import quoted
from schemas import ParseError

_NUMBERS: Final = (b"NaN", b"Infinity")

_PART_BYTES: Final = 1 << 16
_END_BYTES: Final = 1 << 16

_MISSES: Final = 16
"""Texts that may not be found again in a document's bytes before their offsets are given up."""


def json_document(data: bytes, uri: str, start: int = 0) -> Any:
    """The JSON value of a whole file or archive member; NaN and infinities, which Python writes, become null.

    Args:
        data: the bytes, with or without a byte order mark.
        uri: of the input, for errors.
        start: offset of what `data` was decompressed from, which errors then name; 0 if it is the input itself.

    Raises:
        ParseError: `truncated` (the document ends early), `bad_json`.
    """
    try:
        return orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        if any(word in data for word in _NUMBERS):
            try:
                return json.loads(data, parse_constant=dict[str, None]().get)
            except (ValueError, RecursionError):
                pass
        place = min(len(error.doc[: error.pos].encode("utf-8", "surrogatepass")), len(data))
        reason = "truncated" if not data.rstrip().endswith((b"}", b"]")) else "bad_json"
        detail = f"wanted a JSON document: {error.msg}"
        excerpt = data[max(place - 200, 0) : place + 200]
        raise ParseError(uri, start or place, reason, detail, "", excerpt) from None


def large_document(stream: BinaryIO, uri: str, shapes: Sequence[Shape], start: int = 0) -> Any:
    """The JSON value of a large document by its outline; values, arguments and errors as of `json_document`."""
    try:
        return outline(stream, uri, "", shapes, _with_numbers)
    except DocumentError as error:
        place = error.place - error.start
        ended = error.bytes_from(error.size - _END_BYTES, error.size).rstrip().endswith((b"}", b"]"))
        detail = f"wanted a JSON document: {error.word}"
        excerpt = error.bytes_from(place - 200, place + 200)
        reason = "bad_json" if ended else "truncated"
        raise ParseError(uri, start or place, reason, detail, "", excerpt) from None


def _with_numbers(data: bytes) -> Any:
    if not any(word in data for word in _NUMBERS):
        raise ValueError("no JSON, and not by its numbers")
    try:
        return json.loads(data, parse_constant=dict[str, None]().get)
    except RecursionError:
        raise ValueError("nested too deeply") from None


class Places:
    """Where texts of a JSON document stand in its bytes, looked for in order; a guess where they are not found.

    Args:
        data: the document, or a stream over it.
    """

    def __init__(self, data: bytes | BinaryIO) -> None:
        self._find: Callable[[bytes, int], int] = data.find if isinstance(data, bytes) else partial(_find_in, data)
        self._misses = 0
        self._end = 0
        self.place = 0

    def of(self, text: str) -> int:
        """The offset of the text's next occurrence after the last one found; of that one if there is none."""
        if self._misses < _MISSES:
            try:
                wanted = orjson.dumps(text)[1:-1]
            except TypeError:  # a lone surrogate
                wanted = quoted(text)[1:-1].encode("utf-8", "surrogatepass")
            found = self._find(wanted, self._end)
            if found < 0:
                wanted = json.dumps(text)[1:-1].encode()
                found = self._find(wanted, self._end)
            if found >= 0:
                self.place, self._end = found, found + len(wanted)
            else:
                self._misses += 1
        return self.place


def _find_in(stream: BinaryIO, wanted: bytes, start: int) -> int:
    begin = stream.seek(start)
    part = b""
    while more := stream.read(_PART_BYTES):
        part += more
        found = part.find(wanted)
        if found >= 0:
            return begin + found
        passed = max(0, len(part) - len(wanted) + 1)
        part, begin = part[passed:], begin + passed
    return -1
