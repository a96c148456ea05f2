"""Elements of one array within a JSON document, read from a stream as bytes with their offsets.

Memory holds one element and the bytes read ahead, never the document. The document is walked only up to the array; the
rest after the array is not read. Elements must be objects. Only braces are counted, so that an error within one element
does not affect others; the decoder of an element checks its JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from io import BytesIO, UnsupportedOperation
from typing import Any, BinaryIO, Final

import numpy as np

from trajmill.connectors.reading.large.parts import Array
from trajmill.connectors.reading.lines import LineStream
from trajmill.connectors.reading.values import BOM
from trajmill.schemas import ParseError

ELEMENT_BYTES: Final = 256 << 20
"""Largest element, in bytes, that is read into memory; a longer one ends the log."""

_CHUNK: Final = 4 << 20
_TOKEN: Final = re.compile(rb'[^"{}\[\]:,]*+("[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]:,])', re.DOTALL)
_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_Places = np.ndarray[Any, np.dtype[np.int64]]

_KEY_BYTES: Final = 256
"""Largest key of a path, in bytes."""


class _Window:
    """Bytes of a stream that were read and are still needed: `data`, which begins at byte `start` of the stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.data = b""
        self.start = 0
        self.place = 0

    def token(self) -> bytes | None:
        """Return the next token and move `place` behind it; None if the stream ends before a whole token."""
        while (match := _TOKEN.match(self.data, self.place)) is None:
            # double the data, so that a long string is not rescanned for every chunk
            if not self.grow(max(_CHUNK, len(self.data))):
                return None
        self.place = match.end()
        return match[1]

    def grow(self, size: int = _CHUNK) -> bool:
        """Read more and drop the bytes before `place`; return False at the end of the stream."""
        more = _chunk(self._stream, size)
        if more:
            self.data = self.data[self.place :] + more
            self.start += self.place
            self.place = 0
        return bool(more)


def _chunk(stream: BinaryIO, size: int) -> bytes:
    """Return the next bytes of a stream, extended so that no escape is split."""
    data = stream.read(size)
    while data.endswith(b"\\") and (more := stream.read(_CHUNK)):
        data += more
    return data


def elements(
    stream: BinaryIO,
    uri: str,
    path: Sequence[str],
    member: str = "",
    limit: int = ELEMENT_BYTES,
    start: int = 0,
) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) of each element of the array at `path`, in order.

    Args:
        stream: Document, with or without a byte order mark.
        path: Keys from the document's object to the array; empty if the document is the array.
        limit: Largest size of an element, in bytes.
        start: Offset of the stream, where an element of the array begins; 0 for the beginning of the document.

    Raises:
        ParseError: `empty`, `bad_json` (no JSON document, or something other than an object between elements),
            `no_array` (the document ends without it), `truncated`, `element_too_long`.
    """
    window = _Window(stream)
    if start:
        window.start = start
    else:
        _enter(window, uri, list(path), member)
    scanned, depth, quoted = window.place, 0, False
    begin = -1
    while True:
        braces, quoted = _braces(window.data, scanned, quoted)
        for at, opens in braces:
            depth += 1 if opens else -1
            if opens and depth == 1:
                if _gap(window, at, uri, member):
                    return
                begin = at
            elif depth == 0 and begin >= 0:
                yield window.start + begin, window.data[begin : at + 1]
                window.place, begin = at + 1, -1
            elif depth < 0:
                if not _gap(window, at, uri, member):
                    raise ParseError(uri, window.start + at, "bad_json", "a brace that closes nothing", member)
                return
        needed = window.place = begin if begin >= 0 else window.place
        scanned = len(window.data) - needed
        if scanned > limit:
            raise ParseError(uri, window.start + needed, "element_too_long", f"more than {limit} bytes", member)
        if not window.grow():
            if begin < 0 and not quoted and _gap(window, len(window.data), uri, member):
                return
            subject = "an element of the array" if begin >= 0 else "the array"
            raise _cut(window, uri, member, subject, window.start + needed)
        begin = 0 if begin >= 0 else -1


class ElementLines(LineStream):
    """Lines of the elements of a JSON array, at the offsets of the array; the text between elements becomes blank.

    Args:
        stream: Document, seekable.
        begin: Beginning of an element, to which the stream can seek without reading the text before it.
    """

    def __init__(self, stream: BinaryIO, uri: str, begin: int) -> None:
        super().__init__(iter(()))
        self._stream, self._uri, self._begin = stream, uri, begin
        self.seek(0)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to the beginning, or to the line end before the element at `begin`."""
        if whence or offset not in (0, self._begin - 1):
            raise UnsupportedOperation("only to its beginning and to the element that was named")
        self._stream.seek(self._begin if offset else 0)
        self._restart(self._made(offset), offset)
        return offset

    def _made(self, start: int) -> Iterator[bytes]:
        begin = start
        for offset, data in elements(self._stream, self._uri, (), start=self._begin if start else 0):
            yield b"\n".rjust(offset - begin) + data.replace(b"\n", b" ")
            begin = offset + len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def with_places(data: bytes, values: Sequence[Any], path: Sequence[str] = ()) -> Iterator[tuple[int, Any]]:
    """Return (offset, value) of the elements of a decoded array; the offset of its key if they are not all objects."""
    if isinstance(values, Array):
        return zip(values.offsets, values, strict=True)
    key = f'"{path[-1]}"'.encode() if path else b""
    offsets = places_of(data, values, path) or [max(0, data.find(key))] * len(values)
    return zip(offsets, values, strict=True)


