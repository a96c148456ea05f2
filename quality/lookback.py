"""Limits of how far from a row along its trajectory a signal may look, and the rows beside a batch that its rows look
at.

A row group of a long trajectory ends where a writer was full, so no number may hang on it. What a signal may look at is
told by the trajectory alone: the `ROWS` rows before and after its own, as far as `BYTES` of text, and of what was shown
and done before it the last `HISTORY` bytes. So much of the batches beside one is kept, however long the trajectory is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from trajmill.quality.fingerprint import struct_text, trajectory_starts
from trajmill.quality.rows import join_rows, rows_alone
from trajmill.quality.segments import goes_on
from trajmill.quality.signal import Measured
from trajmill.quality.texts import Offsets
from trajmill.quality.tokens import TokenCounter, text_bytes

ROWS: Final = 12
"""Rows on each side of a row that a signal may look at."""

BYTES: Final = 16 << 20
"""Text of actions and next observations from the earlier to the later of two rows, up to which they see each other;
rows next to each other always do."""

HISTORY: Final = 32 << 10
"""Bytes of the text before a row that a signal may look at, however many rows they are of."""


def _sizes(batch: pa.RecordBatch) -> Offsets:
    """UTF-8 bytes of each row's action and next observation."""
    texts = (struct_text(batch, *path) for path in (("action", "text"), ("next_observation", "content")))
    return np.sum([text_bytes(column) for column in texts], axis=0, dtype=np.int64)


def _earliest(total: Offsets, row: Offsets, start: Offsets) -> Offsets:
    """The first rows that the given ones may look back to.

    Args:
        total: bytes of the rows before each row, and of all at the end.
        row: numbers of rows; one after the last counts as a row.
        start: the first row of the trajectory of each.
    """
    near = np.minimum(np.searchsorted(total, total[row] - BYTES), row - 1)
    return np.maximum(np.maximum(near, row - ROWS), start)


def earliest_rows(measured: Measured) -> Offsets:
    """Return of each row the first row of its trajectory that it may look back to, and that may look ahead to it."""
    return _earliest(
        np.concatenate([[0], np.cumsum(_sizes(measured.batch))]),
        np.arange(measured.batch.num_rows),
        measured.starts[measured.trajectory],
    )


def _is_complete(batch: pa.RecordBatch) -> bool:
    """Return True if the last row of a batch is the last of its trajectory."""
    return bool(batch["step"][-1].as_py() + 1 == batch["num_steps"][-1].as_py())


class Reaching:
    """Batches of a file as what signals are measured on, each with the rows beside it that its rows may look at.

    A batch that ends within a trajectory waits until enough of what follows is there.

    Args:
        counter: see `Measured`.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._before: pa.RecordBatch | None = None
        self._waiting: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> Iterator[Measured]:
        """The batches that wait for nothing more now that `batch`, of `encoded_schema()`, follows those before."""
        if not goes_on(batch):
            yield from self.rest()
        if batch.num_rows:
            self._waiting.append(batch)
        while self._waiting:
            counts, enough = _following(self._waiting[0], self._waiting[1:])
            if not enough:
                return
            yield self._first(counts)

    def rest(self) -> Iterator[Measured]:
        """The batches that wait, at the end of the file."""
        while self._waiting:
            yield self._first(_following(self._waiting[0], self._waiting[1:])[0])

    def _first(self, counts: Sequence[int]) -> Measured:
        batch, *rest = self._waiting
        del self._waiting[0]
        before = self._before if goes_on(batch) else None
        self._before = None if _is_complete(batch) else _preceding(before, batch)
        rows = [
            following if count == following.num_rows else rows_alone(following, 0, count)
            for following, count in zip(rest, counts, strict=True)
            if count
        ]
        return Measured.of(batch, self._counter, before, join_rows(rows) if rows else None)


def _following(batch: pa.RecordBatch, batches: Sequence[pa.RecordBatch]) -> tuple[Sequence[int], bool]:
    """Return the number of rows of each following batch that the last row of one may look at, and True if these are all
    of them.

    Args:
        batch: with at least one row.
        batches: the batches that follow, each beginning within the trajectory of the row before it.
    """
    if not batches:
        return [], _is_complete(batch)
    ends = [int(np.append(trajectory_starts(following), following.num_rows)[1]) for following in batches]
    some = [following.slice(0, min(end, ROWS)) for following, end in zip(batches, ends, strict=True)]
    sizes = np.concatenate([_sizes(batch.slice(batch.num_rows - 1)), *(_sizes(following) for following in some)])
    wanted = min(ROWS, max(1, int(np.searchsorted(np.cumsum(sizes), BYTES, side="right"))))
    upto = np.minimum(np.cumsum([following.num_rows for following in some]), wanted)
    whole = ends[-1] < batches[-1].num_rows or _is_complete(batches[-1])
    return np.diff(upto, prepend=0).tolist(), whole or int(upto[-1]) == wanted


def _preceding(before: pa.RecordBatch | None, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the last rows of a batch's last trajectory that rows after it may look at.

    Args:
        before: such rows from before the batch, if it begins within a trajectory.
        batch: with at least one row.
    """
    first, end = int(trajectory_starts(batch)[-1]), batch.num_rows
    sizes = _sizes(batch.slice(first))
    carried = before if before is not None and first == 0 else None
    if carried is not None:
        sizes = np.concatenate([_sizes(carried), sizes])
    first_kept = _first_kept(sizes)
    lead = carried.num_rows if carried is not None else 0
    own = rows_alone(batch, first + max(first_kept - lead, 0), end)
    if carried is None or first_kept >= lead:
        return own
    both = join_rows([carried.slice(first_kept), own])
    return rows_alone(both, 0, both.num_rows)


def _first_kept(sizes: Offsets) -> int:
    """Return, of rows of one trajectory, by their bytes, the first that a row after them may look at."""
    total = np.concatenate([[0], np.cumsum(sizes)])
    (near,) = _earliest(total, np.array([len(sizes)]), np.array([0]))
    first_of_history = int(np.searchsorted(total, total[-1] - HISTORY, side="right")) - 1
    return max(min(int(near), first_of_history), 0)
