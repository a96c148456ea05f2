"""Equal trajectories, of which one is kept, and equal transitions, of which one keeps its loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.judge.judging import Judging, Unit
from pipelines.judge.measures import Measures, kept_rows, read_measures, targets_so_far
from pipelines.judge.packed_rows import LOSER, identities, losers_of, partitioned
from quality.duplicate import KEY, losers
from quality.fingerprint import as_lanes


def _keys(
    unit: Unit, measures: Measures, rows: npt.NDArray[np.int64], hashed: str, whole: bool
) -> npt.NDArray[np.void]:
    """Keys of the given rows by the hash column named; for trajectories, of their first rows."""
    taken = measures.table.take(pa.array(rows))
    lanes = as_lanes(taken[hashed].combine_chunks())
    keys = np.zeros(len(rows), KEY)
    keys["high"], keys["low"] = lanes[:, 0], lanes[:, 1]
    keys["rank"] = measures.column("rank")[rows] if whole else measures.column("step")[rows]
    keys["tie"], keys["place"] = identities(taken["trajectory_id"].to_pylist()), measures.column("place")[rows]
    keys["unit"], keys["row"] = unit.number, rows
    return keys


def trajectory_keys(unit: Unit, judging: Judging, lost: Iterable[bytes] = ()) -> Iterator[tuple[int, bytes]]:
    """Packed keys of the trajectories that no rule drops and that are not lost yet, by partition."""
    measures = read_measures(unit, judging)
    kept = measures.starts[kept_rows(measures, losers_of(lost))[measures.starts]]
    if judging.recipe.judge.drop_duplicate_trajectories:
        yield from partitioned(_keys(unit, measures, kept, "trajectory_hash", True), "high")


def transition_keys(unit: Unit, judging: Judging, lost: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Packed keys of the transitions that are targets in trajectories that are kept so far, by partition."""
    if not judging.recipe.judge.mask_duplicate_transitions:
        return
    measures = read_measures(unit, judging)
    rows = np.flatnonzero(targets_so_far(measures, losers_of(lost)))
    yield from partitioned(_keys(unit, measures, rows, "transition_hash", False), "high")


def losers_by_unit(packed: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Which rows of which unit lose against an equal one: (unit, packed rows with the survivor's id)."""
    keys = np.concatenate([np.frombuffer(data, KEY) for data in packed])
    lost, kept = losers(keys)
    rows = np.zeros(len(lost), LOSER)
    rows["row"], rows["kept"] = lost["row"], kept["tie"]
    for unit in np.unique(lost["unit"]):
        yield int(unit), rows[lost["unit"] == unit].tobytes()
