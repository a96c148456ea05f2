"""What waits for its turn: the least comes first, of millions too, since most of them lie sorted in arrays."""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np
import numpy.typing as npt

_HELD: Final = 1 << 15
"""Entries that are held as objects; more of them are laid away together."""


class Waiting:
    """Entries (what is needed, number), each number once."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._away: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]] = []
        self._heads: list[tuple[float, int, int, int]] = []  # the first of what lies away, and where it does

    def __bool__(self) -> bool:
        return bool(self._heap or self._heads)

    def needs(self) -> float:
        """What the first one needs."""
        return min(some[0][0] for some in (self._heap, self._heads) if some)

    def push(self, needed: float, number: int) -> None:
        """Adds one."""
        if len(self._heap) >= _HELD:
            self._lay_away()
        heapq.heappush(self._heap, (needed, number))

    def pop(self) -> int:
        """Takes the first one away, and gives its number."""
        if not self._heads or (self._heap and self._heap[0] < self._heads[0][:2]):
            return heapq.heappop(self._heap)[1]
        _, number, of, place = self._heads[0]
        needed, numbers = self._away[of]
        if place + 1 < len(numbers):
            heapq.heapreplace(self._heads, (float(needed[place + 1]), int(numbers[place + 1]), of, place + 1))
        else:
            heapq.heappop(self._heads)
            self._away[of] = needed[:0].copy(), numbers[:0].copy()
        return number

    def _lay_away(self) -> None:
        self._heap.sort()
        needed = np.array([one[0] for one in self._heap], np.float64)
        numbers = np.array([one[1] for one in self._heap], np.int64)
        heapq.heappush(self._heads, (*self._heap[0], len(self._away), 0))
        self._away.append((needed, numbers))
        self._heap.clear()
