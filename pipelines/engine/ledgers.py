"""Ledgers: what a generation adds to the memory of a folder, sorted by hash, so that later ones look it up by range.

A ledger is a Parquet file of a generation and kind, written once; that of a folder is those of all its generations.
Row groups end where one of 4,096 fixed ranges of the hash does, so a range is found whatever the partitions of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.engine.parquet import read_range, write_parquet
from pipelines.engine.storage import Folder
from schemas.manifest import FileEntry

RANGES: Final = 4096
RANGE_ROWS: Final = 1 << 16
"""Rows of a row group below which it takes the next range too."""

COPIES: Final = np.dtype([("high", "<u8"), ("low", "<u8"), ("tie", "<u8")])
"""What is kept, by its hash (high, low), with the first 64 bits of the id of its trajectory."""

NODES: Final = np.dtype([("node", "<u8"), ("group", "<u8"), ("pool", "<u8")])
"""A node of a task, instance, trajectory or environment, its group, and the number of the group's pool."""

INPUTS: Final = np.dtype([("content", "<u8"), ("content_low", "<u8"), ("place", "<u8"), ("place_low", "<u8")])
"""The first 128 bits of the sha256 of a log's bytes, and of where they lay."""

ENVIRONMENTS: Final = np.dtype([("environment", "<u8")])
"""Environments of which training shows something."""

KINDS: Final = {
    "trajectories": COPIES,
    "transitions": COPIES,
    "groups": NODES,
    "inputs": INPUTS,
    "environments": ENVIRONMENTS,
}
"""The ledgers of a generation; the first field of each is what it is sorted by."""

_SHIFT: Final = np.uint64(52)


def ledger_name(kind: str) -> str:
    """The file of a kind in the folder of a generation's ledgers."""
    return f"{kind}.parquet"


def write_ledger(folder: Folder, kind: str, rows: npt.NDArray[np.void]) -> FileEntry:
    """Writes the distinct rows, sorted, and returns what was written."""
    distinct = np.unique(rows)
    schema = pa.schema([(name, pa.uint64()) for name in KINDS[kind].names or ()])
    return write_parquet(folder, ledger_name(kind), schema, _batches(distinct, schema))


def _batches(rows: npt.NDArray[np.void], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows cut between ranges, of at least `RANGE_ROWS` rows but for the last."""
    of = rows[schema.names[0]] >> _SHIFT
    ends = [*(np.flatnonzero(np.diff(of)) + 1).tolist(), len(rows)]
    begin = 0
    for end in ends:
        if end > begin and (end - begin >= RANGE_ROWS or end == len(rows)):
            part = rows[begin:end]
            yield pa.RecordBatch.from_arrays(
                [pa.array(np.ascontiguousarray(part[name])) for name in schema.names], schema=schema
            )
            begin = end


def read_ledger(
    folders: Sequence[Folder], kind: str, first: int = 0, last: int = (1 << 64) - 1
) -> npt.NDArray[np.void]:
    """The rows of all generations of a kind whose first field is within `first` and `last`, in order of generation.

    Raises:
        ShardError: a ledger is missing or damaged.
    """
    parts = [np.zeros(0, KINDS[kind])]
    name = (KINDS[kind].names or ("",))[0]
    for folder in folders:
        batches = read_range(folder, ledger_name(kind), name, first, last)
        parts += [_rows(batch, KINDS[kind]) for batch in batches]
    found = np.concatenate(parts)
    key = found[name]
    return found[(key >= np.uint64(first)) & (key <= np.uint64(last))]


def _rows(batch: pa.RecordBatch, kind: np.dtype[Any]) -> npt.NDArray[np.void]:
    rows = np.zeros(batch.num_rows, kind)
    for name in kind.names or ():
        rows[name] = batch[name].to_numpy()
    return rows
