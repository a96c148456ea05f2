"""Rollouts of a unit, as near copies are looked for among them: of the unit that is judged, or of an earlier one.

Of a unit of an earlier generation only what is asked for is read: the trajectories of some tasks, as its verdicts left
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.judge.earlier import EARLIER, Earlier
from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.judge.measure_files import sketch_name
from trajmill.pipelines.judge.measures import read_sketches
from trajmill.pipelines.judge.packed_rows import identities
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import AFTER_NEAR, NEAR_DUPLICATE
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_rows, read_table
from trajmill.quality.fingerprint import as_lanes
from trajmill.quality.sets import holds, ranges
from trajmill.quality.sketch import SKETCH_SCHEMA, Sketches

_COLUMNS: Final = ("step", "task_node", "trajectory_hash", "trajectory_id")


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Trajectories of a unit; arrays of one length, but for `rows`.

    Attributes:
        sketches: of these trajectories alone.
        rows: of the unit's file, one for each of the sketches.
        first: the row of each one's first step in the file.
        task: the node of its task.
        content: a hash of all that it holds.
        rank: by which the smallest is the best; 0 for those of earlier generations, which come before all others.
        counts: whether it counts where a task's steps are.
        stays: whether it is kept so far.
        ids: of all.
    """

    sketches: Sketches
    rows: npt.NDArray[np.int64]
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
    """All rollouts of the unit that is judged; of an earlier one those of tasks that take part."""
    number, earlier = standing.unit.number, standing.judging.earlier
    if number >= EARLIER:
        assert earlier is not None
        return earlier_rollouts(earlier, number)
    measures = standing.measures
    starts, table = measures.starts, measures.table
    first = table.select(["trajectory_hash", "trajectory_id"]).take(pa.array(starts))
    rank = measures.column("rank")[starts]
    kept = standing.kept()[starts]
    return Rollouts(
        sketches=read_sketches(standing.unit.label, standing.judging, starts),
        rows=np.arange(table.num_rows),
        first=starts,
        task=measures.column("task_node")[starts],
        content=as_lanes(first["trajectory_hash"].combine_chunks())[:, 0],
        rank=rank if earlier is None else rank + np.uint64(1),
        counts=kept,
        stays=kept,
        ids=first["trajectory_id"],
    )


def named_rollouts(standing: Standing) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The task and the content of each rollout that counts and whose task is known; no sketch is read for it."""
    number, earlier = standing.unit.number, standing.judging.earlier
    if number >= EARLIER:
        assert earlier is not None
        found = _Chosen.of(earlier, number)
        task, content = found.task, found.content
    else:
        starts = standing.measures.starts[standing.kept()[standing.measures.starts]]
        task = standing.measures.column("task_node")[starts]
        content = as_lanes(standing.measures.table["trajectory_hash"].take(pa.array(starts)).combine_chunks())[:, 0]
    known = task != content
    return task[known], content[known]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The rollouts of an earlier unit that take part; arrays of one length."""

    measures: Folder
    label: str
    first: npt.NDArray[np.int64]
    task: npt.NDArray[np.uint64]
    content: npt.NDArray[np.uint64]
    kept: npt.NDArray[np.bool_]
    ids: pa.ChunkedArray

    @classmethod
    def of(cls, earlier: Earlier, number: int) -> _Chosen:
        folder, name = earlier.place(number)
        label, tasks = Unit(number, name, "").label, earlier.tasks_of(number)
        starts, table = _firsts(read_table(folder / "measures", f"{label}.parquet", _COLUMNS))
        _, verdicts = _firsts(read_table(folder / "verdicts", name, ["step", "kept", "reason"]))
        task = table["task_node"].to_numpy()
        kept, reason = verdicts["kept"].to_numpy(), np.array(verdicts["reason"].to_pylist(), object)
        counts = kept | np.isin(reason.astype(str), [NEAR_DUPLICATE, *AFTER_NEAR])
        chosen = np.flatnonzero(counts if tasks is None else counts & holds(tasks, task))
        table = table.take(pa.array(chosen)).combine_chunks()
        content = as_lanes(table["trajectory_hash"].combine_chunks())[:, 0]
        where = folder / "measures", label, starts[chosen]
        return cls(*where, task[chosen], content, kept[chosen], table["trajectory_id"])


def earlier_rollouts(earlier: Earlier, number: int) -> Rollouts:
    """Rollouts of a unit of an earlier generation, of the tasks that take part."""
    found = _Chosen.of(earlier, number)
    sketches, rows = sketches_among(found.measures, found.label, found.first)
    return Rollouts(
        sketches=sketches,
        rows=rows,
        first=found.first,
        task=found.task,
        content=found.content,
        rank=np.zeros(len(found.first), np.uint64),
        counts=np.ones(len(found.first), np.bool_),
        stays=found.kept,
        ids=found.ids,
    )


def sketches_among(
    measures: Folder, label: str, firsts: npt.NDArray[np.int64]
) -> tuple[Sketches, npt.NDArray[np.int64]]:
    """The sketches of some trajectories of a unit, and which rows of the unit they are of.

    Args:
        measures: the folder of what was measured of the unit.
        label: of the unit.
        firsts: the first rows of the trajectories, ascending.
    """
    step = read_table(measures, f"{label}.parquet", ["step"])["step"].to_numpy()
    starts = np.flatnonzero(step == 0)
    ends = np.append(starts[1:], len(step))
    lengths = ends[np.searchsorted(starts, firsts)] - firsts
    rows = ranges(firsts, lengths)
    table = pa.Table.from_batches(read_rows(measures, sketch_name(label), rows), schema=SKETCH_SCHEMA)
    return Sketches.of(table, np.cumsum(lengths) - lengths), rows


def _firsts(table: pa.Table) -> tuple[npt.NDArray[np.int64], pa.Table]:
    """The first row of each trajectory, and a table of these rows."""
    starts = np.flatnonzero(table["step"].to_numpy() == 0)
    return starts, table.take(pa.array(starts)).combine_chunks()
