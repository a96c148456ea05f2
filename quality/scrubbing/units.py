r"""Where bytes of a text stand for another byte (`%41`, `\u0041`, `&#65;`), or for nothing that is shown (colours).

Whole buffers of texts are looked at at once, with arrays in place of objects: some logs hold such places by the
thousand in each megabyte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

GONE: Final = -1
"""What a unit says that stands for nothing."""


def among(characters: bytes) -> Flags:
    """For each byte, whether it is one of these."""
    table = np.zeros(256, np.bool_)
    table[list(characters)] = True
    return table


_WORD: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_NO_DIGIT: Final = 16
_HEX: Final = np.full(256, _NO_DIGIT, np.int64)
_HEX[list(b"0123456789abcdef")] = np.arange(16)
_HEX[list(b"ABCDEF")] = np.arange(10, 16)
_SAYS: Final = among(bytes(range(32, 127)) + b"\t\n\r")
_TELLS: Final = among(_WORD + b"_-=:@/+.~\"'&\\")
"""What a unit has to say so that something could be found that is not found as it is written."""

_JOINED: Final = among(_WORD + b"_-=:@/+.~\"'\\")
"""What has to stand on both sides of something invisible so that it could cut something in two."""

_PARAMETER: Final = among(b"0123456789;:?<=>! ")
_STILL: Final = among(b"mKhl")
"""Final bytes of control sequences (ECMA-48) that leave the cursor where it is: colours, erasing, modes."""

_PARAMETERS: Final = 32
_LEVELS: Final = 7
"""Backslashes more that JSON in JSON writes before an escape."""

_ENTITY: Final = re.compile(
    rb"&(?:#0{0,7}(1?\d\d)|#[xX]0{0,6}([2-7][0-9a-fA-F])|(amp|quot|apos|lt|gt|equals|colon|lowbar|commat|sol|period));"
)
_NAMED: Final = {
    b"amp": 38,
    b"quot": 34,
    b"apos": 39,
    b"lt": 60,
    b"gt": 62,
    b"equals": 61,
    b"colon": 58,
    b"lowbar": 95,
    b"commat": 64,
    b"sol": 47,
    b"period": 46,
}
_STRING: Final = re.compile(
    rb"(?:\x1b|\\+(?:u001[bB]|x1[bB]|033|e))[\]P_^X][^\x07\x1b\n\\]{0,2048}"
    rb"(?:\x07|\x1b\\|\\+(?:u0007|x07|a)|\\+(?:u001[bB]|x1[bB]|033|e)\\+)"
)
"""A control string: the title of a window, a link."""


@dataclass(frozen=True, slots=True)
class Units:
    """Places in order and disjoint.

    Attributes:
        start: where each begins.
        end: where it ends.
        says: the byte that it stands for, or `GONE`.
        telling: whether without it something else could be found.
    """

    start: Ints
    end: Ints
    says: Ints
    telling: Flags


def units(data: bytes, values: Bytes) -> Units:
    """All units of a buffer; `values` are the same bytes."""
    found = [_percent(values), *_escaped(data, values), _entities(data), *_invisible(data, values)]
    start, end, says = (np.concatenate([part[place] for part in found]) for place in range(3))
    order = np.lexsort((-end, start))
    start, end, says = start[order], end[order], says[order]
    if len(start):
        reach = np.maximum.accumulate(end)
        apart = np.concatenate([[True], start[1:] >= reach[:-1]])
        start, end, says = start[apart], end[apart], says[apart]
    return Units(start, end, says, _telling(values, start, end, says))


def _telling(values: Bytes, start: Ints, end: Ints, says: Ints) -> Flags:
    """Which units could hide something: what says no mere separator, and what cuts a word."""
    gone = says == GONE
    telling = np.where(gone, False, _TELLS[says.clip(min=0)])
    if not gone.any():
        return telling
    count = np.arange(len(start))
    joins = gone[1:] & gone[:-1] & (start[1:] == end[:-1])  # rows of them count as one
    first = np.maximum.accumulate(np.where(np.concatenate([[False], joins]), 0, count))
    last = np.minimum.accumulate(np.where(np.concatenate([joins, [False]]), len(start) - 1, count)[::-1])[::-1]
    before, after = start[first] - 1, end[last]
    left = (before >= 0) & _JOINED[values[before.clip(min=0)]]
    right = (after < len(values)) & _JOINED[values[after.clip(max=len(values) - 1)]]
    return telling | (gone & left & right)


def _percent(values: Bytes) -> tuple[Ints, Ints, Ints]:
    start = _at(values, b"%", 2)
    high, low = _HEX[values[start + 1]], _HEX[values[start + 2]]
    return _saying(start, start + 3, high, low)


def _saying(start: Ints, end: Ints, high: Ints, low: Ints) -> tuple[Ints, Ints, Ints]:
    """Those units whose two digits are hexadecimal and stand for a byte that a text holds."""
    says = high * 16 + low
    fits = (high < _NO_DIGIT) & (low < _NO_DIGIT)
    fits[fits] = _SAYS[says[fits]]
    return start[fits], end[fits], says[fits]


def _at(values: Bytes, character: bytes, more: int) -> Ints:
    """Where the character stands with that many bytes after it."""
    return np.flatnonzero(values[: max(0, len(values) - more)] == character[0])


def _escaped(data: bytes, values: Bytes) -> list[tuple[Ints, Ints, Ints]]:
    r"""`\x41` and `\u0041`, with the backslashes that nested JSON adds."""
    if b"\\x" not in data and b"\\u00" not in data:
        return []
    start = _at(values, b"\\", 3)
    short = start[values[start + 1] == ord("x")]
    start = start[(values[start + 1] == ord("u")) & (start + 5 < len(values))]
    long = start[(values[start + 2] == ord("0")) & (values[start + 3] == ord("0"))]
    return [
        _saying(_first_backslash(values, one), one + size, _HEX[values[one + size - 2]], _HEX[values[one + size - 1]])
        for one, size in ((short, 4), (long, 6))
    ]


def _first_backslash(values: Bytes, start: Ints) -> Ints:
    for _ in range(_LEVELS):
        start = start - ((start > 0) & (values[start - 1] == ord("\\")))
    return start


def _entities(data: bytes) -> tuple[Ints, Ints, Ints]:
    found = [
        (*match.span(), int(match[1]) if match[1] else int(match[2], 16) if match[2] else _NAMED[match[3]])
        for match in _ENTITY.finditer(data)
        if b"&" in data
    ]
    start, end, says = np.array(found, np.int64).reshape(-1, 3).T
    fits = (says < 127) & (says >= 32)
    return start[fits], end[fits], says[fits]


def _invisible(data: bytes, values: Bytes) -> list[tuple[Ints, Ints, Ints]]:
    """Control sequences that move no cursor, control strings, and what `readline` writes where its line wraps."""
    found = []
    raw = _at(values, b"\x1b", 1)
    begins = [(raw, raw + 1)]
    if b"\\" in data:
        for written in (rb"\u001b", rb"\u001B", rb"\x1b", rb"\x1B", rb"\033", rb"\e"):
            if written + b"[" in data:
                start = np.array([match.start() for match in re.finditer(re.escape(written + b"["), data)], np.int64)
                begins.append((_first_backslash(values, start), start + len(written)))
    for start, after in begins:
        if len(start):
            found.append(_sequences(values, start, after))
    if b"\x1b]" in data or b"\x1bP" in data or b"\\u001b]" in data:
        found.append(_removed(np.array([match.span() for match in _STRING.finditer(data)], np.int64).reshape(-1, 2)))
    if b" \r" in data:
        start = _at(values, b" ", 2)
        start = start[(values[start + 1] == 13) & _JOINED[values[start + 2]]]
        found.append(_removed(np.stack([start, start + 2], axis=1)))
    return found


def _sequences(values: Bytes, start: Ints, after: Ints) -> tuple[Ints, Ints, Ints]:
    """Control sequences; `after` is where what begins them is written to its end."""
    last = len(values) - 1
    kept = (after <= last) & (values[after.clip(max=last)] == ord("["))
    start, end = start[kept], after[kept] + 1
    for _ in range(_PARAMETERS):
        end = end + ((end < last) & _PARAMETER[values[end.clip(max=last)]])
    kept = (end <= last) & _STILL[values[end.clip(max=last)]]
    return _removed(np.stack([start[kept], end[kept] + 1], axis=1))


def _removed(spans: Ints) -> tuple[Ints, Ints, Ints]:
    return spans[:, 0], spans[:, 1], np.full(len(spans), GONE, np.int64)


_DIGITS: Final = re.compile(rb"&#0*(\d+);")


def rewritten(old: bytes, byte: int) -> bytes | None:
    """The unit `old` written so that it says `byte`, in as many bytes; None if it cannot."""
    if len(old) == 1:
        return bytes([byte])
    if old[:2] == b"&#" and old[2:3] not in b"xX":
        fresh = b"%d" % byte
        return b"&#" + fresh.rjust(len(old) - 3, b"0") + b";" if len(fresh) <= len(old) - 3 else None
    if old[:1] == b"&" and old[:2] != b"&#":
        return None
    closing = b";" if old[:1] == b"&" else b""
    size = len(old) - len(closing)
    digits = b"%02x" % byte
    if old[size - 2 : size].upper() == old[size - 2 : size] and (old[:1] == b"%" or not old[size - 2 : size].isdigit()):
        digits = digits.upper()
    return old[: size - 2] + digits + closing


def all_rewritten(old: list[bytes], fresh: bytes) -> bytes | None:
    """Decimal references, one after the other, so that they say `fresh` in as many bytes all together."""
    parts = [b"&#%d;" % byte for byte in fresh]
    room = sum(map(len, old))
    for place, byte in enumerate(fresh):
        if sum(map(len, parts)) <= room:
            break
        if bytes([byte]).isalnum():
            parts[place] = bytes([byte])
    slack = room - sum(map(len, parts))
    padded = next((place for place, part in enumerate(parts) if len(part) > 1), None)
    if slack < 0 or (slack and padded is None):
        return None
    if padded is not None:
        parts[padded] = b"&#" + b"0" * slack + parts[padded][2:]
    return b"".join(parts)


def is_decimal(unit: bytes) -> bool:
    """Whether the unit is a decimal reference of HTML."""
    return _DIGITS.fullmatch(unit) is not None
