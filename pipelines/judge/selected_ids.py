"""Trajectories that a recipe includes or excludes by id.

Each unit selects its own, so nothing is shuffled. The selection comes before all decisions over the corpus, so no
trajectory is dropped as a copy of an excluded one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.judge.judging import Measures, units_in
from trajmill.pipelines.judge.packed_rows import LOSER
from trajmill.pipelines.recipe.judgement import Judge
from trajmill.pipelines.recipe.trajectory_ids import read_ids
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table

_SHOWN: Final = 3
"""Largest number of unknown ids that a warning names."""


def excluded_trajectories(rules: Judge, measures: Measures) -> npt.NDArray[np.void]:
    """Find the trajectories of a unit that are excluded, or not included, of dtype `LOSER`."""
    ids = measures.table["trajectory_id"].take(pa.array(measures.starts))
    gone = np.zeros(len(ids), np.bool_)
    if rules.include is not None:
        gone |= ~_among(ids, read_ids(rules.include))
    if rules.exclude is not None:
        gone |= _among(ids, read_ids(rules.exclude))
    losers = np.zeros(int(gone.sum()), LOSER)
    losers["row"] = measures.starts[gone]
    return losers


def _among(ids: pa.ChunkedArray, wanted: frozenset[str]) -> npt.NDArray[np.bool_]:
    return pc.is_in(ids, value_set=pa.array(sorted(wanted), pa.string())).to_numpy(zero_copy_only=False)


def unknown_ids(rules: Judge, stages: Sequence[Folder]) -> Iterator[str]:
    """Yield a warning for each file of ids that names trajectories which are not in these runs."""
    for key, path in rules.selections().items():
        unknown = set(read_ids(path))
        for folder in stages:
            for unit in units_in(folder):
                ids = read_table(folder / "verdicts", unit.name, ["trajectory_id"])["trajectory_id"]
                unknown.difference_update(pc.unique(ids).to_pylist())
        if unknown:
            shown, more = sorted(unknown)[:_SHOWN], len(unknown) - _SHOWN
            named = ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
            yield f"{key}: {len(unknown):,} ids are of no trajectory here: {named}"
