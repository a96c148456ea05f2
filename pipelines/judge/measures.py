"""What was measured of a unit, read back by every decision, and what the rules alone say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.judge.judging import Judging, Unit
from trajmill.pipelines.judge.measure_files import measure_file
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches
from trajmill.quality.fingerprint import as_lanes, mixed
from trajmill.quality.rule import Decision, decided
from trajmill.quality.sketch import SKETCH_SCHEMA, Sketches
from trajmill.schemas.verdict import SIGNAL_PREFIX, measure_schema


@dataclass(frozen=True, slots=True)
class Measures:
    """What was measured of a unit, and what the rules say of it."""

    table: pa.Table
    decision: Decision
    starts: npt.NDArray[np.int64]

    def column(self, name: str) -> npt.NDArray[Any]:
        """A numeric column."""
        return self.table[name].combine_chunks().to_numpy(zero_copy_only=False)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Rows of each trajectory."""
        return np.diff(np.append(self.starts, self.table.num_rows))


def read_measures(unit: Unit, judging: Judging) -> Measures:
    """Read the measurements of a unit and judge them by the recipe's rules."""
    table = pa.Table.from_batches(
        read_batches(judging.measures, f"{unit.label}.parquet"),
        schema=measure_schema(judging.signals, judging.telling),
    ).combine_chunks()
    numbers = {
        name: table[SIGNAL_PREFIX + name].combine_chunks().to_numpy(zero_copy_only=False) for name in judging.signals
    }
    rules = judging.recipe.judge.ordered_rules()
    keys = _keys(table) if any(rule.spare for rule in rules) else None
    decision = decided(rules, numbers, table.num_rows, keys)
    starts = np.flatnonzero(table["step"].combine_chunks().to_numpy(zero_copy_only=False) == 0)
    return Measures(table, decision, starts)


def _keys(table: pa.Table) -> Mapping[str, npt.NDArray[np.uint64]]:
    """What trajectories and transitions say, as numbers; a step of a trajectory that says the same is another."""
    whole = as_lanes(table["trajectory_hash"].combine_chunks())[:, 0]
    step = table["step"].to_numpy()
    return {"trajectory": whole, "transition": mixed(whole + step.astype(np.uint64))}


def read_sketches(label: str, measures: Folder, starts: npt.NDArray[np.int64] | None = None) -> Sketches:
    """The sketches of the unit with that label; `starts` are the first rows of its trajectories, if known."""
    if starts is None:
        step = pa.Table.from_batches(read_batches(measures, f"{label}.parquet", ["step"]))["step"]
        starts = np.flatnonzero(step.combine_chunks().to_numpy(zero_copy_only=False) == 0)
    batches = read_batches(measures, measure_file(label, "sketch"))
    return Sketches.of(pa.Table.from_batches(batches, schema=SKETCH_SCHEMA), starts)
