"""Texts split into lines, and a hash of each line, as column arithmetic over Arrow buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.quality.fingerprint import mixed
from trajmill.quality.shingle import Offsets, buffers

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.uint64]

_EIGHT: Final = 8
_ODD: Final = [np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93)]
_KEEP_FIRST: Final = np.array([(1 << (8 * size)) - 1 for size in range(9)], np.uint64)
_BLOCK: Final = 1 << 18
"""Bytes of text processed at once, so that the arrays fit the cache and memory stays flat."""

_LINE_FEED: Final = 10
_BLANK: Final = np.isin(np.arange(256), list(b" \t\r"))


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of texts.

    Attributes:
        data: Bytes of all texts.
        starts: Beginning of each line in `data`, and the end of the last line.
        first: Number of each text's first line, and finally the number of all lines.
    """

    data: npt.NDArray[np.uint8]
    starts: Offsets
    first: Offsets

    @classmethod
    def of(cls, texts: pa.StringArray) -> Lines:
        """Split each text into lines; a null is one empty line."""
        data, begins = buffers(texts)
        breaks = np.flatnonzero(data[begins[0] : begins[-1]] == _LINE_FEED) + begins[0]
        number = 1 + np.bincount(np.searchsorted(begins, breaks, "right") - 1, minlength=len(texts))
        starts = np.sort(np.concatenate([begins[:-1], breaks + 1, begins[-1:]]), kind="stable")
        return cls(data, starts, np.concatenate([[0], np.cumsum(number)]))

    def ends(self, *, trimmed: bool = False) -> Offsets:
        """Return the end of each line's text: before its line feed, or before its trailing blanks if `trimmed`."""
        ends = self.starts[1:].copy()
        some = np.flatnonzero(ends > self.starts[:-1])
        ends[some] -= self.data[ends[some] - 1] == _LINE_FEED
        while trimmed and len(some):
            some = some[ends[some] > self.starts[some]]
            some = some[_BLANK[self.data[ends[some] - 1]]]
            ends[some] -= 1
        return ends

    def texts(self) -> pa.StringArray:
        """Return each line as a text, with its line feed; no byte is copied."""
        offsets = pa.py_buffer(self.starts.astype(np.int32))
        return pa.StringArray.from_buffers(len(self.starts) - 1, offsets, pa.py_buffer(self.data))

    def text(self) -> Offsets:
        """Return the number of each line's text."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def hashes(self, *, trimmed: bool = False) -> Numbers:
        """Hash the bytes of each line up to `ends`, to 64 bits."""
        begin, size = self.starts[:-1], self.ends(trimmed=trimmed) - self.starts[:-1]
        hashes_of_lines = np.empty(len(begin), np.uint64)
        first = 0
        while first < len(begin):
            last = max(int(np.searchsorted(self.starts, self.starts[first] + _BLOCK, "right")) - 1, first + 1)
            block = self.data[self.starts[first] : self.starts[last]]
            hashes_of_lines[first:last] = _hash_block(block, begin[first:last] - begin[first], size[first:last])
            first = last
        return hashes_of_lines


def _hash_block(data: npt.NDArray[np.uint8], begin: Offsets, size: Offsets) -> Numbers:
    """Hash each line of a block: its size, and its bytes in groups of eight, each mixed with its position in the
    line.
    """
    padded = np.zeros(len(data) + _EIGHT, np.uint8)
    padded[: len(data)] = data
    eights = np.ndarray((len(data) + 1,), "<u8", padded.data, strides=(1,))
    count = (size + _EIGHT - 1) // _EIGHT
    ends = np.cumsum(count)
    index = np.arange(ends[-1]) - np.repeat(ends - count, count)
    values = eights[np.repeat(begin, count) + _EIGHT * index]
    some = np.flatnonzero(count)
    values[ends[some] - 1] &= _KEEP_FIRST[size[some] - _EIGHT * (count[some] - 1)]
    values ^= (index + 1).view(np.uint64) * _ODD[0]
    values *= _ODD[1]
    values ^= values >> np.uint64(29)
    values *= _ODD[2]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    return mixed(sums[ends] - sums[ends - count] + size.view(np.uint64) * _ODD[0])
