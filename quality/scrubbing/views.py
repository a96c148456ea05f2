r"""Texts as they are meant: without what a terminal does not show, what is encoded decoded, wrapped lines joined.

Views are made of a whole buffer of texts at once, and only of windows around places where they say something else than
the texts do: a colour code within a word, `%41`, a line that goes on in the next one. A view knows for each of its
bytes where that stood, so that what is found in it is replaced in the text and nothing around it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from trajmill.quality.scrubbing.units import (
    BACKSLASH,
    GONE,
    Bytes,
    Flags,
    Ints,
    Units,
    is_decimal,
    rewrite_all,
    rewritten,
    units,
)
from trajmill.quality.scrubbing.wraps import wraps

BEFORE: Final = 128
AFTER: Final = 320
"""Bytes around a place that a view shows, enough for the announcement of a secret and the rest of a token."""

_NOWHERE: Final = -1
_SEPARATOR: Final = ord("\n")
"""Byte between two windows, which no text contains."""

_NARROWEST: Final = 32
"""Bytes of text below which no line counts as wrapped."""

_SIGNS: Final = (b"\n", b"\\", b"%", b"&", b"\x1b", b"\r")
"""Bytes of which every unit and every end of a line contains one."""

_AT_ONCE: Final = 1 << 22
"""Bytes of windows processed together, which bounds the arrays of their places; a longer text is processed alone."""

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.integer[Any]]]

Windows: TypeAlias = tuple[Ints, Ints, Ints]
"""(text, begin, end) of each window, at least one, in order."""


class View:
    """View of a text: the contents of its windows.

    Args:
        data: Contents of the windows.
        at: For each byte, the beginning of its source in the text, or -1.
        size: For each byte, the number of source bytes in the text.
        joints: Twice the position of each byte before which bytes are omitted; plus one for a decoded byte.
        length: Bytes of the text.
        wrapped: True if the joints are the ends of lines that only seem to continue.
    """

    def __init__(self, data: bytes, at: Numbers, size: Numbers, joints: Ints, length: int, *, wrapped: bool) -> None:
        self.data = data
        self.wrapped = wrapped
        self._length = length
        self._at, self._joints, self._cuts = (_fast(numbers) for numbers in (at, joints, np.flatnonzero(at < 0)))
        self._size = size.astype(np.uint8).tobytes()

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the text of a part of `data`, from its first byte to its last."""
        return self._at[start], self._at[end - 1] + self._size[end - 1]

    def is_whole(self, start: int, end: int, *, open_end: bool = False) -> bool:
        """Check that a part of `data` is not empty, is within one window, and touches no cut made by the window.

        Args:
            start: Beginning of the part.
            end: End of the part.
            open_end: True if the part may continue beyond the window.
        """
        cut = bisect_left(self._cuts, start)
        if start >= end or (cut < len(self._cuts) and self._cuts[cut] < end):
            return False
        begun = self._at[start] == 0 or (start > 0 and self._at[start - 1] >= 0)
        last = end == len(self._at) or self._at[end] < 0
        return begun and (open_end or not last or self.place(start, end)[1] == self._length)

    def joint(self, start: int, end: int) -> int | None:
        """Return the position of the last joint within a part of `data`; None if the text contains the part
        unchanged.
        """
        last = bisect_left(self._joints, 2 * end) - 1
        return self._joints[last] // 2 if last >= 0 and self._joints[last] > 2 * start else None

    def ends_hidden(self, end: int) -> bool:
        """Check whether hidden bytes of the text follow the byte before `end`."""
        position = bisect_left(self._joints, 2 * end)
        return position < len(self._joints) and self._joints[position] == 2 * end

    def written(self, text: bytes, start: int, end: int, fresh: bytes) -> tuple[int, int, bytes] | None:
        """Return the patch of the text that turns this part of `data` into `fresh`; None if it does not fit the
        bytes.
        """
        begin, stop = self.place(start, end)
        out = bytearray(text[begin:stop])
        position = start
        while position < end:
            upto, old = position + 1, [self._unit(text, position)]
            while is_decimal(old[-1]) and upto < end and self._at[upto] == self._at[upto - 1] + self._size[upto - 1]:
                old.append(self._unit(text, upto))
                upto += 1
            if not is_decimal(old[-1]) and len(old) > 1:
                upto -= 1
                old.pop()
            piece = fresh[position - start : upto - start]
            if piece != self.data[position:upto]:
                unit = rewritten(old[0], piece[0]) if len(old) == 1 else rewrite_all(old, piece)
                if unit is None:
                    return None
                at = self._at[position] - begin
                out[at : at + len(unit)] = unit
            position = upto
        return begin, stop, bytes(out)

    def _unit(self, text: bytes, position: int) -> bytes:
        at = self._at[position]
        return text[at : at + self._size[position]]


