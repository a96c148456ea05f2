"""Near duplicates of the whole corpus: which steps are background, who is compared with whom, and who goes.

Only packed hashes are shuffled; sketches are read where they lie, those of a pair's two units at a time:

    rollouts ─▶ sizes of tasks ─▶ steps ─▶ background rows ─▶ members of buckets ─▶ pairs ─▶ shares absent
        ─▶ second looks ─▶ shares absent ─▶ who goes, and edges of groups

What the numbers mean is `quality.near`'s.
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
from trajmill.pipelines.judge.packed_rows import LIKE, LIKENESS, LOSER, SIMILAR, apart, by_unit, identities, partitioned
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import NEAR_DUPLICATE
from trajmill.pipelines.recipe.judgement import NearDuplicates
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, write_parquet
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
    """Writes what a unit was told: first rows of trajectories, and the tasks of those that each is like."""
    unit = standing.unit
    found = np.unique(
        np.concatenate([np.zeros(0, LIKENESS), *(np.frombuffer(data, LIKENESS) for data in standing.told(LIKE))])
    )
    columns = [pa.array(np.ascontiguousarray(found[name])) for name in _SCHEMA.names]
    entry = write_parquet(folder, unit.name, _SCHEMA, [pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)])
    return finish_unit(folder, Manifest(STAGE, unit.label, standing.judging.digest, SCHEMA_VERSION, (entry,)))


def read_likeness(folder: Folder, name: str) -> npt.NDArray[np.void]:
    """What was written of a unit, of dtype `LIKENESS`.

    Raises:
        ShardError: the file is missing or damaged.
    """
    parts = [np.zeros(0, LIKENESS)]
    for batch in read_batches(folder, name):
        some = np.zeros(batch.num_rows, LIKENESS)
        some["row"], some["node"] = batch["row"].to_numpy(), batch["node"].to_numpy()
        parts.append(some)
    return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The trajectories of a unit; arrays of one length.

    Attributes:
        sketches: of them.
        first: the row of each one's first step in the file.
        task: the node of its task.
        content: a hash of all that it holds.
        rank: by which the smallest is the best.
        counts: whether it counts where a task's steps are.
        stays: whether it is kept so far.
        ids: of all.
    """

    sketches: Sketches
    first: npt.NDArray[np.int64]
    task: npt.NDArray[np.uint64]
    content: npt.NDArray[np.uint64]
    rank: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.bool_]
    stays: npt.NDArray[np.bool_]
    ids: pa.Array | pa.ChunkedArray

    def ties(self, chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """The first 64 bits of the ids of these."""
        return identities(self.ids.take(pa.array(chosen)).to_pylist())


def rollouts_of(standing: Standing) -> Rollouts:
    """All rollouts of a unit."""
    measures = standing.measures
    starts = measures.starts
    first = measures.table.select(["trajectory_hash", "trajectory_id"]).take(pa.array(starts))
    return Rollouts(
        sketches=read_sketches(standing.unit.label, standing.measured, starts),
        first=starts,
        task=measures.column("task_node")[starts],
        content=as_lanes(first["trajectory_hash"].combine_chunks())[:, 0],
        rank=standing.ranked(measures.column("rank")[starts]),
        counts=standing.counts()[starts],
        stays=standing.kept()[starts],
        ids=first["trajectory_id"],
    )


def named_rollouts(standing: Standing) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The task and the content of each rollout that counts and whose task is known; no sketch is read for it."""
    measures = standing.measures
    starts = measures.starts[standing.counts()[measures.starts]]
    task = measures.column("task_node")[starts]
    content = as_lanes(measures.table["trajectory_hash"].take(pa.array(starts)).combine_chunks())[:, 0]
    known = task != content
    return task[known], content[known]


Packed = Iterable[bytes]


_SIZE: Final = np.dtype([("task", "<u8"), ("rollouts", "<u4")])
"""A task, and how many different rollouts it has."""

_TASKS: Final = "tasks"
_STEPS: Final = "steps"
_MEMBERS: Final = "members"
_FIRST: Final = "compared"
_SHARED: Final = "shared"
_PAIRS: Final = "pairs"
_LOOKS: Final = "looks"
_ALIKE: Final = "alike"


def _pairs_of(packed: Packed) -> npt.NDArray[np.void]:
    held = bytearray()
    for data in packed:
        held.extend(data)
    return np.frombuffer(held, PAIR)


def _flags(standing: Standing, some: Rollouts) -> npt.NDArray[np.bool_]:
    """Of each row of the rollouts' sketches, whether it is background."""
    flags = np.zeros(len(some.sketches.step), np.bool_)
    for data in standing.told(_SHARED):
        flags[np.frombuffer(data, STEP)["row"]] = True
    return flags


def tasks(standing: Standing) -> Keys:
    """Packed rollouts that are kept so far and whose task is known, by partition of the task."""
    task, content = named_rollouts(standing)
    found = np.zeros(len(task), ROLLOUT)
    found["task"], found["content"], found["unit"] = task, content, standing.unit.number
    yield from partitioned(np.unique(found), "task", standing.judging.partitions)


def sized(_: Key, packed: Packed) -> Answers:
    """How many different rollouts each task has, told to the units that have some."""
    found = np.concatenate([np.frombuffer(data, ROLLOUT) for data in packed])
    sizes = np.zeros(len(found), _SIZE)
    sizes["task"], sizes["rollouts"] = found["task"], rollouts(found["task"], found["content"])
    yield from ((_TASKS, *of) for of in apart(sizes, found["unit"]))


def steps(standing: Standing) -> Keys:
    """Packed steps of the same rollouts, by partition of the task and the step: a task may be half of the corpus."""
    some = rollouts_of(standing)
    chosen = np.flatnonzero(some.counts & (some.task != some.content))
    place, rows = some.sketches.rows(chosen)
    task = some.task[chosen][place]
    sizes = np.sort(np.concatenate([np.zeros(0, _SIZE), *(np.frombuffer(one, _SIZE) for one in standing.told(_TASKS))]))
    found = np.zeros(len(rows), STEP)
    found["kind"], found["content"] = step_kinds(task, some.sketches.step[rows]), some.content[chosen][place]
    found["rollouts"] = sizes["rollouts"][np.searchsorted(sizes["task"], task)]
    found["unit"], found["row"] = standing.unit.number, rows
    yield from partitioned(found, "kind", standing.judging.partitions)


def members_of(standing: Standing) -> npt.NDArray[np.void]:
    """The rollouts of a unit that are kept so far, in their buckets, where it was told which rows are background."""
    some, near = rollouts_of(standing), standing.judging.recipe.judge.near_duplicates
    assert near is not None
    chosen = np.flatnonzero(some.stays)
    if not len(chosen):
        return np.zeros(0, MEMBER)
    who = np.zeros(len(chosen), MEMBER)
    who["rank"], who["node"], who["tie"] = some.rank[chosen], some.task[chosen], some.ties(chosen)
    who["unit"], who["row"] = standing.unit.number, some.first[chosen]
    return members(some.sketches, chosen, _flags(standing, some), near.made(), who)


@dataclass(frozen=True, slots=True)
class NearCopies:
    """Trajectories of whose remainder little is absent from one that is kept; those alike share a group.

    Attributes:
        near: what is near.
        likeness: whether units are told whom each of their trajectories is like.
    """

    near: NearDuplicates
    likeness: bool = False
    reasons: tuple[str, ...] = (NEAR_DUPLICATE,)
    losing: str = NEAR_DUPLICATE
    reported: tuple[str, ...] = ()

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Sizes of tasks, background steps, pairs that meet in a bucket, and their comparison, twice."""
        again = (_STEPS, _FIRST)
        return (
            Round(_TASKS, tasks, sized, takes_decided=True),
            Round(_STEPS, steps, self.background, (_TASKS,), heavy=True, takes_decided=True),
            Round(_MEMBERS, self.members, self.pairs, (_STEPS,), heavy=True, takes_decided=True),
            Round(_FIRST, self.compared, self.second, (_STEPS, _MEMBERS), sees_losses=False, common=UNITS, heavy=True),
            Round(NEAR_DUPLICATE, self.keys, self.losers, again, sees_losses=False, common=UNITS),
        )

    def background(self, key: Key, packed: Packed) -> Answers:
        """The background rows of each unit, as packed steps."""
        found = np.concatenate([np.frombuffer(data, STEP) for data in packed])
        shared = found[background_steps(found, self.near.background_min, self.near.background_share)]
        yield from ((_SHARED, *of) for of in by_unit(shared))

    def members(self, standing: Standing) -> Keys:
        """Packed members of buckets, by partition of the bucket."""
        yield from partitioned(members_of(standing), "band", standing.judging.partitions)

    def pairs(self, key: Key, packed: Packed) -> Answers:
        """The pairs to compare, told to the unit of the one that might go: of two that are decided none."""
        found = np.concatenate([np.frombuffer(data, MEMBER) for data in packed])
        stays = found["unit"] >= DECIDED
        if stays.any():
            found = found[holds(distinct(found["band"][~stays]), found["band"])]
        pairs = candidates(found)
        yield from ((_PAIRS, *of) for of in by_unit(pairs[pairs["unit"] < DECIDED]))

    def compared(self, standing: Standing) -> Keys:
        """Of a unit's pairs those that are alike enough for one group, packed, with the share that is absent."""
        yield from self._alike(standing, _PAIRS)

    def second(self, key: Key, packed: Packed) -> Answers:
        """All alike pairs, and those to look at a second time, told to the unit of the one that might go."""
        found = _pairs_of(packed)
        looks = second_looks(found, self._alike_enough(found))
        yield from ((_ALIKE, *of) for of in by_unit(found))
        yield from ((_LOOKS, *of) for of in by_unit(looks[looks["unit"] < DECIDED]))

    def keys(self, standing: Standing) -> Keys:
        """The alike pairs of both looks, packed."""
        yield from ((0, data) for data in standing.told(_ALIKE))
        yield from self._alike(standing, _LOOKS)

    def losers(self, key: Key, packed: Packed) -> Answers:
        """Who goes, of all alike pairs, with the survivor's id; and the nodes that are alike."""
        found = _pairs_of(packed)
        gone = decisive(found, self._alike_enough(found))
        rows = np.zeros(len(gone), LOSER)
        rows["row"], rows["kept"] = found["row"][gone], found["other_tie"][gone]
        yield from ((NEAR_DUPLICATE, *of) for of in apart(rows, found["unit"][gone]))
        for number, data in by_unit(found):
            some = np.frombuffer(data, PAIR)
            edges = np.stack([some["node"], some["other_node"]], axis=1)
            yield SIMILAR, number, np.unique(edges.astype("<u8"), axis=0).tobytes()
            if self.likeness:
                like = np.zeros(len(some), LIKENESS)
                like["row"], like["node"] = some["row"], some["other_node"]
                others = some["node"] != some["other_node"]
                yield LIKE, number, np.unique(like[others]).tobytes()

    def _alike_enough(self, pairs: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
        """The numbers of the pairs of which one goes."""
        return np.flatnonzero(pairs["absent"] < self.near.max_absent)

    def words(self, reason: str, survivor: int) -> str:
        return f"nearly equal to one of trajectory {survivor:016x}…"

    def _alike(self, standing: Standing, name: str) -> Keys:
        found = _pairs_of(standing.told(name))
        if not len(found):
            return
        unit, judging, near = standing.unit, standing.judging, self.near
        mine_all = rollouts_of(standing)
        sketches, flags = mine_all.sketches, _flags(standing, mine_all)
        sequence = sketches.sequence()
        for number in np.unique(found["other_unit"]).tolist():
            some = found[found["other_unit"] == number]
            some = some[np.unique(some[["row", "other_row"]], return_index=True)[1]]
            if number == unit.number:
                others, firsts = sketches, sketches.starts
            else:
                other: Unit = standing.common[UNITS, number]
                others = read_sketches(other.label, other.measured_in(judging))
                firsts = others.starts
            mine, theirs = np.searchsorted(sketches.starts, some["row"]), np.searchsorted(firsts, some["other_row"])
            absent, size = absent_shares(sketches, mine, flags, others, theirs)
            same = sequence[mine] == (sequence if others is sketches else others.sequence())[theirs]
            some["absent"] = np.where(same, 0.0, np.where(size < near.few, 1.0, absent)).astype(np.float32)
            alike = some[some["absent"] < max(near.similar, near.max_absent)]
            if len(alike):
                yield 0, alike.tobytes()
