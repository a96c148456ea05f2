"""Trajectories that stand in several batches: what was measured of each stretch waits until the last is there.

It does not know what is measured; see `measure` and `sketch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Stretch(Protocol):
    """Measures of a batch.

    Attributes:
        goes_on: whether its first row belongs to the last trajectory of the batch before.
        starts: the row at which each trajectory begins, or goes on from the batch before (then the first).
    """

    goes_on: bool
    starts: npt.NDArray[np.int64]


S = TypeVar("S", bound=Stretch)


class Joining(Generic[S]):
    """Hands stretches on in their order, each when its last trajectory is whole.

    Args:
        join: gives the stretches of one trajectory, the last of the first stretch and the first of the others, what
            holds for it as a whole.
    """

    def __init__(self, join: Callable[[Sequence[S]], None]) -> None:
        self._join = join
        self._waiting: list[S] = []

    def add(self, stretch: S) -> list[S]:
        """The stretches that are whole now that this one is there."""
        if stretch.goes_on and self._waiting:
            self._waiting.append(stretch)
            if len(stretch.starts) == 1:
                return []
            self._join(self._waiting)
            done = self._waiting[:-1]
        else:
            done = self.rest()
        self._waiting = [stretch]
        return done

    def rest(self) -> list[S]:
        """The stretches that wait, at the end."""
        done, self._waiting = self._waiting, []
        if len(done) > 1:
            self._join(done)
        return done


def goes_on(batch: pa.RecordBatch) -> bool:
    """Return True if the batch begins within a trajectory."""
    return batch.num_rows > 0 and bool(batch["step"][0].as_py() > 0)


def index_of(number: int, stretch: Stretch) -> int:
    """Return the index of the joined trajectory in the stretch, which is the `number`th of those joined."""
    return 0 if number else len(stretch.starts) - 1
