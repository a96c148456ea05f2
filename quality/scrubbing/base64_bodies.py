"""Base64 bodies that contain text: how they are found, decoded, and patched in place."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from trajmill.quality.scrubbing.kinds import Encoded, Finds
from trajmill.quality.scrubbing.matching import compile_pattern, matches
from trajmill.quality.scrubbing.units import Ints

_PLACES: Final = (
    rb"[I-Za-fCD]",
    rb"[A-HQ-Xg-nw-z0-3]",
    rb"[ABEFIJMNQRUVYZcdghklopstwx014589]",
    rb"[A-Za-z0-9+/_-]",
)
"""Patterns of four base64 characters whose three bytes are ASCII, that is, have a top bit of 0.

The first byte is no rare control code.
"""

_TEXT: Final = rb"(?:" + b"".join(_PLACES) + rb"){6}"
"""24 base64 characters that decode to ASCII; one in a million random strings of 24 does."""

TRIGGER: Final = rb"(?:[^A-Za-z0-9+_-]|\\[nrt])" + _TEXT
"""Trigger at the beginning of a run of base64 only; a match anywhere in a run would slow the scan by a third.

`beginnings` finds runs at the beginning of a text.
"""

_START: Final = compile_pattern(rb"(?:^|[^A-Za-z0-9+_-]|\\[nrt])(" + _TEXT + rb")")
_BEGINS: Final = compile_pattern(_TEXT)
_RUNS: Final = (compile_pattern(rb"[A-Za-z0-9+/]*={0,2}"), compile_pattern(rb"[A-Za-z0-9_-]*={0,2}"))
_WHOLE: Final = re.compile(rb"(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}")
_BREAK: Final = compile_pattern(rb"(?:\\+r)?\\+n|\r?\n")
_NO_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
_WIDTHS: Final = frozenset({60, 64, 72, 76})
SHORTEST: Final = 18
"""Bytes of text below which base64 is taken for a word."""

_STEP: Final = 4096
_PART_OF_CHARACTER: Final = 3
_BYTES: Final = 24
_IN_PLACE: Final = tuple(
    np.array([re.fullmatch(place, bytes([byte])) is not None for byte in range(256)]) for place in _PLACES
)
"""For each place of a quad, a mask of the bytes that are possible there."""
_TO_PLAIN: Final = bytes.maketrans(b"-_", b"+/")
TO_URLSAFE: Final = bytes.maketrans(b"+/", b"-_")

Inner = Callable[[bytes], Finds]


def bodies(text: bytes, lo: int, hi: int, inner: Inner) -> Iterator[Encoded]:
    """Yield the disjoint bodies that begin between `lo` and `hi`, each with the finds of `inner` in its text."""
    after = lo
    for match in matches(_START, text, lo, hi):
        start, end = match.span(1)
        if start >= after and _text_bytes(_decode(text[start:end])) >= SHORTEST:
            body = _body(text, start, inner)
            yield body
            after = body.end


def beginnings(data: Any, starts: Ints) -> list[int]:
    """Return the numbers of the texts that begin with base64 of text.

    `starts` holds the beginning of each text and the end of the last one.
    """
    numbers = np.flatnonzero(np.diff(starts) >= _BYTES)
    values = np.frombuffer(data, np.uint8)
    # what is left then is about one in a hundred
    for byte_number in (0, 1, 2, 4, 5, 6) if len(numbers) > 1 else ():
        numbers = numbers[_IN_PLACE[byte_number % 4][values[starts[numbers] + byte_number]]]
    return [number for number in numbers.tolist() if _BEGINS.match(data, int(starts[number]), int(starts[number + 1]))]


def _body(text: bytes, start: int, inner: Inner) -> Encoded:
    """Return the body from `start` on, read line by line or step by step, up to its first bytes that are not text.

    Text is often followed by an image.
    """
    pieces: list[tuple[int, int]] = []
    data, size, width, at = bytearray(), 0, 0, start
    while True:
        end = max(run.match(text, at, at + _STEP).end() for run in _RUNS)
        data += _decode(text[at:end].rstrip(b"="))
        size += _text_bytes(bytes(data[size:]))
        if pieces and pieces[-1][1] == at:
            pieces[-1] = (pieces[-1][0], end)
        else:
            pieces.append((at, end))
        width = width or end - at
        full = end - at == width and width in _WIDTHS and text[end - 1 : end] != b"="
        wrapped = _BREAK.match(text, end) if full else None
        no_text = len(data) - size > _PART_OF_CHARACTER
        if end == at or no_text or not (wrapped or end - at == _STEP):
            urlsafe = any(b"-" in text[slice(*piece)] or b"_" in text[slice(*piece)] for piece in pieces)
            return Encoded(tuple(pieces), bytes(data), size, urlsafe, inner(bytes(data[:size])))
        at = wrapped.end() if wrapped else end


def decode_body(text: bytes, start: int, end: int, inner: Inner) -> Encoded | None:
    """Decode a body between `start` and `end` that its context announces as a secret; None unless all of it is text."""
    value = text[start:end]
    data = _decode(value.rstrip(b"=")) if _WHOLE.fullmatch(value) else b""
    if not data or _text_bytes(data) < len(data):
        return None
    return Encoded(((start, end),), data, len(data), b"-" in value or b"_" in value, inner(data), announced=True)


def _decode(part: bytes) -> bytes:
    """Decode base64 of either alphabet, without padding; drop a last character that completes no byte."""
    part = part.translate(_TO_PLAIN)
    if len(part) % 4 == 1:
        part = part[:-1]
    return binascii.a2b_base64(part + b"=" * (-len(part) % 4))


def encode(data: bytes) -> bytes:
    """Encode the bytes as base64, without padding."""
    return binascii.b2a_base64(data, newline=False).rstrip(b"=")


def _text_bytes(data: bytes) -> int:
    """Return the number of leading bytes that are UTF-8 without control characters."""
    control = _NO_TEXT.search(data)
    size = control.start() if control else len(data)
    try:
        data[:size].decode()
    except UnicodeDecodeError as error:
        return error.start
    return size


def patch_body(text: bytes, body: Encoded, inner: Sequence[tuple[int, int, bytes]]) -> Iterator[tuple[int, int, bytes]]:
    """Yield (start, end, bytes) for each piece of the body that changes; `inner` holds the same for its decoded
    text.
    """
    data = bytearray(body.data)
    for start, end, fresh in inner:
        data[start:end] = fresh
    encoded = binascii.b2a_base64(data, newline=False)
    if body.urlsafe:
        encoded = encoded.translate(TO_URLSAFE)
    changed = -(-max(end for _, end, _ in inner) // 3) * 4
    at = 0
    for start, end in body.pieces:
        old = text[start:end]
        size = max(0, min(len(old.rstrip(b"=")), changed - at))
        fresh = encoded[at : at + size] + old[size:]
        at += len(old)
        if fresh != old:
            yield start, end, fresh
