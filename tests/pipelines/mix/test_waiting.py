"""What waits comes out as it would from a heap, however much of it lies away."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.pipelines.mix import waiting
from trajmill.pipelines.mix.waiting import Waiting

STEPS = st.lists(st.one_of(st.none(), st.integers(0, 6)), max_size=120)


@given(STEPS)
def test_the_least_comes_first_and_of_equal_ones_the_smallest_number(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "_HELD", 3)
        held, heap = Waiting(), list[tuple[float, int]]()
        for number, needed in enumerate(steps):
            if needed is not None:
                held.push(needed / 2, number)
                heapq.heappush(heap, (needed / 2, number))
            elif heap:
                assert held.needs() == heap[0][0]
                assert held.pop() == heapq.heappop(heap)[1]
            assert bool(held) == bool(heap)
        assert [held.pop() for _ in range(len(heap))] == [number for _, number in sorted(heap)]
