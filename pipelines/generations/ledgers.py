"""The tables that stand beside a generation: which group and pool nodes have, and which logs were read.

A table is a Parquet file of a generation, written once; that of a folder is those of all its generations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, write_parquet
from trajmill.quality.sets import holds
from trajmill.schemas.manifest import FileEntry

PLACES: Final = np.dtype([("node", "<u8"), ("group", "<u8"), ("pool", "<u8")])
"""A node of a task, instance, trajectory, environment, log or document, its group, and the number of its pool."""

INPUTS: Final = np.dtype(
    [("content", "<u8"), ("content_low", "<u8"), ("place", "<u8"), ("place_low", "<u8"), ("stamp", "<u8")]
)
"""The first 128 bits of the digest of a log's bytes, and of where they lay, and 64 of its stamp (see `recognition`)."""

KINDS: Final = {"places": PLACES, "inputs": INPUTS}

_ROWS: Final = 1 << 20


def ledger_name(kind: str) -> str:
    """The file of a kind in the folder of a generation's ledgers."""
    return f"{kind}.parquet"


def write_ledger(folder: Folder, kind: str, rows: npt.NDArray[np.void]) -> FileEntry:
    """Write the distinct rows, sorted, and return what was written."""
    distinct = np.unique(rows)
    schema = pa.schema([(field, pa.uint64()) for field in KINDS[kind].names or ()])

    def batches() -> Iterator[pa.RecordBatch]:
        for begin in range(0, len(distinct), _ROWS):
            part = distinct[begin : begin + _ROWS]
            columns = [pa.array(np.ascontiguousarray(part[name])) for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return write_parquet(folder, ledger_name(kind), schema, batches())


def read_ledger(
    folders: Sequence[Folder], kind: str, keys: npt.NDArray[np.uint64] | None = None
) -> npt.NDArray[np.void]:
    """The rows of a kind, in order of generation.

    Args:
        folders: of the ledgers.
        kind: of them.
        keys: each once, ascending: only rows are read whose first field is one of these; None reads all.

    Raises:
        ShardError: a ledger is missing or damaged.
    """
    parts = [np.zeros(0, KINDS[kind])]
    for folder in folders:
        for batch in read_batches(folder, ledger_name(kind)):
            some = batch if keys is None else batch.filter(pa.array(holds(keys, batch.column(0).to_numpy())))
            parts.append(_rows(some, KINDS[kind]))
    return np.concatenate(parts)


def _rows(batch: pa.RecordBatch, kind: np.dtype[Any]) -> npt.NDArray[np.void]:
    rows = np.zeros(batch.num_rows, kind)
    for name in kind.names or ():
        rows[name] = batch[name].to_numpy()
    return rows
