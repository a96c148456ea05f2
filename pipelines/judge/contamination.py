"""Contamination over the whole corpus: the tasks that show runs of benchmarks, and the trajectories to drop.

Only the shown runs are shuffled, each with its task: the number of tasks that show a run identifies boilerplate.
`quality.contamination` defines the scores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.judge.corpus_rule import Answers, Key, Keys, Round
from trajmill.pipelines.judge.evaluation_index import read_index
from trajmill.pipelines.judge.judging import Judging, Unit, measure_file
from trajmill.pipelines.judge.packed_rows import LOSER, partition_records, unpack
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import CONTAMINATED
from trajmill.pipelines.storage.parquet import read_table
from trajmill.quality.contamination import Index
from trajmill.quality.contamination_matches import MATCH_SCHEMA, choose_items, tasks_showing

RUNS: Final = "runs"
"""Name of the round that counts the tasks that show a run."""

SHOWING: Final = np.dtype([("run", "<u8"), ("task", "<u8")])
"""A run of words, and a task with a trajectory that shows it."""

COUNTED: Final = np.dtype([("run", "<u8"), ("tasks", "<u8")])
"""A run of words, and the number of tasks that show it."""


def _matches(unit: Unit, judging: Judging) -> pa.Table:
    return read_table(judging.measures, measure_file(unit.label, "benchmarks"), MATCH_SCHEMA.names)


def find_runs(standing: Standing) -> Keys:
    """Yield the packed runs that a unit's trajectories show, with their tasks, by partition of the run."""
    tasks = standing.measures.column("task_node")
    run, task = tasks_showing(_matches(standing.unit, standing.judging), tasks)
    records = np.zeros(len(run), SHOWING)
    records["run"], records["task"] = run, task
    yield from partition_records(records, "run", standing.judging.partitions)


def count_tasks(key: Key, packed: Iterable[bytes]) -> Answers:
    """Count the tasks that show each packed run. All records of a run must be among those given."""
    distinct = np.unique(unpack(packed, SHOWING))
    run, tasks = np.unique(distinct["run"], return_counts=True)
    records = np.zeros(len(run), COUNTED)
    records["run"], records["tasks"] = run, tasks
    yield RUNS, int(key), records.tobytes()


@dataclass(frozen=True, slots=True)
class Contamination:
    """Rule that drops contaminated trajectories.

    The first round counts, for all units, the tasks that show each run of words. The second finds the trajectories that
    show an item.
    """

    judging: Judging
    reasons: tuple[str, ...] = (CONTAMINATED,)
    losing: str = CONTAMINATED
    reported: tuple[str, ...] = ()

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (
            Round(RUNS, find_runs, count_tasks, sees_losses=False),
            Round(CONTAMINATED, self.keys, self.losers, sees_losses=False, common=RUNS, own=self.own),
        )

    def own(self, standing: Standing) -> npt.NDArray[np.void]:
        """Return the unit's contaminated trajectories: rows with the number of the item, of dtype `LOSER`."""
        rules = standing.judging.recipe.judge.contamination
        index = self._index()
        known = unpack((data for (name, _), data in standing.common.items() if name == RUNS), COUNTED)
        weights = index.weights(rules.common, known["run"], known["tasks"])
        row, item, _ = choose_items(_matches(standing.unit, standing.judging), index, weights, rules.min_score)
        losers = np.zeros(len(row), LOSER)
        losers["row"], losers["kept"] = row, item
        return np.sort(losers)

    def keys(self, standing: Standing) -> Keys:
        """Yield the unit's contaminated trajectories, packed, keyed by the unit itself."""
        if len(losers := standing.own[CONTAMINATED]):
            yield standing.unit.number, losers.tobytes()

    def losers(self, key: Key, packed: Iterable[bytes]) -> Answers:
        """Pass the losers on unchanged.

        A unit's trajectories are dropped by their own texts, regardless of other units.
        """
        for data in packed:
            yield CONTAMINATED, int(key), data

    def words(self, reason: str, survivor: int) -> str:
        """Return the name of the shown item."""
        return self._index().items[survivor]

    def _index(self) -> Index:
        return read_index(self.judging.measures, self.judging.benchmarks)
