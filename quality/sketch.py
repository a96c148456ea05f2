"""Sketches of transitions: a compact summary of a trajectory for the search for near duplicates.

A row has a hash of its step (action and answer), and the shingles of their texts. A trajectory of more than `SIZE`
distinct shingles keeps the smallest `SIZE` of them, a uniform sample that stays uniform under unions and intersections
of sketches (bottom-k sketches, Cohen and Kaplan 2007); its `limit` is the largest hash kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality import fingerprint
from trajmill.quality.answer import CHANGE, Column, answer_columns, whole
from trajmill.quality.fingerprint import struct_text
from trajmill.quality.lines import Flags, Numbers
from trajmill.quality.screens import action_hashes, answer_hashes, as_compared
from trajmill.quality.segments import Joining, goes_on, index_of
from trajmill.quality.sets import as_lists, distinct, expand_lists, holds, join_keys, of_lists, split, take_lists
from trajmill.quality.shingle import Hashes, Offsets
from trajmill.quality.signal import Measured, MeasuredBatches

SIZE: Final = 4096
VERSION: Final = 3
"""Version of the sketches, raised when equal rows get different sketches than before."""

_AT_ONCE: Final = 1 << 18
"""Shingles processed at once, so that the arrays fit the cache and memory stays flat."""

ALL: Final = np.uint32(0xFFFFFFFF)

SKETCH_SCHEMA: Final = pa.schema(
    [
        pa.field("step_hash", pa.uint64(), nullable=False, metadata={"doc": "of the action and what it led to"}),
        pa.field("limit", pa.uint32(), nullable=False, metadata={"doc": "largest shingle that the trajectory kept"}),
        pa.field("shingles", pa.binary(), nullable=False, metadata={"doc": "numbers of 4 bytes, the lowest first"}),
    ]
)
"""One row a transition, aligned to the transitions; shingles of a row in no order, with repetition.

They are stored as bytes, since a list costs several times as much to write and to read.
"""

HASHED: Final = ("step_hash", "shingles")
"""Columns of `SKETCH_SCHEMA` that do not compress."""


_BYTES: Final = 4
"""Bytes of a shingle."""


@dataclass(slots=True)
class _Stretch:
    """Sketches of a batch; see `quality.segments.Stretch`. `limits` holds the limit of each row's trajectory."""

    goes_on: bool
    starts: Offsets
    steps: Numbers
    limits: Hashes
    hashes: Hashes
    offsets: Offsets

    def finished(self) -> pa.RecordBatch:
        """Return the stretch as a batch of `SKETCH_SCHEMA`."""
        ends = pa.py_buffer((self.offsets * _BYTES).astype(np.int32))
        data = pa.py_buffer(np.ascontiguousarray(self.hashes, "<u4"))
        packed = pa.Array.from_buffers(pa.binary(), len(self.steps), [None, ends, data])
        return pa.RecordBatch.from_arrays([pa.array(self.steps), pa.array(self.limits), packed], schema=SKETCH_SCHEMA)


def _stretch(measured: Measured, parted: bool) -> _Stretch:
    batch, starts, lengths = measured.once(as_compared).batch, measured.starts, measured.lengths
    steps = fingerprint.combine_hashes([measured.once(action_hashes), measured.once(answer_hashes)])[:, 0]
    columns = [whole(struct_text(batch, "action", "text"), parted), *answer_columns(batch, parted)]
    limits = np.repeat(_limits(columns, starts, lengths), lengths)
    return _Stretch(goes_on(batch), starts, steps, limits, *_merge_columns(columns, limits))


