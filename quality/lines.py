"""Texts cut into lines, and a hash of each line, as column arithmetic over Arrow buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quality.fingerprint import mixed
from quality.shingle import Offsets, buffers

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.uint64]

_BASE: Final = 0x9E3779B97F4A7C15 | 1
_INVERSE: Final = pow(_BASE, -1, 1 << 64)
_BLOCK: Final = 1 << 16
_LINE_FEED: Final = 10
_BLANK: Final = np.isin(np.arange(256), list(b" \t\r"))


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of texts.

    Attributes:
        data: bytes of all texts.
        starts: where each line begins in `data`, and where the last one ends.
        first: of each text the number of its first line, and at last the number of all lines.
    """

    data: npt.NDArray[np.uint8]
    starts: Offsets
    first: Offsets

    @classmethod
    def of(cls, texts: pa.StringArray) -> Lines:
        """The lines of each text; a null is one empty line."""
        data, begins = buffers(texts)
        breaks = np.flatnonzero(data[begins[0] : begins[-1]] == _LINE_FEED) + begins[0]
        number = 1 + np.bincount(np.searchsorted(begins, breaks, "right") - 1, minlength=len(texts))
        starts = np.sort(np.concatenate([begins[:-1], breaks + 1, begins[-1:]]), kind="stable")
        return cls(data, starts, np.concatenate([[0], np.cumsum(number)]))

    def ends(self, *, trimmed: bool = False) -> Offsets:
        """Where the text of each line ends: before its line feed, and if trimmed before the blanks at its end."""
        ends = self.starts[1:].copy()
        some = np.flatnonzero(ends > self.starts[:-1])
        ends[some] -= self.data[ends[some] - 1] == _LINE_FEED
        while trimmed and len(some):
            some = some[ends[some] > self.starts[some]]
            some = some[_BLANK[self.data[ends[some] - 1]]]
            ends[some] -= 1
        return ends

    def text(self) -> Offsets:
        """Of each line the number of the text that it is of."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def hashes(self, *, trimmed: bool = False) -> Numbers:
        """A 64-bit hash of the bytes of each line up to `ends`."""
        size = len(self.data)
        powers, inverses = _powers(_BASE), _powers(_INVERSE)
        ends = self.ends(trimmed=trimmed)
        places = np.concatenate([self.starts[:-1], ends])
        sums = np.zeros(len(places), np.uint64)
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        total = np.uint64(0)
        for begin in range(0, size + 1, _BLOCK):
            block = self.data[begin : begin + _BLOCK].astype(np.uint64) + np.uint64(1)
            running = np.concatenate([[np.uint64(0)], np.cumsum(block * powers[: len(block)], dtype=np.uint64)])
            scale = np.uint64(pow(_BASE, begin, 1 << 64))
            low, high = np.searchsorted(ordered, (begin, begin + _BLOCK))
            sums[order[low:high]] = total + running[ordered[low:high] - begin] * scale
            total = (running[-1:] * scale + total)[0]
        count = len(self.starts) - 1
        back = self.starts[:-1]
        unscaled = (sums[count:] - sums[:count]) * inverses[back % _BLOCK]
        for block_number in np.unique(back // _BLOCK).tolist():
            here = back // _BLOCK == block_number
            unscaled[here] *= np.uint64(pow(_INVERSE, block_number * _BLOCK, 1 << 64))
        return mixed(unscaled + (ends - self.starts[:-1]).astype(np.uint64) * np.uint64(_BASE))


def _powers(base: int) -> Numbers:
    """base**0 … base**(_BLOCK - 1), modulo 2**64."""
    found = _POWERS.get(base)
    if found is None:
        found = _POWERS[base] = np.cumprod(np.array([1, *[base] * (_BLOCK - 1)], np.uint64), dtype=np.uint64)
    return found


_POWERS: Final[dict[int, Numbers]] = {}