def _fast(numbers: Numbers) -> array[int]:
    """Return the numbers in an array that is faster for access one by one."""
    return array("q", numbers.astype(np.int64).tobytes())


class Views:
    """Views of one type of some texts of a buffer.

    Attributes:
        data: Contents of all windows, text after text.
        numbers: Numbers of the texts with windows, ascending.
        bounds: Beginning of each of these texts in `data`, and the end of the last one.
    """

    def __init__(
        self,
        values: Bytes,
        offsets: Ints,
        shown: Units,
        gone: Flags,
        windows: Windows,
        wrapped: tuple[Ints, Ints] | None,
    ) -> None:
        self._wrapped = wrapped is not None
        text, low, high = windows
        # an offset takes 4 bytes: a buffer has less than 2 GB, and may be a single window
        begin = (low - _before(high - low)).astype(np.int32)
        index = np.arange(int((high - low).sum()), dtype=np.int32) + np.repeat(begin, high - low)
        at = index[~gone[index]]
        shown_bytes = values[at]
        size = np.ones(len(at), np.uint8)
        some = slice(*np.searchsorted(shown.start, (low[0], high[-1])).tolist())
        decoded = shown.says[some] != GONE
        start, end, says = (values_of_units[some][decoded] for values_of_units in (shown.start, shown.end, shown.says))
        positions = np.searchsorted(at, start.astype(np.int32))
        hit = positions < len(at)
        hit[hit] = at[positions[hit]] == start[hit]
        shown_bytes[positions[hit]] = says[hit]
        size[positions[hit]] = (end - start)[hit]
        begins = np.searchsorted(at, low.astype(np.int32))
        self._at = np.insert(at, begins, _NOWHERE)
        self._size = np.insert(size, begins, 0)
        self.data = np.insert(shown_bytes, begins, _SEPARATOR).tobytes()
        self._joints = self._joints_of(wrapped)
        starts = begins + np.arange(len(begins))
        first = np.flatnonzero(np.concatenate([[True], text[1:] != text[:-1]]))
        self.numbers: list[int] = text[first].tolist()
        self.bounds: list[int] = [*starts[first].tolist(), len(self.data)]
        self._begins = offsets

    def _joints_of(self, wrapped: tuple[Ints, Ints] | None) -> Ints:
        at, size = self._at, self._size
        after = np.flatnonzero((at[1:] != (at + size)[:-1]) & (at[1:] >= 0) & (at[:-1] >= 0)) + 1
        if wrapped is None:
            return np.sort(np.concatenate([2 * after, 2 * np.flatnonzero(size > 1) + 1]))
        begins, reached = wrapped[0], (at + size)[after - 1]
        wrap_number = np.searchsorted(begins, reached).clip(max=len(begins) - 1)
        return 2 * after[(begins[wrap_number] >= reached) & (begins[wrap_number] < at[after])]

    def of(self, number: int) -> View:
        """Return the view of the text `numbers[number]`."""
        low, high = self.bounds[number], self.bounds[number + 1]
        at, size = self._at[low:high], self._size[low:high]
        first, last = np.searchsorted(self._joints, (2 * low, 2 * high))
        begin = int(self._begins[self.numbers[number]])
        at = np.where(at >= 0, at - begin, _NOWHERE)
        joints = self._joints[first:last] - 2 * low
        length = int(self._begins[self.numbers[number] + 1]) - begin
        return View(self.data[low:high], at, size, joints, length, wrapped=self._wrapped)