def _join(stretches: Sequence[_Stretch]) -> None:
    """Sketch the trajectory that the stretches share. Its smallest shingles are among the smallest of its stretches."""
    where = []
    for number, stretch in enumerate(stretches):
        index = index_of(number, stretch)
        ends = np.append(stretch.starts, len(stretch.steps))
        where.append((stretch, int(ends[index]), int(ends[index + 1])))
    limit = min(stretch.limits[begin] for stretch, begin, _ in where)
    parts = [stretch.hashes[stretch.offsets[begin] : stretch.offsets[end]] for stretch, begin, end in where]
    smallest = distinct(np.concatenate(parts))
    smallest = smallest[smallest <= limit]
    if len(smallest) > SIZE:
        limit = smallest[SIZE - 1]
    for stretch, begin, end in where:
        stretch.limits[begin:end] = limit
        row = np.repeat(np.arange(len(stretch.steps)), np.diff(stretch.offsets))
        smallest = (row < begin) | (row >= end) | (stretch.hashes <= limit)
        stretch.hashes = stretch.hashes[smallest]
        counts = np.bincount(row[smallest], minlength=len(stretch.steps))
        stretch.offsets = np.concatenate([[0], np.cumsum(counts)])


class Sketching:
    """Sketch of each row of a file: batches of `SKETCH_SCHEMA`, aligned to the transitions.

    The shingles of a row are those of its action and its answer. A screen or a state mostly repeats earlier content, so
    its shingles are its new lines, each line whole: the words of a line say too little, since layouts share ids and
    places. The same holds for a page that a server sent. JSON that mostly repeats the observation before, such as the
    answers of an interface that sends its whole list after each action, has one shingle of all its new content.

    Args:
        measured: Measured batches that are shared with other measurers.
        parted: True if `_` separates words; see `shingle.shingles`.
    """

    def __init__(self, measured: MeasuredBatches | None = None, *, parted: bool = False) -> None:
        self._measured, self._parted = measured or MeasuredBatches(), parted
        self._joining = Joining(_join)

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the sketches of complete trajectories; `batch` follows the batches added before."""
        return (
            stretch.finished() for stretch in self._joining.add(_stretch(self._measured.measure(batch), self._parted))
        )

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return the sketches of the rest, at the end of the file."""
        return (stretch.finished() for stretch in self._joining.rest())


