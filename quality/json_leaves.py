"""The values in JSON texts, found by column arithmetic over the Arrow buffer: no text becomes a Python object.

It takes for granted that each text is JSON; of one that is not, something comes back that means nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.quality.sets import marks_before
from trajmill.quality.shingle import Flags, Offsets, blocks, translated

_QUOTE: Final = ord('"')
_COLON: Final = ord(":")
_BACKSLASH: Final = ord("\\")
_LINE_FEED: Final = ord("\n")
_BLANK: Final = ord(" ")
_SPACES: Final = np.isin(np.arange(256), list(b" \t\r\n"))
_BARE: Final = (~np.isin(np.arange(256), list(b'{}[],:" \t\r\n'))).tobytes()
"""1 for bytes of numbers and of the words true, false and null."""


def leaves(texts: pa.StringArray) -> pa.StringArray:
    """The strings, numbers and words that each JSON text holds, in order, one a line; keys are none of them.

    An escape of two characters becomes one blank; one by number (`\\u00e9`) stays as it is written.
    """
    found, sizes = [], [np.zeros(1, np.int64)]
    for _, data, starts in blocks(texts):
        some, number = _of_block(data.copy(), starts)
        found.append(some)
        sizes.append(number)
    offsets = np.cumsum(np.concatenate(sizes)).astype(np.int32)
    data = np.concatenate([*found, np.zeros(0, np.uint8)])
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(data))


def _of_block(data: npt.NDArray[np.uint8], starts: Offsets) -> tuple[npt.NDArray[np.uint8], Offsets]:
    """The bytes of a block's values, and how many of them each text has; `data` is changed."""
    escaped = _escaped(data)
    quotes = data == _QUOTE
    quotes[escaped] = False
    quoted = np.flatnonzero(quotes)
    opens, closes = quoted[::2], quoted[1::2]
    value = ~_before_colon(data, closes)
    bare = translated(data, _BARE).view(np.bool_) & ~_within(opens, closes + 1, len(data))
    kept = bare | _within(opens[value] + 1, closes[value], len(data))
    kept[closes[value]] = True
    kept[1:] |= bare[:-1]
    data[closes[value]] = _LINE_FEED
    data[1:][bare[:-1] & ~bare[1:]] = _LINE_FEED
    kept[starts[1:-1]] &= bare[starts[1:-1]]  # a number that is all of a text has no byte behind it
    simple = escaped[data[escaped] != ord("u")]
    data[simple - 1] = _BLANK
    kept[simple] = False
    return data[kept], np.diff(marks_before(kept, starts))


def _within(begin: Offsets, end: Offsets, size: int) -> Flags:
    """Whether each of so many bytes lies between a beginning and its end; none overlap."""
    edges = np.zeros(2 * len(begin) + 2, np.int64)
    edges[1:-1:2], edges[2:-1:2], edges[-1] = begin, end, size
    return np.repeat(np.arange(len(edges) - 1) % 2 == 1, np.diff(edges))


def _escaped(data: npt.NDArray[np.uint8]) -> Offsets:
    """Where a byte stands behind the backslash that escapes it."""
    backslashes = np.flatnonzero(data == _BACKSLASH)
    if not len(backslashes):
        return backslashes
    number = np.arange(len(backslashes))
    begins = np.ones(len(backslashes), np.bool_)
    begins[1:] = np.diff(backslashes) > 1
    within = number - np.maximum.accumulate(np.where(begins, number, 0))
    return backslashes[within % 2 == 0] + 1


def _before_colon(data: npt.NDArray[np.uint8], closes: Offsets) -> Flags:
    """Whether a colon follows each closing quote, blanks aside."""
    behind = np.append(data, np.uint8(0))
    place = closes + 1
    some = np.flatnonzero(_SPACES[behind[place]])
    while len(some):
        place[some] += 1
        some = some[_SPACES[behind[place[some]]]]
    found: Flags = behind[place] == _COLON
    return found
