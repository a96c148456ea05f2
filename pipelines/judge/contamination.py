"""Contaminated trajectories of the whole corpus: which tasks show which runs of benchmarks, and who goes.

Only the runs that are shown are shuffled, each with its task: what is boilerplate is known by how many tasks show it.
What the numbers mean is `quality.contamination`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import apache_beam as beam
import numpy as np
import pyarrow as pa

from pipelines.engine.parquet import read_batches
from pipelines.judge.evaluation_index import read_index
from pipelines.judge.judging import Judging, Unit
from pipelines.judge.measure_files import matches_name
from pipelines.judge.measures import read_measures
from pipelines.judge.packed_rows import LOSER, partitioned
from quality.exposure import MATCH_SCHEMA, decided, tasks_showing

SHOWING: Final = np.dtype([("run", "<u8"), ("task", "<u8")])
"""A run of words, and a task of which a trajectory shows it."""

COUNTED: Final = np.dtype([("run", "<u8"), ("tasks", "<u8")])
"""A run of words, and how many tasks show it."""


def _matches(unit: Unit, judging: Judging) -> pa.Table:
    batches = read_batches(judging.measures, matches_name(unit.label))
    return pa.Table.from_batches(batches, schema=MATCH_SCHEMA)


def showing(unit: Unit, judging: Judging) -> Iterator[tuple[int, bytes]]:
    """Packed runs that a unit's trajectories show, with their tasks, by partition of the run."""
    run, task = tasks_showing(_matches(unit, judging), read_measures(unit, judging).column("task_node"))
    found = np.zeros(len(run), SHOWING)
    found["run"], found["task"] = run, task
    yield from partitioned(found, "run")


def counted(packed: Iterable[bytes]) -> tuple[int, bytes]:
    """Packed runs with the number of tasks that show them; all of a run are among those given."""
    distinct = np.unique(np.concatenate([np.frombuffer(data, SHOWING) for data in packed]))
    run, tasks = np.unique(distinct["run"], return_counts=True)
    found = np.zeros(len(run), COUNTED)
    found["run"], found["tasks"] = run, tasks
    return 0, found.tobytes()


def contaminated(unit: Unit, judging: Judging, counts: bytes) -> Iterator[tuple[int, bytes]]:
    """The unit's contaminated trajectories: (unit, packed rows with the number of the item)."""
    rules = judging.recipe.judge.contamination
    index = read_index(judging.measures, judging.benchmarks)
    known = np.frombuffer(counts, COUNTED)
    weights = index.weights(rules.common, known["run"], known["tasks"])
    row, item, _ = decided(_matches(unit, judging), index, weights, rules.min_score)
    found = np.zeros(len(row), LOSER)
    found["row"], found["kept"] = row, item
    if len(found):
        yield unit.number, found.tobytes()


class UnitsToContaminated(beam.PTransform):
    """Unit → (its number, packed rows of its contaminated trajectories)."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging

    def expand(self, units: beam.PCollection[Unit]) -> beam.PCollection[Any]:
        counts = (
            units
            | "Showing" >> beam.FlatMap(showing, self._judging)
            | "GatherRuns" >> beam.GroupByKey()
            | "CountTasks" >> beam.MapTuple(lambda _, packed: counted(packed))
            | "GatherCounts" >> beam.GroupByKey()
            | "AllCounts" >> beam.MapTuple(lambda _, packed: b"".join(packed))
        )
        together = beam.pvalue.AsSingleton(counts, default_value=b"")
        return units | "Contaminated" >> beam.FlatMap(contaminated, self._judging, together)
