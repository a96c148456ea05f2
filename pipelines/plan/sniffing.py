"""Files sniffed by the run's workers where there are many: each by itself, which takes milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from trajmill.pipelines.execution.pool import worker_pool

LEAST: Final = 2_000
"""Files from which on workers sniff: starting them takes as long as 350 files, and often nothing else needs them."""

_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class _EachOf:
    """A function for blocks of files."""

    function: Callable[[Any], Any]

    def __call__(self, block: Sequence[Any]) -> list[Any]:
        return [self.function(file) for file in block]


def sniff_all(
    function: Callable[[Any], Any], files: Sequence[Any], workers: int, each: Callable[[int], None] = lambda _: None
) -> list[Any]:
    """Return what a function, which can be pickled, makes of each file, in their order.

    Args:
        function: recognizes a file.
        files: all of them.
        workers: processes of the run.
        each: called with how many more are done.

    Raises:
        Exception: what the function raised.
        WorkerDiedError: a worker ended.
    """
    if workers < 2 or len(files) < LEAST:
        found = []
        for file in files:
            found.append(function(file))
            each(1)
        return found
    blocks = [files[begin : begin + _AT_ONCE] for begin in range(0, len(files), _AT_ONCE)]
    with worker_pool(workers) as pool:
        answers = pool.map(_EachOf(function), blocks, lambda place: each(len(blocks[place])))
    return list(chain.from_iterable(answers))
