"""Limits on how far a signal may look from a row along its trajectory, and the neighboring rows of a batch that signals
need.

A row group of a long trajectory ends when a writer's buffer is full, so no number may depend on it. The trajectory
alone limits a signal's view: the `ROWS` rows before and after its own within `BYTES` of text, and the last `HISTORY`
bytes of the observations and actions before it. So the rows kept beside a batch are bounded, however long the
trajectory is.
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
"""Rows on each side of a row that a signal may use."""

BYTES: Final = 16 << 20
"""Largest text of actions and next observations between two rows that see each other; adjacent rows always do."""

HISTORY: Final = 32 << 10
"""Bytes of text before a row that a signal may use, regardless of the number of rows."""


def _sizes(batch: pa.RecordBatch) -> Offsets:
    """Return the UTF-8 bytes of each row's action and next observation."""
    texts = (struct_text(batch, *path) for path in (("action", "text"), ("next_observation", "content")))
    return np.sum([text_bytes(column) for column in texts], axis=0, dtype=np.int64)


def _earliest(total: Offsets, row: Offsets, start: Offsets) -> Offsets:
    """Return the first row that each of the given rows may look back to.

    Args:
        total: Bytes of the rows before each row, and finally of all rows.
        row: Numbers of rows; the number after the last row is allowed.
        start: First row of the trajectory of each.
    """
    near = np.minimum(np.searchsorted(total, total[row] - BYTES), row - 1)
    return np.maximum(np.maximum(near, row - ROWS), start)


def earliest_rows(measured: Measured) -> Offsets:
    """Return, for each row, the first row of its trajectory that it may look back to, which may also look ahead to
    it.
    """
    return _earliest(
        np.concatenate([[0], np.cumsum(_sizes(measured.batch))]),
        np.arange(measured.batch.num_rows),
        measured.starts[measured.trajectory],
    )


def _is_complete(batch: pa.RecordBatch) -> bool:
    """Return True if the last row of a batch is the last of its trajectory."""
    return bool(batch["step"][-1].as_py() + 1 == batch["num_steps"][-1].as_py())


class Reaching:
    """Batches of a file as input of signals, each with the neighboring rows that its rows may use.

    A batch that ends within a trajectory waits until enough following rows have arrived.

    Args:
        counter: Token counter; see `Measured`.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._before: pa.RecordBatch | None = None
        self._waiting: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> Iterator[Measured]:
        """Yield the batches that are complete after `batch`, of `encode_schema()`, follows the batches added before."""
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
        """Yield the waiting batches, at the end of the file."""
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
    """Return the number of rows of each following batch that the last row of `batch` may use, and True if these are
    all.

    Args:
        batch: Batch with at least one row.
        batches: Batches that follow; each begins within the trajectory of the row before it.
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
    """Return the last rows of a batch's last trajectory that later rows may use.

    Args:
        before: Such rows from before the batch, if it begins within a trajectory.
        batch: Batch with at least one row.
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
    """Return the first row that a later row may use, from the bytes of the rows of one trajectory."""
    total = np.concatenate([[0], np.cumsum(sizes)])
    (near,) = _earliest(total, np.array([len(sizes)]), np.array([0]))
    first_of_history = int(np.searchsorted(total, total[-1] - HISTORY, side="right")) - 1
    return max(min(int(near), first_of_history), 0)
