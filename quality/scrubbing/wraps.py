"""Line wraps: places where a line seems to continue in the next one, cut at a terminal's width or wrapped by a program.

Prose is wrapped between words. So a place counts only if both sides together look like one long token, and the joined
text is a find only by its own form or by a name before it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trajmill.quality.scrubbing.units import BACKSLASH, GONE, Bytes, Flags, Ints, Units, among, first_backslash

_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGIT: Final = among(b"0123456789")
_UPPER: Final = among(_LETTERS[:26])
_TOKEN: Final = among(_LETTERS + b"0123456789_-=:@/+.~%&?!#$*^\\")
_OPENING: Final = among(_LETTERS + b"0123456789_-=/+.%")
"""Bytes at which a continuation may begin; no prompt begins with them."""

_SOFT: Final = (68, 78)
"""Columns where quoted-printable (RFC 2045, 6.7) breaks a line, with `=` at its end."""

_WIDTHS: Final = np.zeros(512, np.bool_)
_WIDTHS[[64, 72, *range(76, 81), 100, 120, 132, 160, 200, 240]] = True
"""Columns where terminals end and programs wrap.

At other widths, a wrapped line must be the longest of its text or as long as a neighbor.
"""

_NARROWEST: Final = 40
"""Columns below which no line counts as full, unless a mark at its end announces a continuation."""

_RUN: Final = 12
_LONG_RUN: Final = 16
_SHORT_RUN: Final = _LONG_RUN - _RUN
"""Least number of bytes of a long token on each side, since at most `_RUN` bytes of the other side count."""

_WORDY: Final = 6
"""Bytes from which letters of one case alone are taken for a word."""

_INDENT: Final = 16


def wraps(values: Bytes, offsets: Ints, slash: Ints, shown: Units) -> tuple[Ints, Ints]:
    """Return (start, end) of the bytes between two parts of a wrapped line, in order.

    Args:
        values: Bytes of the texts, one after the other.
        offsets: Beginning of each text, and the end of the last one.
        slash: Offsets of the backslashes.
        shown: Units of the texts; removed units take no column.
    """
    start, end = _breaks(values, slash)
    if not len(start):
        return start, end
    bytes_of_line = start - np.concatenate([[0], end[:-1]])
    last = values[np.maximum(start - 1, 0)]
    likely = np.flatnonzero(_TOKEN[last] & ((bytes_of_line >= _NARROWEST) | (last == BACKSLASH)))
    follows = values[np.minimum(end[likely], len(values) - 1)]
    likely = likely[_OPENING[follows] | (follows == ord(" "))]
    if not len(likely):
        return start[:0], end[:0]
    text = np.repeat(np.arange(len(offsets) - 1), np.diff(np.searchsorted(start, offsets)))
    line = np.maximum(np.concatenate([[0], end[:-1]]), offsets[text])
    alike = _as_wide(start - line, text)[likely]
    start, end, text, last = start[likely], end[likely], text[likely], last[likely]
    width = _columns(values, line[likely], start, shown)
    soft = (last == ord("=")) & (width >= _SOFT[0]) & (width <= _SOFT[1])
    marked = (start > 0) & ((last == BACKSLASH) | soft)
    chosen = np.flatnonzero(marked | ((alike | _WIDTHS[width.clip(0, 511)]) & (width >= _NARROWEST)))
    chosen = chosen[_are_long(values, start[chosen], end[chosen])]
    text = text[chosen]
    low, high = offsets[text], offsets[text + 1]
    begin, stop = (start - marked)[chosen], end[chosen]
    before, wordy = _run(values, begin - 1, -1, low, high)
    candidates = np.flatnonzero((before > 0) & ~wordy)
    begin, stop, low, high, before = (
        begin[candidates],
        stop[candidates],
        low[candidates],
        high[candidates],
        before[candidates],
    )
    stop = _past_indent(values, stop)
    after, wordy = _run(values, stop, 1, low, high)
    opened = _OPENING[values[np.minimum(stop, len(values) - 1)]]
    token = opened & (after > 0) & ~wordy & (before + after >= _LONG_RUN)
    return begin[token], stop[token]


def _are_long(values: Bytes, start: Ints, end: Ints) -> Flags:
    """Flag the breaks that could be within a long token, by a few adjacent bytes; this cheaply excludes most breaks."""
    limit = len(values) - 1
    ahead = np.minimum(end[:, None] + np.arange(_SHORT_RUN), limit)
    back = np.maximum(start[:, None] - np.arange(1, _SHORT_RUN + 1), 0)
    indented = values[ahead[:, 0]] == ord(" ")
    return _TOKEN[values[back]].all(axis=1) & (indented | _TOKEN[values[ahead]].all(axis=1))


def _breaks(values: Bytes, slash: Ints) -> tuple[Ints, Ints]:
    r"""Line ends, also as JSON writes them (`\n`), with the carriage return before."""
    end = np.flatnonzero(values == ord("\n")) + 1
    start = end - 1
    start = start - ((start > 0) & (values[start - 1] == ord("\r")))
    slash = slash[: np.searchsorted(slash, len(values) - 1)]
    slash = slash[values[slash + 1] == ord("n")]
    if len(slash):
        written = slash + 2
        slash = first_backslash(values, slash)
        cr = (slash > 1) & (values[slash - 1] == ord("r")) & (values[slash - 2] == ord("\\"))
        slash = slash - 2 * cr
        if not len(start):
            return slash, written
        start, end = np.concatenate([start, slash]), np.concatenate([end, written])
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    return start, end


def _columns(values: Bytes, line: Ints, end: Ints, shown: Units) -> Ints:
    """Count the columns from each line's beginning to its end: bytes without removed units and without all but the
    first byte of a letter.
    """
    width = end - line
    gone = np.flatnonzero(shown.says == GONE)
    if len(gone):
        lost = np.concatenate([[0], np.cumsum(shown.end[gone] - shown.start[gone])])
        gone_starts = shown.start[gone]
        width = width - (lost[np.searchsorted(gone_starts, end)] - lost[np.searchsorted(gone_starts, line)])
    parts = np.flatnonzero(values.view(np.int8) < -64)
    if 0 < len(parts) < len(end):
        line_number = np.searchsorted(end, parts, "right").clip(max=len(end) - 1)
        width = width - np.bincount(
            line_number[(line[line_number] <= parts) & (parts < end[line_number])], minlength=len(end)
        )
    elif len(parts):
        width = width - (np.searchsorted(parts, end) - np.searchsorted(parts, line))
    return width


def _as_wide(size: Ints, text: Ints) -> Flags:
    """Flag the lines that are as long as a neighbor, or the longest of their text."""
    same = (size[1:] == size[:-1]) & (text[1:] == text[:-1])
    alike = np.concatenate([same, [False]]) | np.concatenate([[False], same])
    first = np.flatnonzero(np.concatenate([[True], text[1:] != text[:-1]]))
    longest = np.maximum.reduceat(size, first)
    return alike | (size == np.repeat(longest, np.diff(np.concatenate([first, [len(text)]]))))


def _past_indent(values: Bytes, end: Ints) -> Ints:
    last = len(values) - 1
    for _ in range(_INDENT):
        more = (end < last) & (values[np.minimum(end, last)] == ord(" "))
        if not more.any():
            break
        end = end + more
    return end


def _run(values: Bytes, start: Ints, step: int, low: Ints, high: Ints) -> tuple[Ints, Flags]:
    """Return the length of the token from each start in one direction, at most `_RUN`, and a flag that it looks like a
    word.
    """
    positions = start[:, None] + step * np.arange(_RUN)
    within = (positions >= low[:, None]) & (positions < high[:, None])
    byte = values[np.minimum(np.maximum(positions, 0), len(values) - 1)]
    going = np.logical_and.accumulate(within & _TOKEN[byte], axis=1)
    is_telling = _DIGIT[byte]
    is_telling[:, 1:] |= _UPPER[byte[:, 1:]]
    size = going.sum(axis=1)
    return size, (size >= _WORDY) & ~(going & is_telling).any(axis=1)