def make_sketches(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Sketch each row of a batch of whole trajectories; see `Sketching`."""
    return _stretch(MeasuredBatches().measure(batch), parted=False).finished()


def _limits(columns: list[Column], starts: Offsets, lengths: Offsets) -> Hashes:
    """Return the largest hash to keep for each trajectory."""
    limits = np.full(len(starts), ALL)
    ends = starts + lengths
    sizes = np.zeros(len(starts), np.int64)
    for column in columns:
        owner = np.searchsorted(starts, column.row, "right") - 1
        sizes += np.bincount(owner, np.diff(column.offsets)[column.piece], len(starts)).astype(np.int64)
    for number in np.flatnonzero(sizes > SIZE).tolist():
        parts = []
        for column in columns:
            low, high = np.searchsorted(column.row, (starts[number], ends[number]))
            parts.append(expand_lists(column.hashes, column.offsets, distinct(column.piece[low:high]))[1])
        smallest = distinct(np.concatenate(parts))
        if len(smallest) > SIZE:
            limits[number] = smallest[SIZE - 1]
    return limits


def _merge_columns(columns: list[Column], limits: Hashes) -> tuple[Hashes, Offsets]:
    """Merge the shingles of each row up to its limit over all columns."""
    by_row = []
    for column in columns:
        hashes, ends = take_lists(column.hashes, column.offsets, column.piece)
        if (limits < ALL).any():
            row = np.repeat(column.row, np.diff(ends))
            is_kept = hashes <= limits[row]
            hashes, counts = hashes[is_kept], np.bincount(row[is_kept], minlength=len(limits))
        else:
            counts = np.bincount(column.row, np.diff(ends), len(limits)).astype(np.int64)
        by_row.append(as_lists(hashes, np.concatenate([[0], np.cumsum(counts)])))
    nothing_between = pa.scalar(b"", pa.large_binary())
    return of_lists(pc.binary_join_element_wise(*by_row, nothing_between), np.dtype(np.uint32))


def portions(sizes: Offsets) -> Iterator[slice]:
    """Yield ranges of items whose sizes sum to about `_AT_ONCE`, in order; a larger item is alone."""
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        done = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, done + _AT_ONCE, "right")), begin + 1)
        yield slice(begin, end)
        begin = end


@dataclass(frozen=True)
class Sketches:
    """Sketches of one unit's trajectories.

    Attributes:
        starts: First row of each trajectory.
        step: Hash of each row's step.
        limit: Limit of each row's trajectory.
        hashes: Shingles of all rows.
        offsets: Beginning of each row's shingles, and the end of the last.
    """

    starts: Offsets
    step: Numbers
    limit: Hashes
    hashes: Hashes
    offsets: Offsets

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch], starts: Offsets, size: int) -> Sketches:
        """Collect the sketches of batches of `SKETCH_SCHEMA`.

        Args:
            starts: First row of each trajectory.
            size: Bytes of all shingles, or more.
        """
        hashes = np.empty(size // _BYTES, np.uint32)
        steps, limits, sizes = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint32)], [np.zeros(1, np.int64)]
        end = 0
        for batch in batches:
            some, ends = _unpack(batch["shingles"])
            begin, end = end, end + len(some)
            hashes[begin:end] = some
            steps.append(batch["step_hash"].to_numpy())
            limits.append(batch["limit"].to_numpy())
            sizes.append(np.diff(ends))
        offsets = np.cumsum(np.concatenate(sizes))
        return cls(starts, np.concatenate(steps), np.concatenate(limits), hashes[:end], offsets)

    @cached_property
    def lengths(self) -> Offsets:
        """Number of rows of each trajectory."""
        return np.diff(np.append(self.starts, len(self.step)))

    def portions(self, trajectories: Offsets) -> Iterator[slice]:
        """Yield ranges of the trajectories with about `_AT_ONCE` shingles each, in order."""
        sizes = np.diff(self.offsets[np.append(self.starts, len(self.step))])[trajectories]
        yield from portions(sizes)

    def whole(self, trajectories: Offsets) -> tuple[Offsets, Hashes]:
        """Return (position in `trajectories`, shingle) of all their shingles: sorted and distinct."""
        return self._distinct(trajectories, np.ones(len(self.step), np.bool_))

    def own_rows(self, trajectories: Offsets, background: Flags) -> tuple[Offsets, Offsets, Hashes]:
        """Return (position in `trajectories`, row, shingle) of the shingles in no background row of the trajectory,
        with repetition; positions ascending.
        """
        numbers, rows = self.rows(trajectories)
        is_own_row = ~background[rows]
        use, hashes = expand_lists(self.hashes, self.offsets, rows[is_own_row])
        numbers, rows = numbers[is_own_row][use], rows[is_own_row][use]
        shared, common = self.common(trajectories, background)
        if len(common):
            own = ~holds(join_keys(shared, common), join_keys(numbers, hashes))
            numbers, rows, hashes = numbers[own], rows[own], hashes[own]
        return numbers, rows, hashes

    def common(self, trajectories: Offsets, background: Flags) -> tuple[Offsets, Hashes]:
        """Return (position in `trajectories`, shingle) of the shingles in their background rows: sorted and
        distinct.
        """
        return self._distinct(trajectories, background)

    def _distinct(self, trajectories: Offsets, chosen: Flags) -> tuple[Offsets, Hashes]:
        numbers, rows = self.rows(trajectories)
        is_chosen = chosen[rows]
        row, hashes = expand_lists(self.hashes, self.offsets, rows[is_chosen])
        return split(distinct(join_keys(numbers[is_chosen][row], hashes)))

    def rows(self, trajectories: Offsets) -> tuple[Offsets, Offsets]:
        """Return (position in `trajectories`, row) of all their rows."""
        lengths = self.lengths[trajectories]
        ends = np.cumsum(lengths)
        numbers = np.repeat(np.arange(len(trajectories)), lengths)
        return numbers, np.arange(len(numbers)) + np.repeat(self.starts[trajectories] - (ends - lengths), lengths)

    def sequence(self) -> Numbers:
        """Return a hash of the steps of each trajectory in order."""
        step = np.stack([self.step, self.step], axis=1)
        count = np.arange(len(self.step)) - np.repeat(self.starts, self.lengths)
        return fingerprint.trajectory_hashes(step, self.starts, count.astype(np.int32))[:, 0]


def _unpack(column: pa.BinaryArray) -> tuple[Hashes, Offsets]:
    """Return the shingles of a column, the beginning of each row's shingles, and the end of the last."""
    _, offsets, data = column.buffers()
    if not len(column) or data is None:
        return np.zeros(0, np.uint32), np.zeros(len(column) + 1, np.int64)
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1] // _BYTES
    return np.frombuffer(data, "<u4", int(ends[-1]))[ends[0] :], ends - ends[0]


