r"""Where bytes of a text stand for another byte (`%41`, `\u0041`, `&#65;`), or for nothing that is shown (colours).

Whole buffers of texts are looked at at once, with arrays in place of objects: some logs hold such places by the
thousand in each megabyte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from trajmill.quality.scrubbing.sensitive_names import is_sensitive_name

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

Found = tuple[Ints, Ints, Ints]
"""Arrays of the beginnings, the ends and the byte values of units."""

GONE: Final = -1
"""Value of a unit that stands for nothing."""


def among(characters: bytes) -> Flags:
    """Return a table with, for each byte, a flag that it is among `characters`."""
    table = np.zeros(256, np.bool_)
    table[list(characters)] = True
    return table


_WORD: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_NONE: Final[Found] = (np.zeros(0, np.int64),) * 3
BACKSLASH: Final = ord("\\")
_ESCAPE: Final = 0x1B
_ESCAPE_FORMS: Final = ((b"u", b"0", b"0", b"1", b"bB"), (b"x", b"1", b"bB"), (b"0", b"3", b"3"), (b"e",))
"""Forms of an escape character after a backslash."""

_NO_DIGIT: Final = 4096
_HEX: Final = np.full(256, _NO_DIGIT, np.int64)
_HEX[list(b"0123456789abcdef")] = np.arange(16)
_HEX[list(b"ABCDEF")] = np.arange(10, 16)
_SAYS: Final = np.zeros(17 * (_NO_DIGIT + 1), np.bool_)
_SAYS[[9, 10, 13, *range(32, 127)]] = True
_TELLS: Final = ~among(b"<>")
"""Unit values that could reveal a find when decoded; markup brackets could not."""

_ENDS_NAME: Final = among(b"dDnNsStTyY")
_NAME: Final = 16
"""Bytes before the end of an element's name in which a sensitive name is looked for."""

_JOINED: Final = among(_WORD + b"_-=:@/+.~\"'\\")
"""Bytes required on both sides of an invisible unit for it to cut a find."""

_PARAMETER: Final = among(b"0123456789;:?<=>! ")
_STILL: Final = among(b"mKhl")
"""Final bytes of control sequences (ECMA-48) that do not move the cursor: colors, erasing, modes."""

_PARAMETERS: Final = 32
_LEVELS: Final = 7
"""Largest number of additional backslashes that nested JSON writes before an escape."""

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
_STRINGS: Final = among(b"]P_^X")
_STRING: Final = re.compile(
    rb"[^\x07\x1b\n\\]{0,2048}(?:\x07|\x1b\\|\\+(?:u0007|x07|a)|\\+(?:u001[bB]|x1[bB]|033|e)\\+)"
)
"""Rest of a control string after its beginning, up to its end."""


@dataclass(frozen=True, slots=True)
class Units:
    """Units of a buffer, in order and disjoint.

    Attributes:
        start: Beginning of each unit.
        end: End of each unit.
        says: Byte that the unit stands for, or `GONE`.
        telling: True if decoding or removing the unit could reveal a find.
    """

    start: Ints
    end: Ints
    says: Ints
    telling: Flags


def units(data: bytes, values: Bytes, slash: Ints) -> Units:
    """Find all units of a buffer; `values` are the same bytes, and `slash` holds the offsets of the backslashes."""
    found_units = [_percent(values), _entities(data) if b"&" in data else _NONE]
    begins = [_find_escape(values, ())] if b"\x1b" in data else []
    if len(slash):
        slash = slash[: np.searchsorted(slash, len(values) - 3)]
        after = values[slash + 1]
        found_units += _find_escaped(values, slash[after == ord("x")], slash[after == ord("u")])
        begins += [_find_escape(values, form, slash[after == form[0][0]]) for form in _ESCAPE_FORMS]
    found_units += [_sequences(values, *begin) for begin in begins if len(begin[0])]
    found_units += [_strings(data, values, *begin) for begin in begins if len(begin[0])]
    if b"\r" in data:
        found_units.append(_returns(values))
    start, end, says = (np.concatenate([part[column] for part in found_units]) for column in range(3))
    if not len(start):
        return Units(start, end, says, np.zeros(0, np.bool_))
    order = np.lexsort((-end, start))
    start, end, says = start[order], end[order], says[order]
    reach = np.maximum.accumulate(end)
    apart = np.concatenate([[True], start[1:] >= reach[:-1]])
    start, end, says = start[apart], end[apart], says[apart]
    telling = _telling(values, start, end, says)
    telling[_announcing(data, values, start, says)] = True
    return Units(start, end, says, telling)


def _announcing(data: bytes, values: Bytes, start: Ints, says: Ints) -> list[int]:
    """Return the units that end the name of an element with a secret: `&lt;password&gt;` is like `password=`."""
    ends = np.flatnonzero((says == ord(">")) & _ENDS_NAME[values[(start - 1).clip(min=0)]])
    numbered_starts = zip(ends.tolist(), start[ends].tolist(), strict=True)
    return [
        number
        for number, unit_start in numbered_starts
        if is_sensitive_name(data[max(0, unit_start - _NAME) : unit_start])
    ]


def _telling(values: Bytes, start: Ints, end: Ints, says: Ints) -> Flags:
    """Flag the units that could hide a find: those that stand for more than a separator, and those that cut a word."""
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


