"""Work of many samples at once, whose results come in the order of the samples."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

_AHEAD: Final = 2
"""Samples that wait for each thread, so that a slow one keeps no other idle."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Work:
    """How much is done at once, and of what.

    Attributes:
        concurrency: samples that are worked on at the same time.
        limit: samples of each domain, the first of its files; None takes all.
        tell: is called with the outcome of each sample.
    """

    concurrency: int = 8
    limit: int | None = None
    tell: Callable[[str], None] = lambda _: None


def in_order(work: Callable[[_Item], _Result], items: Iterable[_Item], threads: int) -> Iterator[_Result]:
    """What work makes of each item, in the order of the items, worked on by threads a little ahead.

    The first error of an item ends it: what has not begun then is not begun.
    """
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[_Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= threads * _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