def absent_shares(
    sketches: Sketches, trajectories: Offsets, background: Flags, other_sketches: Sketches, against: Offsets
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return, for each pair, the share of the trajectory's remainder that the other lacks, and the size of the
    remainder.

    The share is the larger of two: the share of all its shingles, and the mean over its steps of each step's share. In
    the second, a step with a short answer counts as much as one with a long answer. A step whose answer is a change
    that the other lacks is absent as a whole. If either trajectory was sampled, both are compared up to the smaller
    limit, and the size is an estimate. Without own shingles, the share is 1.

    Args:
        sketches: Sketches of the trajectories that may be dropped.
        trajectories: Their numbers, shape (pairs,).
        background: Flags of the rows of `sketches` whose step the rollouts of its task share.
        other_sketches: Sketches of the trajectories to compare with.
        against: Their numbers, shape (pairs,).
    """
    absent, sizes = np.ones(len(trajectories)), np.zeros(len(trajectories))
    ends, others_ends = (np.append(side.starts, len(side.step)) for side in (sketches, other_sketches))
    sizes_held = np.diff(sketches.offsets[ends])[trajectories] + np.diff(other_sketches.offsets[others_ends])[against]
    for some in portions(sizes_held):
        absent[some], sizes[some] = _absent(sketches, trajectories[some], background, other_sketches, against[some])
    return absent, sizes


def _absent(
    sketches: Sketches, trajectories: Offsets, background: Flags, other_sketches: Sketches, against: Offsets
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    theirs, their_number = np.unique(against, return_inverse=True)
    their_keys = join_keys(*other_sketches.whole(theirs))
    limit = np.minimum(
        sketches.limit[sketches.starts[trajectories]], other_sketches.limit[other_sketches.starts[against]]
    )
    mine, inverse = np.unique(trajectories, return_inverse=True)
    number_of_row, row, own = sketches.own_rows(mine, background)
    offsets = np.searchsorted(number_of_row, np.arange(len(mine) + 1))
    pair, at = expand_lists(np.arange(len(own)), offsets, inverse)
    is_sampled = own[at] <= limit[pair]
    pair, row, hashes = pair[is_sampled], row[at[is_sampled]], own[at[is_sampled]]
    absent = ~holds(their_keys, join_keys(their_number[pair], hashes))
    side = row.astype(np.uint32) << np.uint32(1) | hashes & CHANGE
    sides, of_side = np.unique(join_keys(pair, side), return_inverse=True)
    share = np.bincount(of_side, absent, len(sides)) / np.maximum(np.bincount(of_side, minlength=len(sides)), 1)
    steps, first = np.unique(sides >> np.uint64(1), return_index=True)
    if len(steps):
        share = np.maximum.reduceat(share, first)
    by_step = _mean(split(steps << np.uint64(1))[0], share, len(trajectories))
    once, first = np.unique(join_keys(pair, hashes), return_index=True)
    overall = _mean(split(once)[0], absent[first].astype(np.float64), len(trajectories))
    sampled = (limit.astype(np.float64) + 1) / 2**32
    size = np.bincount(split(once)[0], minlength=len(trajectories)) / sampled
    return np.maximum(overall, by_step), size


def _mean(group: Offsets, values: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.float64]:
    """Return the mean of the values of each group; 1 for an empty group."""
    number = np.bincount(group, minlength=count)
    return np.where(number > 0, np.bincount(group, values, count) / np.maximum(number, 1), 1.0)
