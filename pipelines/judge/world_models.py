"""Trajectories that a world model answered.

They are dropped unless the recipe allows them, and always if two world models answered one.

A unit finds its own by its rows, so nothing is shuffled. They are dropped before all decisions over the corpus, so that
simulated rows neither displace nor group real ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.judge.judging import Judging, Unit
from trajmill.pipelines.judge.packed_rows import LOSER
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table

_LEAVES: Final = ("step", "environment.kind", "environment.world_model")
_NOT_NAMED: Final = "?"
"""Name of a world model without a name, as rows of earlier versions may have it."""


def answering(environment: pa.Array) -> pa.Array:
    """Return for each value of the column `environment` the world model that answered its row; null if none did."""
    if not len(environment):
        return pa.array([], pa.string())
    kind, model = (pc.struct_field(environment, field) for field in ("kind", "world_model"))
    simulated = pc.equal(kind, "model")
    if not pc.any(simulated).as_py():
        return pa.nulls(len(environment), pa.string())
    return pc.if_else(simulated, pc.fill_null(model.cast(pa.string()), _NOT_NAMED), pa.scalar(None, pa.string()))


def simulated_rows(unit: Unit, judging: Judging) -> npt.NDArray[np.int64]:
    """Return the numbers of a unit's rows that a world model answered, ascending."""
    return _find_simulated(judging.transitions, unit.name, unit.sha256)[0]


def refused_trajectories(unit: Unit, judging: Judging) -> npt.NDArray[np.void]:
    """Find the trajectories of a unit that may not be kept, of dtype `LOSER`.

    The records hold their first rows and the number of world models that answered each.
    """
    _, lost = _find_simulated(judging.transitions, unit.name, unit.sha256)
    return lost[lost["kept"] > 1] if judging.recipe.judge.simulated == "allow" else lost


def why_refused(models: int) -> str:
    """Explain to a person why a trajectory that this many world models answered is not kept."""
    if models > 1:
        return f"{models} world models answered it, and no component may hold more than one"
    return "a world model answered it, and the recipe does not say judge.simulated: allow"


@lru_cache(1 << 14)
def _find_simulated(transitions: Folder, name: str, _sha256: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
    """Return the rows that a world model answered, and a `LOSER` for each of their trajectories.

    Most files have none.
    """
    table = read_table(transitions, name, _LEAVES)
    names = answering(table["environment"].combine_chunks())
    rows = np.flatnonzero(names.is_valid())
    starts = np.flatnonzero(table["step"].to_numpy() == 0)
    trajectory = np.searchsorted(starts, rows, "right") - 1
    pairs = sorted(set(zip(trajectory.tolist(), names.take(pa.array(rows)).to_pylist(), strict=True)))
    trajectories, counts = np.unique(np.array([number for number, _ in pairs], np.int64), return_counts=True)
    lost = np.zeros(len(trajectories), LOSER)
    lost["row"], lost["kept"] = starts[trajectories], counts
    return rows, lost
