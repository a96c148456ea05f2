"""Near duplicates over the whole corpus: background steps, pairs to compare, and the trajectories that are dropped.

Only packed hashes are shuffled. Sketches are read from their files, those of a pair's two units at a time:

    rollouts ─▶ sizes of tasks ─▶ steps ─▶ background rows ─▶ members of buckets ─▶ pairs ─▶ shares absent
        ─▶ second looks ─▶ shares absent ─▶ losers, and edges of groups

`quality.near` defines the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.judge.corpus_rule import UNITS, Answers, Key, Keys, Round
from trajmill.pipelines.judge.judging import DECIDED, Unit, read_sketches
from trajmill.pipelines.judge.packed_rows import (
    LIKE,
    LIKENESS,
    LOSER,
    SIMILAR,
    apart,
    by_unit,
    identities,
    partition_records,
    unpack,
)
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import NEAR_DUPLICATE
from trajmill.pipelines.recipe.judgement import NearDuplicates
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table, write_parquet
from trajmill.pipelines.storage.units import finish_unit
from trajmill.quality.fingerprint import as_lanes
from trajmill.quality.near import (
    MEMBER,
    PAIR,
    ROLLOUT,
    STEP,
    background_steps,
    candidates,
    decisive,
    members,
    rollouts,
    second_looks,
    step_kinds,
)
from trajmill.quality.sets import distinct, holds
from trajmill.quality.sketch import Sketches, absent_shares
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.manifest import Manifest

STAGE: Final = "likeness"
_SCHEMA: Final = pa.schema([("row", pa.uint32()), ("node", pa.uint64())])


def write_likeness(standing: Standing, folder: Folder) -> Manifest:
    """Write the first rows of a unit's trajectories with the tasks of their similar trajectories."""
    unit = standing.unit
    records = np.unique(unpack(standing.told(LIKE), LIKENESS))
    columns = [pa.array(np.ascontiguousarray(records[name])) for name in _SCHEMA.names]
    entry = write_parquet(folder, unit.name, _SCHEMA, [pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)])
    return finish_unit(folder, Manifest(STAGE, unit.label, standing.judging.digest, SCHEMA_VERSION, (entry,)))


def read_likeness(folder: Folder, name: str) -> npt.NDArray[np.void]:
    """Read the similarities of a unit, of dtype `LIKENESS`."""
    table = read_table(folder, name, _SCHEMA.names)
    records = np.zeros(len(table), LIKENESS)
    records["row"], records["node"] = table["row"].to_numpy(), table["node"].to_numpy()
    return records


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Trajectories of a unit, as arrays of one length.

    Attributes:
        first: row of each first step in the file.
        rank: rank of each; the smallest is the best.
        counts: whether the trajectory counts when background steps of its task are found.
        stays: whether the trajectory is kept so far.
    """

    sketches: Sketches
    first: npt.NDArray[np.int64]
    task: npt.NDArray[np.uint64]
    content: npt.NDArray[np.uint64]
    rank: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.bool_]
    stays: npt.NDArray[np.bool_]
    ids: pa.Array | pa.ChunkedArray


def rollouts_of(standing: Standing) -> Rollouts:
    """Return all rollouts of a unit."""
    measures = standing.measures
    starts = measures.starts
    first = measures.table.select(["trajectory_hash", "trajectory_id"]).take(pa.array(starts))
    return Rollouts(
        sketches=read_sketches(standing.unit.label, standing.measured, starts),
        first=starts,
        task=measures.column("task_node")[starts],
        content=as_lanes(first["trajectory_hash"].combine_chunks())[:, 0],
        rank=standing.rank_values(measures.column("rank")[starts]),
        counts=standing.counts()[starts],
        stays=standing.kept()[starts],
        ids=first["trajectory_id"],
    )


def rollouts_with_task(standing: Standing) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return the task and content of each rollout that counts and whose task is known, without reading sketches."""
    measures = standing.measures
    starts = measures.starts[standing.counts()[measures.starts]]
    task = measures.column("task_node")[starts]
    content = as_lanes(measures.table["trajectory_hash"].take(pa.array(starts)).combine_chunks())[:, 0]
    known = task != content
    return task[known], content[known]


