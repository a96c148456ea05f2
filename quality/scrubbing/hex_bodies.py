"""Hexadecimal bodies that hold text, as `xxd -p` prints them and databases show bytes: `68665f…`, `\\x68665f…`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from trajmill.quality.scrubbing.kinds import Encoded, Finds
from trajmill.quality.scrubbing.matching import compile_pattern, matches
from trajmill.quality.scrubbing.units import Ints

_BYTE: Final = rb"(?:[2-7][0-9a-fA-F]|0[9aAdD])"
_SHORTEST: Final = 12
"""Bytes of text below which a run of digits is taken for a number.

Of the digests of 100,000 files, one begins like such text, and none is text to its end.
"""

_BEGIN: Final = rb"(?:[^A-Za-z0-9+/_-]|\\[nrtx]|0[xX])"
TRIGGER: Final = _BEGIN + _BYTE + rb"{%d}" % _SHORTEST
_START: Final = compile_pattern(rb"(?:^|" + _BEGIN + rb")(" + _BYTE + rb"{%d})" % _SHORTEST)
_RUNS: Final = (re.compile(rb"(?:[0-9a-f]{2})*+"), re.compile(rb"(?:[0-9A-F]{2})*+"))
_BREAK: Final = re.compile(rb"(?:\\+r)?\\+n|\r?\n")
_WIDTHS: Final = frozenset({32, 60, 64, 72, 76, 80})
_NO_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
_LOOK: Final = 4

_HIGH: Final = np.isin(np.arange(256), list(b"0234567"))


def bodies(text: bytes, lo: int, hi: int, inner: Callable[[bytes], Finds]) -> Iterator[Encoded]:
    """Yield the disjoint bodies that begin between `lo` and `hi`, each with the finds of `inner` in its text."""
    after = lo
    for match in matches(_START, text, lo, hi):
        if match.start(1) >= after:
            body = _body(text, match.start(1), inner)
            after = max(after, body.end if body else match.end(1))
            if body:
                yield body


def beginnings(data: Any, starts: Ints) -> list[int]:
    """Return the numbers of the texts that begin with such a body.

    `starts` holds the beginning of each text and the end of the last one.
    """
    numbers = np.flatnonzero(np.diff(starts) >= 2 * _SHORTEST)
    values = np.frombuffer(data, np.uint8)
    for digit_number in range(0, 2 * _LOOK if len(numbers) > 1 else 0, 2):
        numbers = numbers[_HIGH[values[starts[numbers] + digit_number]]]
    return [number for number in numbers.tolist() if _START.match(data, int(starts[number]), int(starts[number + 1]))]


def _body(text: bytes, start: int, inner: Callable[[bytes], Finds]) -> Encoded | None:
    """Return the body from `start` on, read line by line; None if it is not text to its end."""
    pieces: list[tuple[int, int]] = []
    at, width = start, 0
    while (end := max(run.match(text, at).end() for run in _RUNS)) > at:  # type: ignore[union-attr]
        pieces.append((at, end))
        width = width or end - at
        wrapped = _BREAK.match(text, end) if end - at == width and width in _WIDTHS else None
        if not wrapped:
            break
        at = wrapped.end()
    data = bytes.fromhex("".join(text[slice(*piece)].decode() for piece in pieces))
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    if len(data) < _SHORTEST or _NO_TEXT.search(data):
        return None
    return Encoded(tuple(pieces), data, len(data), False, inner(data), hexadecimal=True)


def patch_body(text: bytes, body: Encoded, inner: Sequence[tuple[int, int, bytes]]) -> Iterator[tuple[int, int, bytes]]:
    """Yield (start, end, bytes) for each piece of the body that changes; `inner` holds the same for its decoded
    text.
    """
    data = bytearray(body.data)
    for start, end, fresh in inner:
        data[start:end] = fresh
    written, at = data.hex().encode(), 0
    for start, end in body.pieces:
        old = text[start:end]
        fresh = written[at : at + len(old)]
        at += len(old)
        if old == old.upper():
            fresh = fresh.upper()
        if fresh.lower() != old.lower():
            yield start, end, fresh
