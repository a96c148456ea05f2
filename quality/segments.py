"""Trajectories that span several batches. The measures of each stretch wait for the last one.

This module is independent of the kind of measure; see `measure` and `sketch`.
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
        goes_on: True if its first row belongs to the last trajectory of the batch before.
        starts: First row of each trajectory; for one that continues from the batch before, the first row.
    """

    goes_on: bool
    starts: npt.NDArray[np.int64]


S = TypeVar("S", bound=Stretch)


class Joining(Generic[S]):
    """Queue that releases stretches in their order, each when its last trajectory is complete.

    Args:
        join: Function that sets the values of one whole trajectory on its stretches; it is the last trajectory of the
            first stretch and the first trajectory of the others.
    """

    def __init__(self, join: Callable[[Sequence[S]], None]) -> None:
        self._join = join
        self._waiting: list[S] = []

    def add(self, stretch: S) -> list[S]:
        """Add a stretch and return the stretches that are complete."""
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
        """Return the waiting stretches, at the end."""
        done, self._waiting = self._waiting, []
        if len(done) > 1:
            self._join(done)
        return done


def goes_on(batch: pa.RecordBatch) -> bool:
    """Return True if the batch begins within a trajectory."""
    return batch.num_rows > 0 and bool(batch["step"][0].as_py() > 0)


def index_of(number: int, stretch: Stretch) -> int:
    """Return the index of the joined trajectory in the stretch, which is the `number`th of the joined stretches."""
    return 0 if number else len(stretch.starts) - 1