def _goes_on(
    sketches: Sketches,
    trajectories: npt.NDArray[np.int64],
    other_sketches: Sketches,
    others: npt.NDArray[np.int64],
    has_text: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """Flag the trajectories that begin with the steps of the other one of their pair, whose log grew.

    An answer that was missing may be there by now, and the last one may have been cut.

    Args:
        trajectories: their numbers, shape (pairs,).
        other_sketches: of those that they are compared with.
        others: numbers of these, shape (pairs,).
        has_text: whether each row of `other_sketches` has an answer.
    """
    flags = np.zeros(len(trajectories), np.bool_)
    mine, theirs = sketches.lengths[trajectories], other_sketches.lengths[others]
    for pair in np.flatnonzero(mine >= theirs).tolist():
        begin, other, count = sketches.starts[trajectories[pair]], other_sketches.starts[others[pair]], theirs[pair]
        equal = sketches.step[begin : begin + count] == other_sketches.step[other : other + count]
        equal |= ~has_text[other : other + count]
        equal[-1] |= mine[pair] > count > 1
        flags[pair] = equal.all()
    return flags


Packed = Iterable[bytes]


_SIZE: Final = np.dtype([("task", "<u8"), ("rollouts", "<u4")])
"""A task and its number of different rollouts."""

_TASKS: Final = "tasks"
_STEPS: Final = "steps"
_MEMBERS: Final = "members"
_FIRST: Final = "compared"
_SHARED: Final = "shared"
_PAIRS: Final = "pairs"
_LOOKS: Final = "looks"
_ALIKE: Final = "alike"


def _pairs_of(packed: Packed) -> npt.NDArray[np.void]:
    buffer = bytearray()
    for data in packed:
        buffer.extend(data)
    return np.frombuffer(buffer, PAIR)


def _flags(standing: Standing, some: Rollouts) -> npt.NDArray[np.bool_]:
    """Flag the rows of the rollouts' sketches that are background."""
    flags = np.zeros(len(some.sketches.step), np.bool_)
    for data in standing.told(_SHARED):
        flags[np.frombuffer(data, STEP)["row"]] = True
    return flags


def tasks(standing: Standing) -> Keys:
    """Yield packed rollouts that count and whose task is known, by partition of the task."""
    task, content = rollouts_with_task(standing)
    records = np.zeros(len(task), ROLLOUT)
    records["task"], records["content"], records["unit"] = task, content, standing.unit.number
    yield from partition_records(np.unique(records), "task", standing.judging.partitions)


def count_rollouts(_: Key, packed: Packed) -> Answers:
    """Count the different rollouts of each task, and send the counts to the units that have some."""
    records = unpack(packed, ROLLOUT)
    sizes = np.zeros(len(records), _SIZE)
    sizes["task"], sizes["rollouts"] = records["task"], rollouts(records["task"], records["content"])
    yield from ((_TASKS, *answer) for answer in apart(sizes, records["unit"]))


def steps(standing: Standing) -> Keys:
    """Yield packed steps of these rollouts, by partition of task and step. A task alone may be half of the corpus."""
    if not len(rollouts_with_task(standing)[0]):
        return
    some = rollouts_of(standing)
    chosen = np.flatnonzero(some.counts & (some.task != some.content))
    trajectory, rows = some.sketches.rows(chosen)
    task = some.task[chosen][trajectory]
    sizes = np.sort(unpack(standing.told(_TASKS), _SIZE))
    records = np.zeros(len(rows), STEP)
    records["kind"], records["content"] = step_kinds(task, some.sketches.step[rows]), some.content[chosen][trajectory]
    records["rollouts"] = sizes["rollouts"][np.searchsorted(sizes["task"], task)]
    records["unit"], records["row"] = standing.unit.number, rows
    yield from partition_records(records, "kind", standing.judging.partitions)


def members_of(standing: Standing) -> npt.NDArray[np.void]:
    """Return the kept rollouts of a unit in their buckets, given its background rows."""
    some, near = rollouts_of(standing), standing.judging.recipe.judge.near_duplicates
    assert near is not None
    chosen = np.flatnonzero(some.stays)
    who = np.zeros(len(chosen), MEMBER)
    who["rank"], who["node"] = some.rank[chosen], some.task[chosen]
    who["tie"] = identities(some.ids.take(pa.array(chosen)).to_pylist())
    who["unit"], who["row"] = standing.unit.number, some.first[chosen]
    return members(some.sketches, chosen, _flags(standing, some), near.made(), who)


@dataclass(frozen=True, slots=True)
class NearCopies:
    """Rule that drops trajectories whose remainder is mostly present in a kept one. Similar trajectories share a group.

    Attributes:
        near: thresholds of the comparison.
        likeness: whether units receive the similar trajectories of each of theirs.
    """

    near: NearDuplicates
    likeness: bool = False
    reasons: tuple[str, ...] = (NEAR_DUPLICATE,)
    losing: str = NEAR_DUPLICATE
    reported: tuple[str, ...] = ()

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Sizes of tasks, background steps, pairs that share a bucket, and two comparisons of them."""
        again = (_STEPS, _FIRST)
        return (
            Round(_TASKS, tasks, count_rollouts, takes_decided=True),
            Round(_STEPS, steps, self.background, (_TASKS,), heavy=True, takes_decided=True),
            Round(_MEMBERS, self.members, self.pairs, (_STEPS,), heavy=True, takes_decided=True),
            Round(_FIRST, self.compared, self.second, (_STEPS, _MEMBERS), sees_losses=False, common=UNITS, heavy=True),
            Round(NEAR_DUPLICATE, self.keys, self.losers, again, sees_losses=False, common=UNITS),
        )

    def background(self, key: Key, packed: Packed) -> Answers:
        """Find the background rows of each unit, as packed steps."""
        steps_of_task = unpack(packed, STEP)
        shared = steps_of_task[background_steps(steps_of_task, self.near.background_min, self.near.background_share)]
        yield from ((_SHARED, *answer) for answer in by_unit(shared))

    def members(self, standing: Standing) -> Keys:
        """Yield packed members of buckets, by partition of the bucket."""
        yield from partition_records(members_of(standing), "band", standing.judging.partitions)

    def pairs(self, key: Key, packed: Packed) -> Answers:
        """Find the pairs to compare, and send each to the unit of the trajectory that might be dropped.

        Pairs of two decided trajectories are left out.
        """
        members = unpack(packed, MEMBER)
        stays = members["unit"] >= DECIDED
        if stays.any():
            members = members[holds(distinct(members["band"][~stays]), members["band"])]
        pairs = candidates(members)
        yield from ((_PAIRS, *answer) for answer in by_unit(pairs[pairs["unit"] < DECIDED]))

    def compared(self, standing: Standing) -> Keys:
        """Yield the unit's pairs that are similar enough for one group, packed, with their absent shares."""
        yield from self._alike(standing, _PAIRS)

    def second(self, key: Key, packed: Packed) -> Answers:
        """Send all similar pairs, and those for a second look, to the unit of the trajectory that might be dropped."""
        pairs = _pairs_of(packed)
        looks = second_looks(pairs, self._alike_enough(pairs))
        yield from ((_ALIKE, *answer) for answer in by_unit(pairs))
        yield from ((_LOOKS, *answer) for answer in by_unit(looks[looks["unit"] < DECIDED]))

    def keys(self, standing: Standing) -> Keys:
        """Yield the similar pairs of both looks, packed."""
        yield from ((0, data) for data in standing.told(_ALIKE))
        yield from self._alike(standing, _LOOKS)

    def losers(self, key: Key, packed: Packed) -> Answers:
        """Yield the trajectories to drop among all similar pairs, with the survivor's id, and the similar nodes."""
        pairs = _pairs_of(packed)
        gone = decisive(pairs, self._alike_enough(pairs))
        rows = np.zeros(len(gone), LOSER)
        rows["row"], rows["kept"] = pairs["row"][gone], pairs["other_tie"][gone]
        yield from ((NEAR_DUPLICATE, *answer) for answer in apart(rows, pairs["unit"][gone]))
        for number, data in by_unit(pairs):
            some = np.frombuffer(data, PAIR)
            edges = np.stack([some["node"], some["other_node"]], axis=1)
            yield SIMILAR, number, np.unique(edges.astype("<u8"), axis=0).tobytes()
            if self.likeness:
                like = np.zeros(len(some), LIKENESS)
                like["row"], like["node"] = some["row"], some["other_node"]
                is_other = some["node"] != some["other_node"]
                yield LIKE, number, np.unique(like[is_other]).tobytes()

    def _alike_enough(self, pairs: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
        """Return the numbers of the pairs in which one trajectory is dropped."""
        return np.flatnonzero(pairs["absent"] < self.near.max_absent)

    def words(self, reason: str, survivor: int) -> str:
        return f"nearly equal to one of trajectory {survivor:016x}…"

    def _alike(self, standing: Standing, name: str) -> Keys:
        pairs = _pairs_of(standing.told(name))
        if not len(pairs):
            return
        unit, judging, near = standing.unit, standing.judging, self.near
        mine_all = rollouts_of(standing)
        sketches, flags = mine_all.sketches, _flags(standing, mine_all)
        sequence = sketches.sequence()
        for number in np.unique(pairs["other_unit"]).tolist():
            some = pairs[pairs["other_unit"] == number]
            some = some[np.unique(some[["row", "other_row"]], return_index=True)[1]]
            if number == unit.number:
                other_sketches, firsts = sketches, sketches.starts
            else:
                other_unit: Unit = standing.common[UNITS, number]
                other_sketches = read_sketches(other_unit.label, other_unit.measures_folder(judging))
                firsts = other_sketches.starts
            mine, theirs = np.searchsorted(sketches.starts, some["row"]), np.searchsorted(firsts, some["other_row"])
            absent, size = absent_shares(sketches, mine, flags, other_sketches, theirs)
            same = sequence[mine] == (sequence if other_sketches is sketches else other_sketches.sequence())[theirs]
            some["absent"] = np.where(same, 0.0, np.where(size < near.few, 1.0, absent)).astype(np.float32)
            # what of a grown log was there before loses its loss as exact copies, so that no copy has to go for it
            if number >= DECIDED and judging.recipe.judge.mask_duplicate_transitions:
                table = read_table(other_unit.measures_folder(judging), f"{other_unit.label}.parquet", ["has_text"])
                gone = np.flatnonzero(~same & (some["absent"] < near.max_absent))
                grew = _goes_on(sketches, mine[gone], other_sketches, theirs[gone], table["has_text"].to_numpy())
                some["absent"][gone[grew]] = near.max_absent
            alike = some[some["absent"] < max(near.similar, near.max_absent)]
            if len(alike):
                yield 0, alike.tobytes()
