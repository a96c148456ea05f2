"""The contract of a signal: what is measured about transitions or trajectories, one number a row.

A signal measures and never decides; a `Rule` of the recipe decides by its numbers. `docs/signals.md` says what a
new one needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
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
"""Stand-in for the measured batch among the results on it: a reference to itself would keep all its texts until the
collector comes by, which is rarely.
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """Batch of trajectories that signals are measured on, and what several signals need of it.

    A long trajectory stands in several batches, cut between turns, and is measured in stretches; see `Signal.joined`,
    and `around` for what looks at other rows than its own.

    Attributes:
        batch: rows of `schemas.transition.encoded_schema()`.
        starts: the row at which each trajectory begins, or goes on from the batch before (then the first).
        counter: counts tokens under the recipe's tokenizer.
        before: rows of the first trajectory that come before the batch, as far as `quality.lookback` says; None: none.
        after: rows of the last trajectory that come after it, likewise.
        known: what `once` has found.
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
        """The batch with the row at which each of its trajectories begins."""
        return cls(batch, trajectory_starts(batch), counter, before, after)

    def once(self, find: Callable[[Measured], Found]) -> Found:
        """Compute `find(self)` when first asked for: for what several signals need."""
        if find not in self.known:
            computed: Any = find(self)
            self.known[find] = _ITSELF if computed is self else computed
        known: Any = self.known[find]
        result: Found = cast("Any", self) if known is _ITSELF else known
        return result

    def around(self, find: Callable[[Measured], npt.NDArray[Rowwise]]) -> npt.NDArray[Rowwise]:
        """`find`, one value a row, of the rows together with those beside the batch, for the batch's own rows.

        For what looks from a row at others of its trajectory, no further than `quality.lookback` says.
        """
        if self.before is None and self.after is None:
            return self.once(find)
        first = self.before.num_rows if self.before is not None else 0
        return self.once(_widen).once(find)[first : first + self.batch.num_rows]

    def texts(self, struct: str, name: str) -> Texts:
        """The texts of the column `struct.name` (of `name` if `struct` is empty), taken apart once."""
        key = (struct, name)
        if key not in self.known:
            column = struct_text(self.batch, struct, name) if struct else self.batch[name]
            self.known[key] = Texts.of(column)
        texts: Texts = self.known[key]
        return texts

    @property
    def trajectory(self) -> npt.NDArray[np.int64]:
        """Of each row the number of its trajectory in the batch."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Rows of each trajectory."""
        return np.diff(np.append(self.starts, self.batch.num_rows))

    def spread(self, per_trajectory: npt.NDArray[np.float64]) -> Numbers:
        """A number of each trajectory, repeated on its rows."""
        return np.repeat(per_trajectory, self.lengths).astype(np.float32)

    def share(self, rows: npt.NDArray[np.bool_]) -> Numbers:
        """The share of a trajectory's rows that are marked, on each of its rows."""
        return self.spread(self.summed(rows.astype(np.float64)) / self.lengths)

    def summed(self, per_row: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum a number of each row over each trajectory."""
        return np.add.reduceat(per_row, self.starts) if len(self.starts) else per_row[:0]


def _widen(measured: Measured) -> Measured:
    """Join the rows with those beside the batch."""
    batches = [batch for batch in (measured.before, measured.batch, measured.after) if batch is not None]
    return Measured.of(join_rows(batches), measured.counter)


class Signal(ABC):
    """One measurement."""

    name: ClassVar[str]
    """snake_case; the verdict column is `signal.<name>`."""
    scope: ClassVar[str] = "transition"
    """Scope of the number: `trajectory` or `transition`."""
    measures: ClassVar[str]
    """Meaning of the number, for a person: its row in `docs/signals.md`."""
    files: tuple[str, ...] = ()
    """Paths of what it read besides the batch, such as a model."""

    @abstractmethod
    def measure(self, measured: Measured) -> Numbers:
        """One float32 a row; a signal of trajectories repeats on the rows of each."""

    def reasons(self, measured: Measured) -> pa.StringArray | None:
        """A word a row for why its number is what it is, null where there is nothing to say; None: it tells none."""
        return None

    def joined(self, told: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]) -> float:
        """Join the numbers of a trajectory that was measured in stretches of so many rows: for shares, their mean by
        rows.

        Signals that count return the sum instead. Only asked of signals of trajectories.
        """
        return float(np.average(told.astype(np.float64), weights=rows))

    def evidence(self, measured: Measured) -> Sequence[Any] | None:
        """Of each trajectory what `settled` is to be given; None: numbers of stretches are enough, see `joined`."""
        return None

    def settled(self, evidence: Sequence[Any]) -> tuple[float, str | None]:
        """Return the number of a trajectory and its reason, by the evidence of its stretches in order."""
        raise NotImplementedError
