"""Whom the trajectories of a later generation are like, written beside their verdicts: pools are given by it too."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.judge.packed_rows import LIKE, LIKENESS
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, write_parquet
from trajmill.pipelines.storage.units import finish_unit
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.manifest import Manifest

STAGE: Final = "likeness"
_SCHEMA: Final = pa.schema([("row", pa.uint32()), ("node", pa.uint64())])


def write_likeness(standing: Standing, folder: Folder) -> Manifest:
    """Writes what a unit was told: first rows of trajectories, and the tasks of those that each is like."""
    unit = standing.unit
    found = np.unique(
        np.concatenate([np.zeros(0, LIKENESS), *(np.frombuffer(data, LIKENESS) for data in standing.told(LIKE))])
    )
    columns = [pa.array(np.ascontiguousarray(found[name])) for name in _SCHEMA.names]
    entry = write_parquet(folder, unit.name, _SCHEMA, [pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)])
    return finish_unit(folder, Manifest(STAGE, unit.label, standing.judging.digest, SCHEMA_VERSION, (entry,)))


def read_likeness(folder: Folder, name: str) -> npt.NDArray[np.void]:
    """What was written of a unit, of dtype `LIKENESS`.

    Raises:
        ShardError: the file is missing or damaged.
    """
    parts = [np.zeros(0, LIKENESS)]
    for batch in read_batches(folder, name):
        some = np.zeros(batch.num_rows, LIKENESS)
        some["row"], some["node"] = batch["row"].to_numpy(), batch["node"].to_numpy()
        parts.append(some)
    return np.concatenate(parts)
