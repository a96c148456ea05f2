"""Where a line seems to go on in the next one: cut by the width of a terminal, or wrapped by a program.

Seems: prose is wrapped between words. So a place is given only where both sides together look like one long token, and
what is made of it has to be told by its own form or by a name before it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from quality.scrubbing.units import GONE, Bytes, Flags, Ints, Units, among

_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGIT: Final = among(b"0123456789")
_UPPER: Final = among(_LETTERS[:26])
_TOKEN: Final = among(_LETTERS + b"0123456789_-=:@/+.~%&?!#$*^\\")
_OPENING: Final = among(_LETTERS + b"0123456789_-=/+.%")
"""How what goes on may begin: no prompt is among them."""

_SOFT: Final = (68, 78)
"""Columns where quoted-printable (RFC 2045, 6.7) breaks a line, with `=` at its end."""

_WIDTHS: Final = np.zeros(512, np.bool_)
_WIDTHS[[60, 64, 70, 72, *range(75, 82), 90, 96, 98, 99, *range(100, 103), 110, 118, 119, 120, 121]] = True
_WIDTHS[[128, 130, 131, 132, 140, 150, 158, 159, 160, 180, 200, 220, 238, 239, 240, 250, 256]] = True
"""Columns where terminals end and programs wrap, with room for a prompt's or a frame's character."""

_NARROWEST: Final = 40
"""Columns below which no line is taken for full, unless a mark at its end says that it goes on."""

_RUN: Final = 24
_LONG_RUN: Final = 16
_INDENT: Final = 16


def wraps(data: bytes, values: Bytes, offsets: Ints, shown: Units) -> tuple[Ints, Ints]:
    """(start, end) of what stands between two parts of a line that was wrapped, in order.

    Args:
        data: the texts one after the other.
        values: the same bytes.
        offsets: where each text begins, and at last where the last one ends.
        shown: the units of the texts; what is not shown takes no column.
    """
    start, end = _breaks(data, values)
    if not len(start):
        return start, end
    last, follows = values[np.maximum(start - 1, 0)], values[np.minimum(end, len(values) - 1)]
    slashed = last == ord("\\")
    likely = _TOKEN[last] & (_OPENING[follows] | (follows == ord(" ")))
    likely &= slashed | (start - np.concatenate([[0], end[:-1]]) >= _NARROWEST)
    if not likely.any():
        return start[:0], end[:0]
    text = np.searchsorted(offsets, start, "right") - 1
    width = _widths(values, start, end, offsets[text], shown)
    soft = (last == ord("=")) & (width >= _SOFT[0]) & (width <= _SOFT[1])
    marked = (start > 0) & (slashed | soft)
    chosen = np.flatnonzero(likely & (marked | (_is_full(width, text) & (width >= _NARROWEST))))
    text = text[chosen]
    begin, stop = (start - marked)[chosen], _past_indent(values, end[chosen])
    low, high = offsets[text], offsets[text + 1]
    chosen = np.flatnonzero(_OPENING[values[np.minimum(stop, len(values) - 1)]] & (begin > low) & (stop < high))
    begin, stop, low, high = begin[chosen], stop[chosen], low[chosen], high[chosen]
    before, told_before = _run(values, begin - 1, -1, low, high)
    after, told_after = _run(values, stop, 1, low, high)
    long = (before > 0) & (after > 0) & (before + after >= _LONG_RUN) & (told_before + told_after > 0)
    return begin[long], stop[long]


def _breaks(data: bytes, values: Bytes) -> tuple[Ints, Ints]:
    r"""Line ends, also as JSON writes them (`\n`), with the carriage return before."""
    end = np.flatnonzero(values == ord("\n")) + 1
    start = end - 1
    start = start - ((start > 0) & (values[start - 1] == ord("\r")))
    if b"\\n" in data:
        slash = np.flatnonzero(values[:-1] == ord("\\"))
        slash = slash[values[slash + 1] == ord("n")]
        written = slash + 2
        for _ in range(3):
            slash = slash - ((slash > 0) & (values[slash - 1] == ord("\\")))
        cr = (slash > 1) & (values[slash - 1] == ord("r")) & (values[slash - 2] == ord("\\"))
        slash = slash - 2 * cr
        start, end = np.concatenate([start, slash]), np.concatenate([end, written])
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    return start, end


def _widths(values: Bytes, start: Ints, end: Ints, text: Ints, shown: Units) -> Ints:
    """Columns of the line that ends at each break: bytes, less what is not shown and all but the first of a letter."""
    line = np.maximum(np.concatenate([[0], end[:-1]]), text)
    width = start - line
    gone = np.flatnonzero(shown.says == GONE)
    if len(gone):
        lost = np.concatenate([[0], np.cumsum(shown.end[gone] - shown.start[gone])])
        places = shown.start[gone]
        width = width - (lost[np.searchsorted(places, start)] - lost[np.searchsorted(places, line)])
    parts = np.flatnonzero((values & 0xC0) == 0x80)
    if len(parts):
        width = width - (np.searchsorted(parts, start) - np.searchsorted(parts, line))
    return width


def _is_full(width: Ints, text: Ints) -> Flags:
    """Which lines may be cut: of a usual width, as wide as a neighbour, or the widest of their text."""
    usual = _WIDTHS[width.clip(0, 511)]
    same = (width[1:] == width[:-1]) & (text[1:] == text[:-1])
    usual |= np.concatenate([same, [False]]) | np.concatenate([[False], same])
    first = np.flatnonzero(np.concatenate([[True], text[1:] != text[:-1]]))
    widest = np.maximum.reduceat(width, first)
    return usual | (width == np.repeat(widest, np.diff(np.concatenate([first, [len(text)]]))))


def _past_indent(values: Bytes, end: Ints) -> Ints:
    last = len(values) - 1
    for _ in range(_INDENT):
        more = (end < last) & (values[np.minimum(end, last)] == ord(" "))
        if not more.any():
            break
        end = end + more
    return end


def _run(values: Bytes, place: Ints, step: int, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """How far a token goes from each place in one direction, `_RUN` at most, and how much in it words have not."""
    places = place[:, None] + step * np.arange(_RUN)
    within = (places >= low[:, None]) & (places < high[:, None])
    byte = values[np.minimum(np.maximum(places, 0), len(values) - 1)]
    going = np.logical_and.accumulate(within & _TOKEN[byte], axis=1)
    told = _DIGIT[byte]
    told[:, 1:] |= _UPPER[byte[:, 1:]]
    return going.sum(axis=1), (going & told).sum(axis=1)
