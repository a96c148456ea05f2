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

from pipelines.judge.decision import Answers, Key, Keys, Round
from pipelines.judge.measures import read_sketches
from pipelines.judge.packed_rows import LOSER, SIMILAR, apart, by_unit, identities, partitioned
from pipelines.judge.reasons import NEAR_DUPLICATE
from pipelines.judge.standing import Standing
from pipelines.recipe.judgement import NearDuplicates
from quality.fingerprint import as_lanes
from quality.near import (
    MEMBER,
    PAIR,
    ROLLOUT,
    STEP,
    background_steps,
    candidates,
    dropped,
    members,
    rollouts,
    second_looks,
    step_kinds,
)
from quality.sketch import absent_shares

Packed = Iterable[bytes]


LABELS: Final = "labels"
"""The labels of all units, as every unit is told them."""

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
    return np.concatenate([np.zeros(0, PAIR), *(np.frombuffer(data, PAIR) for data in packed)])


def _flags(standing: Standing) -> npt.NDArray[np.bool_]:
    flags = np.zeros(standing.measures.table.num_rows, np.bool_)
    for data in standing.told(_SHARED):
        flags[np.frombuffer(data, STEP)["row"]] = True
    return flags


def _known(standing: Standing) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """(task, content, whether its trajectory is kept so far and its task known) of each row."""
    measures = standing.measures
    content = as_lanes(measures.table["trajectory_hash"].combine_chunks())[:, 0]
    task = measures.column("task_node")
    return task, content, standing.kept() & (task != content)


def tasks(standing: Standing) -> Keys:
    """Packed rollouts that are kept so far and whose task is known, by partition of the task."""
    task, content, known = _known(standing)
    starts = standing.measures.starts
    first = starts[known[starts]]
    found = np.zeros(len(first), ROLLOUT)
    found["task"], found["content"], found["unit"] = task[first], content[first], standing.unit.number
    yield from partitioned(np.unique(found), "task", standing.judging.partitions)


def sized(_: Key, packed: Packed) -> Answers:
    """How many different rollouts each task has, told to the units that have some."""
    found = np.concatenate([np.frombuffer(data, ROLLOUT) for data in packed])
    sizes = np.zeros(len(found), _SIZE)
    sizes["task"], sizes["rollouts"] = found["task"], rollouts(found["task"], found["content"])
    yield from ((_TASKS, *of) for of in apart(sizes, found["unit"]))


def steps(standing: Standing) -> Keys:
    """Packed steps of the same rollouts, by partition of the task and the step: a task may be half of the corpus."""
    measures, unit = standing.measures, standing.unit
    sketches = read_sketches(unit.label, standing.judging, measures.starts)
    task, content, known = _known(standing)
    rows = np.flatnonzero(known)
    sizes = np.sort(np.concatenate([np.zeros(0, _SIZE), *(np.frombuffer(one, _SIZE) for one in standing.told(_TASKS))]))
    found = np.zeros(len(rows), STEP)
    found["kind"], found["content"] = step_kinds(task[rows], sketches.step[rows]), content[rows]
    found["rollouts"] = sizes["rollouts"][np.searchsorted(sizes["task"], task[rows])]
    found["unit"], found["row"] = unit.number, rows
    yield from partitioned(found, "kind", standing.judging.partitions)


