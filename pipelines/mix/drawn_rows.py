"""Rows of drawn trajectories, read by columns in stretches of a transitions file that hold whole trajectories.

Only the columns that rendering needs are read. The text before an action mostly equals the answer to the action before.
Equal hashes show that, and it is not read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.render.pieces import Flags, Numbers, View, observed_texts
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import row_groups
from trajmill.quality.rows import without_unused

_STATES: Final = frozenset({"observation.content", "observation.envelope"})


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive rows of a file.

    Attributes:
        batch: the rows with the requested leaves, except those of states.
        unread: flags of the rows whose text before the action is not the answer of the previous row of the same part.
        before: the rows flagged by `unread`, with the leaves of states; None if there are none.
    """

    first: int
    batch: pa.RecordBatch
    unread: Flags
    before: pa.RecordBatch | None

    @property
    def past(self) -> int:
        """Number of the row after the last one."""
        return self.first + int(self.batch.num_rows)

    def states(self, rows: Numbers, some: Flags, view: View) -> pa.StringArray:
        """Return the texts before the actions of some rows of the file; null for the others.

        Args:
            view: how they are shown.
        """
        offsets = rows - self.first
        unread = self.unread[offsets]
        after, _ = observed_texts(self.batch, "next_observation", view)
        led = after.take(pa.array(offsets - 1, mask=~some | unread)).cast(pa.string())
        if self.before is None or not (some & unread).any():
            return led
        before, _ = observed_texts(self.before, "observation", view)
        numbers = np.cumsum(self.unread)[offsets] - 1
        return pc.coalesce(before.take(pa.array(numbers, mask=~some | ~unread)).cast(pa.string()), led)

    def taken(self, leaves: Collection[str], rows: Numbers) -> pa.RecordBatch:
        """Return the columns of some leaves for some rows of the file."""
        names = dict.fromkeys(leaf.partition(".")[0] for leaf in leaves)
        return self.batch.select(list(names)).take(pa.array(rows - self.first))


def stretches(
    transitions: Folder,
    name: str,
    parts: Numbers,
    wanted: Flags,
    hashes: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]],
    leaves: Collection[str],
) -> Iterator[Stretch]:
    """Yield the rows of a file by stretches. Each wanted trajectory, or segment of one, is in one stretch.

    Args:
        parts: for each of its rows the number of its trajectory or segment, ascending.
        hashes: for each row, hashes of the text before its action, 0 where it is not shown, and of its answer.
        leaves: leaves to read; those of states are kept only of the rows that need them.
    """
    state, led = hashes
    unread = state != 0
    # the answer that precedes the first row of a segment may be in another stretch
    unread[1:] &= (state[1:] != led[:-1]) | (parts[1:] != parts[:-1])
    unread &= wanted
    own, of_states = ([leaf for leaf in leaves if (leaf in _STATES) == is_state] for is_state in (False, True))
    batches: list[pa.RecordBatch] = []
    states: list[pa.RecordBatch] = []
    begin = first = 0
    for group in row_groups(transitions, name):
        past = first + group.num_rows
        if wanted[first:past].any():
            # a trajectory that continues in the next row group waits for it
            goes_on = past < len(parts) and bool(wanted[past]) and parts[past] == parts[past - 1]
            cut = int(np.searchsorted(parts[:past], parts[past - 1])) if goes_on else past
            batch, before = group.read(own), None
            rows, size = np.flatnonzero(unread[first:past]), max(cut - first, 0)
            split = int(np.searchsorted(rows, size))
            if len(rows):
                before = without_unused(group.read(of_states).take(pa.array(rows)))
            if size:
                batches.append(batch.slice(0, size))
            if before is not None and split:
                states.append(before.slice(0, split))
            if cut > begin:
                stretch = Stretch(begin, _join(batches), unread[begin:cut], _join(states) if states else None)
                batches, states = [], []
                yield stretch
                del stretch  # before more is read
            if goes_on:
                batches.append(batch.slice(size))
            if before is not None and split < len(rows):
                states.append(before.slice(split))
            begin = max(cut, begin)
        else:
            begin = past
        first = past


def _join(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches of one schema, at least one."""
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def python_values(column: pa.Array) -> list[Any]:
    """Convert a column to Python values. Each text of a dictionary becomes a single object."""
    if pa.types.is_dictionary(column.type):
        index, dictionary = pc.fill_null(column.indices, -1).to_numpy(), column.dictionary
        if len(dictionary) > len(index):  # of a few rows that are taken out of many
            used, index = np.unique(np.append(index, -1), return_inverse=True)
            index, dictionary = index[:-1] - 1, dictionary.take(pa.array(used[1:]))
        texts = [*python_values(dictionary), None]  # the last is that of -1
        return [texts[code] for code in index.tolist()]
    if pa.types.is_string(column.type) or (pa.types.is_primitive(column.type) and not column.null_count):
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    return [None] * len(column) if column.null_count == len(column) else column.to_pylist()