def _before(sizes: Ints) -> Ints:
    """Return the beginning of each of some adjacent ranges."""
    return np.cumsum(sizes) - sizes


def _windows(offsets: Ints, shown: Units, start: Ints, end: Ints) -> Windows:
    """Return the windows around these places; none cuts a unit or a text."""
    text = np.searchsorted(offsets, start, "right") - 1
    low = np.maximum(start - BEFORE, offsets[text])
    high = np.minimum(end + AFTER, offsets[text + 1])
    fresh = np.ones(len(start), np.bool_)
    fresh[1:] = (low[1:] > high[:-1]) | (text[1:] != text[:-1])
    text, low, high = text[fresh], low[fresh], high[np.concatenate([fresh[1:], [True]])] if len(start) else high
    if len(shown.start):
        unit_number = (np.searchsorted(shown.start, low) - 1).clip(min=0)
        low = np.where((shown.start[unit_number] < low) & (low < shown.end[unit_number]), shown.end[unit_number], low)
        unit_number = (np.searchsorted(shown.start, high) - 1).clip(min=0)
        high = np.where(
            (shown.start[unit_number] < high) & (high < shown.end[unit_number]), shown.start[unit_number], high
        )
    return text, low, np.maximum(high, low)


def _interiors(shown: Units, wrapped: tuple[Ints, Ints] | None) -> Ints:
    """Return every byte that no view shows: all bytes of removed units, all but the first of decoded units."""
    start, end = shown.start + (shown.says != GONE), shown.end
    if wrapped is not None:
        start, end = np.concatenate([start, wrapped[0]]), np.concatenate([end, wrapped[1]])
    sizes = end - start
    return np.arange(int(sizes.sum())) + np.repeat(start - _before(sizes), sizes)


def views(data: bytes, offsets: Sequence[int]) -> Iterator[Views]:
    """Yield the views of adjacent texts: first decoded and without hidden bytes, then also with wrapped lines joined.

    Args:
        data: Texts.
        offsets: Beginning of each text, and the end of the last one.
    """
    data = data[offsets[0] : offsets[-1]]
    if not any(sign in data for sign in _SIGNS):
        return
    begins = np.asarray(offsets, np.int64) - offsets[0]
    values = np.frombuffer(data, np.uint8)
    slash = np.flatnonzero(values == BACKSLASH)
    shown = units(data, values, slash)
    if shown.telling.any():
        yield from _portions(values, begins, shown, None)
    joined = wraps(values, begins, slash, shown) if len(values) >= _NARROWEST else None
    if joined is not None and len(joined[0]):
        yield from _portions(values, begins, shown, joined)


def _portions(values: Bytes, offsets: Ints, shown: Units, wrapped: tuple[Ints, Ints] | None) -> Iterator[Views]:
    """Yield the views of one type of all texts, in portions of about `_AT_ONCE` bytes of windows."""
    telling = (shown.start[shown.telling], shown.end[shown.telling]) if wrapped is None else wrapped
    text, low, high = _windows(offsets, shown, *telling)
    gone = np.zeros(len(values), np.bool_)
    gone[_interiors(shown, wrapped)] = True
    done = _before(high - low)
    begins = np.flatnonzero(np.concatenate([[True], text[1:] != text[:-1]]))
    fresh = np.concatenate([[True], np.diff(done[begins] // _AT_ONCE) > 0])
    cuts = [*begins[fresh].tolist(), len(text)]
    for first, end in pairwise(cuts):
        yield Views(values, offsets, shown, gone, (text[first:end], low[first:end], high[first:end]), wrapped)
