"""Equal trajectories, of which one is kept, those of one task, of which some are, and equal transitions, of which one
keeps its loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.judge.corpus_rule import Answers, Key, Keys, Round
from trajmill.pipelines.judge.packed_rows import LOSER, apart, identities, partition_records, unpack
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import DUPLICATE_TRAJECTORY, DUPLICATE_TRANSITION, MAX_PER_TASK
from trajmill.quality.duplicate import KEY, losers
from trajmill.quality.fingerprint import as_lanes

_LOSING: Final = {"trajectory": DUPLICATE_TRAJECTORY, "task": MAX_PER_TASK, "transition": DUPLICATE_TRANSITION}


@dataclass(frozen=True, slots=True)
class Copies:
    """Of equal ones the first: of trajectories that by rank, of transitions the earliest step.

    Attributes:
        of: what is equal: trajectories, their tasks, or transitions. Sub-agents, branches and continuations are parts
            of an attempt at a task, and not compared as attempts.
        most: how many of equal ones are kept.
    """

    of: Literal["trajectory", "task", "transition"]
    most: int = 1
    reported: tuple[str, ...] = ()

    @property
    def losing(self) -> str:
        return _LOSING[self.of]

    @property
    def reasons(self) -> tuple[str, ...]:
        return (self.losing,)

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (Round(self.losing, self.keys, self.losers, takes_decided=True),)

    def keys(self, standing: Standing) -> Keys:
        """Yield packed keys of the remaining trajectories or targets, by partition."""
        measures = standing.measures
        starts = measures.starts
        rows = np.flatnonzero(standing.targets()) if self.of == "transition" else starts[standing.kept()[starts]]
        if self.of == "task":
            rows = rows[(measures.column("own_node") == measures.column("parent_node"))[rows]]
        yield from partition_records(self._keys(standing, rows), "high", standing.judging.partitions)

    def _keys(self, standing: Standing, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Return keys of the given rows. For trajectories, these are their first rows."""
        measures = standing.measures
        taken = measures.table.take(pa.array(rows))
        keys = np.zeros(len(rows), KEY)
        if self.of == "task":
            keys["high"] = measures.column("task_node")[rows]
        else:
            keys["high"], keys["low"] = as_lanes(taken[f"{self.of}_hash"].combine_chunks()).T
        keys["rank"] = standing.rank_values(measures.column("step" if self.of == "transition" else "rank")[rows])
        keys["tie"], keys["origin"] = identities(taken["trajectory_id"].to_pylist()), measures.column("origin")[rows]
        keys["unit"], keys["row"] = standing.unit.number, rows
        return keys

    def losers(self, key: Key, packed: Iterable[bytes]) -> Answers:
        """Yield the rows of each unit that lose against an equal one, with the survivor's id."""
        lost, survivors = losers(unpack(packed, KEY), self.most)
        rows = np.zeros(len(lost), LOSER)
        rows["row"], rows["kept"] = lost["row"], survivors["tie"]
        yield from ((self.losing, *loss) for loss in apart(rows, lost["unit"]))

    def words(self, reason: str, survivor: int) -> str:
        if self.of == "task":
            return f"as many of its task are kept as the recipe allows; the best is trajectory {survivor:016x}…"
        return f"equal to one of trajectory {survivor:016x}…"