@dataclass(frozen=True, slots=True)
class NearCopies:
    """Trajectories of whose remainder little is absent from one that is kept; those alike share a group."""

    near: NearDuplicates
    name: str = NEAR_DUPLICATE
    reasons: tuple[str, ...] = (NEAR_DUPLICATE,)
    hears: tuple[str, ...] = (_STEPS, _FIRST)
    common: str = LABELS

    @property
    def before(self) -> tuple[Round, ...]:
        """Sizes of tasks, background steps, pairs that meet in a bucket, and their comparison."""
        return (
            Round(_TASKS, tasks, sized),
            Round(_STEPS, steps, self.background, (_TASKS,), heavy=True),
            Round(_MEMBERS, self.members, self.pairs, (_STEPS,), heavy=True),
            Round(_FIRST, self.compared, self.second, (_STEPS, _MEMBERS), LABELS),
        )

    def background(self, key: Key, packed: Packed) -> Answers:
        """The background rows of each unit, as packed steps."""
        found = np.concatenate([np.frombuffer(data, STEP) for data in packed])
        shared = found[background_steps(found, self.near.background_min, self.near.background_share)]
        yield from ((_SHARED, *of) for of in by_unit(shared))

    def members(self, standing: Standing) -> Keys:
        """Packed members of buckets, by partition of the bucket."""
        measures, unit = standing.measures, standing.unit
        sketches = read_sketches(unit.label, standing.judging, measures.starts)
        chosen = np.flatnonzero(standing.kept()[measures.starts])
        first = measures.starts[chosen]
        who = np.zeros(len(chosen), MEMBER)
        who["rank"], who["node"] = measures.column("rank")[first], measures.column("task_node")[first]
        who["tie"] = identities(measures.table["trajectory_id"].take(first).to_pylist())
        who["unit"], who["row"] = unit.number, first
        found = members(sketches, chosen, _flags(standing), self.near.made(), who)
        yield from partitioned(found, "band", standing.judging.partitions)

    def pairs(self, key: Key, packed: Packed) -> Answers:
        """The pairs to compare, told to the unit of the one that might go."""
        found = candidates(np.concatenate([np.frombuffer(data, MEMBER) for data in packed]))
        yield from ((_PAIRS, *of) for of in by_unit(found))

    def compared(self, standing: Standing) -> Keys:
        """Of a unit's pairs those that are alike enough for one group, packed, with the share that is absent."""
        yield from self._alike(standing, _PAIRS)

    def second(self, key: Key, packed: Packed) -> Answers:
        """All alike pairs, and those to look at a second time, told to the unit of the one that might go."""
        found = _pairs_of(packed)
        yield from ((_ALIKE, *of) for of in by_unit(found))
        yield from ((_LOOKS, *of) for of in by_unit(second_looks(found[found["absent"] < self.near.max_absent])))

    def keys(self, standing: Standing) -> Keys:
        """The alike pairs of both looks, packed."""
        yield from ((0, data) for data in standing.told(_ALIKE))
        yield from self._alike(standing, _LOOKS)

    def losers(self, key: Key, packed: Packed) -> Answers:
        """Who goes, of all alike pairs, with the survivor's id; and the nodes that are alike."""
        found = _pairs_of(packed)
        for number, data in by_unit(dropped(found[found["absent"] < self.near.max_absent])):
            some = np.frombuffer(data, PAIR)
            rows = np.zeros(len(some), LOSER)
            rows["row"], rows["kept"] = some["row"], some["other_tie"]
            yield NEAR_DUPLICATE, number, rows.tobytes()
        for number, data in by_unit(found):
            some = np.frombuffer(data, PAIR)
            edges = np.stack([some["node"], some["other_node"]], axis=1)
            yield SIMILAR, number, np.unique(edges.astype("<u8"), axis=0).tobytes()

    def words(self, reason: str, survivor: int) -> str:
        """See `Decision`."""
        return f"nearly equal to one of trajectory {survivor:016x}…"

    def _alike(self, standing: Standing, name: str) -> Keys:
        found = _pairs_of(standing.told(name))
        if not len(found):
            return
        unit, judging, near = standing.unit, standing.judging, self.near
        flags = _flags(standing)
        sketches = read_sketches(unit.label, judging, standing.measures.starts)
        sequence = sketches.sequence()
        for number in np.unique(found["other_unit"]).tolist():
            some = found[found["other_unit"] == number]
            some = some[np.unique(some[["row", "other_row"]], return_index=True)[1]]
            label = standing.common[number].decode()
            others = sketches if number == unit.number else read_sketches(label, judging)
            mine = np.searchsorted(sketches.starts, some["row"])
            theirs = np.searchsorted(others.starts, some["other_row"])
            absent, size = absent_shares(sketches, mine, flags, others, theirs)
            same = sequence[mine] == (sequence if others is sketches else others.sequence())[theirs]
            some["absent"] = np.where(same, 0.0, np.where(size < near.few, 1.0, absent)).astype(np.float32)
            alike = some[some["absent"] < max(near.similar, near.max_absent)]
            if len(alike):
                yield 0, alike.tobytes()