def _percent(values: Bytes) -> Found:
    start = np.flatnonzero(values[: max(0, len(values) - 2)] == ord("%"))
    return _saying(values, start, start, 3)


def _saying(values: Bytes, start: Ints, last: Ints, size: int) -> Found:
    """Return the units whose last two characters are hexadecimal digits of a byte that texts contain.

    Args:
        values: Buffer.
        start: Beginning of each unit.
        last: Beginning of its last part, after the additional backslashes of nested JSON.
        size: Bytes of this part.
    """
    says = _HEX[values[last + size - 2]] * 16 + _HEX[values[last + size - 1]]
    fits = _SAYS[says]
    return start[fits], last[fits] + size, says[fits]


def _find_escaped(values: Bytes, short: Ints, long: Ints) -> list[Found]:
    r"""`\x41` and `\u0041`, with the backslashes that nested JSON adds; arguments are where each seems to begin."""
    long = long[long + 5 < len(values)]
    long = long[(values[long + 2] == ord("0")) & (values[long + 3] == ord("0"))]
    return [
        _saying(values, first_backslash(values, last), last, size)
        for last, size in ((short, 4), (long, 6))
        if len(last)
    ]


def first_backslash(values: Bytes, start: Ints) -> Ints:
    """Return for each backslash the first of its run, which nested JSON makes long; eight at most."""
    for _ in range(_LEVELS):
        before = (start > 0) & (values[start - 1] == BACKSLASH)
        if not before.any():
            break
        start = start - before
    return start


def _entities(data: bytes) -> Found:
    found_entities = [
        (*match.span(), int(match[1]) if match[1] else int(match[2], 16) if match[2] else _NAMED[match[3]])
        for match in _ENTITY.finditer(data)
    ]
    start, end, says = np.array(found_entities, np.int64).reshape(-1, 3).T
    fits = _SAYS[says]
    return start[fits], end[fits], says[fits]


def _find_escape(values: Bytes, form: tuple[bytes, ...], slash: Ints | None = None) -> tuple[Ints, Ints]:
    """Return the beginnings and ends of escape characters, raw or as a backslash and the bytes of `form`."""
    if slash is None:
        start = np.flatnonzero(values == _ESCAPE)
        return start, start + 1
    start = slash[slash + len(form) + 1 < len(values)]
    for position, choice in enumerate(form):
        byte = values[start + position + 1]
        start = start[(byte == choice[0]) | (byte == choice[-1])]
    return first_backslash(values, start), start + len(form) + 1


def _sequences(values: Bytes, start: Ints, after: Ints) -> Found:
    """Find control sequences that do not move the cursor; `after` holds the ends of their escape characters."""
    last = len(values) - 1
    is_sequence = after <= last
    is_sequence[is_sequence] = values[after[is_sequence]] == ord("[")
    start, end = start[is_sequence], after[is_sequence] + 1
    for _ in range(_PARAMETERS):
        more = (end < last) & _PARAMETER[values[np.minimum(end, last)]]
        if not more.any():
            break
        end = end + more
    is_sequence = (end <= last) & _STILL[values[np.minimum(end, last)]]
    return _as_gone(np.stack([start[is_sequence], end[is_sequence] + 1], axis=1))


def _strings(data: bytes, values: Bytes, start: Ints, after: Ints) -> Found:
    """Find control strings, such as the title of a window or a link."""
    opened = np.flatnonzero(_STRINGS[values[np.minimum(after, len(values) - 1)]] & (after < len(values)))
    matches = [(begin, _STRING.match(data, end)) for begin, end in zip(start[opened], after[opened], strict=True)]
    return _as_gone(np.array([(begin, match.end()) for begin, match in matches if match], np.int64).reshape(-1, 2))


def _returns(values: Bytes) -> Found:
    """Find the bytes that `readline` writes where a typed line reaches the last column."""
    start = np.flatnonzero(values[: max(0, len(values) - 2)] == ord("\r")) - 1
    start = start[start >= 0]
    start = start[(values[start] == ord(" ")) & _JOINED[values[start + 2]]]
    return _as_gone(np.stack([start, start + 2], axis=1))


def _as_gone(spans: Ints) -> Found:
    return spans[:, 0], spans[:, 1], np.full(len(spans), GONE, np.int64)


_DIGITS: Final = re.compile(rb"&#0*(\d+);")


def rewritten(old: bytes, byte: int) -> bytes | None:
    """Return the unit `old` rewritten to stand for `byte`, with the same length; None if that is impossible."""
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


def rewrite_all(old: list[bytes], fresh: bytes) -> bytes | None:
    """Rewrite adjacent decimal references to stand for `fresh`, with the same total length; None if that is
    impossible.
    """
    parts = [b"&#%d;" % byte for byte in fresh]
    room = sum(map(len, old))
    for position, byte in enumerate(fresh):
        if sum(map(len, parts)) <= room:
            break
        if bytes([byte]).isalnum():
            parts[position] = bytes([byte])
    slack = room - sum(map(len, parts))
    padded = next((position for position, part in enumerate(parts) if len(part) > 1), None)
    if slack < 0 or (slack and padded is None):
        return None
    if padded is not None:
        parts[padded] = b"&#" + b"0" * slack + parts[padded][2:]
    return b"".join(parts)


def is_decimal(unit: bytes) -> bool:
    """Check whether the unit is a decimal reference of HTML."""
    return _DIGITS.fullmatch(unit) is not None
