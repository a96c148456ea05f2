"""The contract of a signal: a measure of transitions or trajectories, one number a row.

A signal measures and never decides; a `Rule` of the recipe decides by its numbers. `docs/signals.md` explains how to
add a signal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.quality.fingerprint import struct_text, trajectory_starts
from trajmill.quality.rows import join_rows
from trajmill.quality.texts import Texts
from trajmill.quality.tokens import TokenCounter

Numbers: TypeAlias = npt.NDArray[np.float32]
Found = TypeVar("Found")
Rowwise = TypeVar("Rowwise", bound=np.generic)


_ITSELF: Final = object()
"""Stand-in for the measured batch among the cached results. A reference to the batch itself would keep all its texts
alive until the next garbage collection, which is rare.
"""

_CONTENTS: Final = (("observation", "content"), ("next_observation", "content"))


@dataclass(frozen=True, slots=True)
class Measured:
    """Batch of trajectories on which signals are measured, with values that several signals share.

    A long trajectory spans several batches, cut between turns, and is measured in stretches. See `Signal.joined`, and
    `around` for signals that use other rows than their own.

    Attributes:
        batch: Rows of `schemas.transition.encode_schema()`.
        starts: First row of each trajectory; for one that continues from the batch before, the first row.
        counter: Token counter with the recipe's tokenizer.
        before: Rows of the first trajectory before the batch, within the limits of `quality.lookback`; None: none.
        after: Rows of the last trajectory after the batch, within the same limits; None: none.
        known: Cached results of `once`.
    """

    batch: pa.RecordBatch
    starts: npt.NDArray[np.int64]
    counter: TokenCounter
    before: pa.RecordBatch | None = None
    after: pa.RecordBatch | None = None
    known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        batch: pa.RecordBatch,
        counter: TokenCounter,
        before: pa.RecordBatch | None = None,
        after: pa.RecordBatch | None = None,
    ) -> Measured:
        """Build the measured batch and find the first row of each of its trajectories."""
        return cls(batch, trajectory_starts(batch), counter, before, after)

    def once(self, find: Callable[[Measured], Found]) -> Found:
        """Return `find(self)`, computed on first use, for values that several signals share."""
        if find not in self.known:
            computed: Any = find(self)
            self.known[find] = _ITSELF if computed is self else computed
        known: Any = self.known[find]
        result: Found = cast("Any", self) if known is _ITSELF else known
        return result

    def around(self, find: Callable[[Measured], npt.NDArray[Rowwise]]) -> npt.NDArray[Rowwise]:
        """Compute `find`, one value a row, on the batch with its neighboring rows, and return the values of its own
        rows.

        This is for signals that use other rows of the trajectory, within the limits of `quality.lookback`.
        """
        if self.before is None and self.after is None:
            return self.once(find)
        first = self.before.num_rows if self.before is not None else 0
        return self.once(_widen).once(find)[first : first + self.batch.num_rows]

    def texts(self, struct: str, name: str) -> Texts:
        """Return the texts of the column `struct.name` (of `name` if `struct` is empty), cached. The contents of
        observations before and after the actions have the same `Texts.texts`.
        """
        key = (struct, name)
        if key not in self.known:
            keys = _CONTENTS if key in _CONTENTS else (key,)
            columns = [struct_text(self.batch, *path) if path[0] else self.batch[path[1]] for path in keys]
            self.known.update(zip(keys, Texts.shared(columns), strict=True))
        texts: Texts = self.known[key]
        return texts

    @property
    def trajectory(self) -> npt.NDArray[np.int64]:
        """Number of each row's trajectory in the batch."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of rows of each trajectory."""
        return np.diff(np.append(self.starts, self.batch.num_rows))

    def spread(self, per_trajectory: npt.NDArray[np.float64]) -> Numbers:
        """Repeat a number of each trajectory on its rows."""
        return np.repeat(per_trajectory, self.lengths).astype(np.float32)

    def share(self, rows: npt.NDArray[np.bool_]) -> Numbers:
        """Return the share of marked rows of each trajectory, on each of its rows."""
        return self.spread(self.summed(rows.astype(np.float64)) / self.lengths)

    def summed(self, per_row: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum a number of each row over each trajectory."""
        return np.add.reduceat(per_row, self.starts) if len(self.starts) else per_row[:0]


class MeasuredBatches:
    """Measured batches that several measurers share, so that a value that two of them need is computed once."""

    def __init__(self) -> None:
        self._known: list[Measured] | None = None

    @contextmanager
    def remember(self) -> Iterator[None]:
        """Share the batches within the block, which keeps them in memory."""
        self._known = []
        try:
            yield
        finally:
            self._known = None

    def measure(self, batch: pa.RecordBatch) -> Measured:
        """Return the measured batch, whose counter estimates tokens."""
        for known in self._known or ():
            if known.batch is batch:
                return known
        measured = Measured.of(batch, TokenCounter())
        if self._known is not None:
            self._known.append(measured)
        return measured


def _widen(measured: Measured) -> Measured:
    """Join the rows of the batch with its neighboring rows."""
    batches = [batch for batch in (measured.before, measured.batch, measured.after) if batch is not None]
    return Measured.of(join_rows(batches), measured.counter)


class Signal(ABC):
    """One measurement."""

    name: ClassVar[str]
    """Name in snake_case; the verdict column is `signal.<name>`."""
    scope: ClassVar[str] = "transition"
    """Scope of the number: `trajectory` or `transition`."""
    measures: ClassVar[str]
    """Meaning of the number, for a person: its row in `docs/signals.md`."""
    files: tuple[str, ...] = ()
    """Paths of files that it reads besides the batch, such as a model."""

    @abstractmethod
    def measure(self, measured: Measured) -> Numbers:
        """Return one float32 a row; a signal of trajectories repeats its number on the rows of each."""

    def reasons(self, measured: Measured) -> pa.StringArray | None:
        """Return the reason of the number, a word a row, null for no reason; None if the signal gives no reasons."""
        return None

    def joined(self, told: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]) -> float:
        """Join the numbers of the stretches of a trajectory; by default, their mean weighted by rows, as for shares.

        Signals that count return the sum instead. It is called only for signals of trajectories.

        Args:
            told: Number of each stretch.
            rows: Number of rows of each stretch.
        """
        return float(np.average(told.astype(np.float64), weights=rows))

    def evidence(self, measured: Measured) -> Sequence[Any] | None:
        """Return the evidence of each trajectory for `settled`; None if the numbers of stretches are enough, see
        `joined`.
        """
        return None

    def settled(self, evidence: Sequence[Any]) -> tuple[float, str | None]:
        """Return the number of a trajectory and its reason from the evidence of its stretches, in order."""
        raise NotImplementedError
