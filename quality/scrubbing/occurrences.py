"""Occurrences of learned secrets in texts, in all written forms."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from trajmill.quality.scrubbing.kinds import Kind, Span

_FEW: Final = 12
"""Largest number of forms that are searched one by one, which is then faster than a lookup of their first bytes."""

_WIDTHS: Final = (8, 4, 2, 1)
"""Numbers of leading bytes for the lookup of forms; a form uses the largest that it can fill."""

_STEP: Final = 1 << 20
"""Bytes that are looked up at once; it bounds the memory."""

_Place = tuple[int, int, Kind]
"""Beginning of a form, its negated length, and its kind; in sorted order, the longest form at a place comes first."""


class Forms:
    """Forms of secrets to search for in texts.

    Args:
        kinds: Forms and their kinds.
    """

    def __init__(self, kinds: Mapping[bytes, Kind]) -> None:
        self._kinds = kinds
        self._sizes: dict[tuple[int, int], list[int]] = {}
        self._heads: dict[int, np.ndarray[Any, np.dtype[np.uint64]]] = {}

    def occurrences(self, data: Any, offsets: Sequence[int]) -> Iterator[tuple[int, Span]]:
        """Yield (text number, span) of the disjoint occurrences, from left to right; the longest form at a place wins.

        Args:
            data: Texts, one after the other, as bytes or a buffer of bytes.
            offsets: Beginning of each text, and the end of the last one; no occurrence crosses them.
        """
        whole = data if isinstance(data, bytes) else bytes(data)
        sightings = self._each(whole, offsets) if len(self._kinds) <= _FEW else self._by_head(whole, offsets)
        sightings.sort()
        end = begin = text_end = offsets[0]
        after = 0
        for start, size, kind in sightings:
            if start < end:
                continue
            if start >= text_end:
                after = bisect_right(offsets, start)
                begin, text_end = offsets[after - 1], offsets[after]
            if start - size <= text_end:
                end = start - size
                yield after - 1, Span(start - begin, end - begin, kind)

    def _each(self, data: bytes, offsets: Sequence[int]) -> list[_Place]:
        sightings = []
        first, limit = offsets[0], offsets[-1]
        for form, kind in self._kinds.items():
            at = data.find(form, first, limit)
            while at >= 0:
                sightings.append((at, -len(form), kind))
                at = data.find(form, at + 1, limit)
        return sightings

    def _by_head(self, data: bytes, offsets: Sequence[int]) -> list[_Place]:
        """Look at each place once, whatever the number of forms; if heads match, once for each length of form."""
        if not self._heads:
            self._index()
        sightings = []
        for low in range(offsets[0], offsets[-1], _STEP):
            high = min(low + _STEP, offsets[-1])
            values = np.frombuffer(data, np.uint8)[low : min(high + _WIDTHS[0] - 1, offsets[-1])].astype(np.uint64)
            for width, heads in self._heads.items():
                count = min(high - low, len(values) - width + 1)
                if count <= 0:
                    continue
                here = _heads(values, width, count)
                positions = np.searchsorted(heads, here).clip(max=len(heads) - 1)
                for position in np.flatnonzero(heads[positions] == here).tolist():
                    start = low + position
                    for size in self._sizes[width, int(here[position])]:
                        kind = self._kinds.get(data[start : start + size])
                        if kind is not None:
                            sightings.append((start, -size, kind))
        return sightings

    def _index(self) -> None:
        sizes: dict[tuple[int, int], set[int]] = {}
        for form in self._kinds:
            width = next(width for width in _WIDTHS if width <= len(form))
            sizes.setdefault((width, int.from_bytes(form[:width], "little")), set()).add(len(form))
        self._sizes = {head: sorted(some) for head, some in sizes.items()}
        self._heads = {
            width: np.array(sorted(head for wide, head in sizes if wide == width), np.uint64)
            for width in {width for width, _ in sizes}
        }


def _heads(values: np.ndarray[Any, np.dtype[np.uint64]], width: int, count: int) -> Any:
    """Return the first `width` bytes at each of the first `count` places, as one number each."""
    heads = values[:count].copy()
    for byte_number in range(1, width):
        heads |= values[byte_number : byte_number + count] << np.uint64(8 * byte_number)
    return heads
