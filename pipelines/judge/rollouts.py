"""Rollouts of a unit, as near copies are looked for among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.judge.measures import read_sketches
from trajmill.pipelines.judge.packed_rows import identities
from trajmill.pipelines.judge.part_state import Standing
from trajmill.quality.fingerprint import as_lanes
from trajmill.quality.sketch import Sketches


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