def places_of(data: bytes, values: Sequence[Any], path: Sequence[str] = ()) -> list[int]:
    """Return the byte offsets of the elements of a decoded array; empty if they are not all objects."""
    try:
        offsets = [offset for offset, _ in elements(BytesIO(data), "", path)]
    except ParseError:
        return []
    return offsets if len(offsets) == len(values) else []


def _gap(window: _Window, end: int, uri: str, member: str) -> bool:
    """Check whether the array ends between the last element and byte `end` of the window.

    Raises:
        ParseError: There is something other than a comma.
    """
    between = window.data[window.place : end].lstrip(b" \t\r\n,")
    if between and between[:1] != b"]":
        at = window.data.index(between[:1], window.place)
        detail = "wanted an object in the array"
        raise ParseError(uri, window.start + at, "bad_json", detail, member, between[:200])
    return bool(between)


def _braces(data: bytes, begin: int, quoted: bool) -> tuple[Iterator[tuple[int, bool]], bool]:
    """Return the offsets of braces outside strings from `begin` on, each with a flag that it opens, and whether a
    string is open at the end.

    Args:
        data: JSON text from some offset on; it ends within no escape.
        begin: Offset at which the search begins.
        quoted: True if a string is open there.
    """
    raw = np.frombuffer(data, np.uint8)[begin:]
    quotes = _quotes(raw)
    opening = raw == ord("{")
    positions = np.flatnonzero(opening | (raw == ord("}")))
    positions = positions[(np.searchsorted(quotes, positions) + quoted) % 2 == 0]
    braces = zip((positions + begin).tolist(), opening[positions].tolist(), strict=True)
    return braces, bool((len(quotes) + quoted) % 2)


def _enter(window: _Window, uri: str, path: list[str], member: str) -> None:
    """Move behind the bracket that opens the array at `path`."""
    around: list[tuple[bytes, bytes]] = []
    wanted = [(b"{", b"")] * bool(path) + [(b"{", key.encode()) for key in path[:-1]]
    wanted.append((b"[", path[-1].encode() if path else b""))
    key = last = b""
    while (token := window.token()) is not None:
        if not around and token not in (b"{", b"["):
            raise ParseError(uri, 0, "bad_json", "wanted a JSON document", member, window.data[:200])
        if token in (b"{", b"["):
            around.append((token, key))
            if around == wanted:
                return
            key = b""
        elif token in (b"}", b"]"):
            around.pop()
            if not around:
                raise ParseError(uri, 0, "no_array", f"the document has no array {'.'.join(path)}", member)
        elif token == b":":
            key = last
        elif token == b",":
            key = b""
        else:
            last = token[1:-1] if len(token) <= _KEY_BYTES else b""
    if not window.data.removeprefix(BOM).strip() and not window.start:
        raise ParseError(uri, 0, "empty", "wanted a JSON document, met nothing", member)
    raise _cut(window, uri, member, "the document")


def _cut(window: _Window, uri: str, member: str, subject: str, at: int | None = None) -> ParseError:
    end = window.start + len(window.data)
    offset = end if at is None else at
    excerpt = window.data[max(0, offset - window.start) :][:400]
    return ParseError(uri, offset, "truncated", f"{subject} ends early, after {end} bytes", member, excerpt)


def _quotes(raw: _Bytes) -> _Places:
    """Return the offsets of the quotes of JSON strings, in order: those after no odd run of backslashes."""
    quotes = np.flatnonzero(raw == ord('"'))
    slashes = np.flatnonzero(raw == ord("\\"))
    if not len(slashes):
        return quotes
    numbers = np.arange(len(slashes))
    begins = np.ones(len(slashes), np.bool_)
    begins[1:] = slashes[1:] != slashes[:-1] + 1
    run = numbers - np.maximum.accumulate(np.where(begins, numbers, 0)) + 1
    last = np.searchsorted(slashes, quotes) - 1
    escaped = (last >= 0) & (slashes[last] == quotes - 1) & (run[last] % 2 == 1)
    return quotes[~escaped]
