"""Ledgers: what a generation adds to the memory of a folder, sorted by hash, so that later ones look it up by range.

A ledger is a Parquet file of a generation and kind, written once; that of a folder is those of all its generations.
Row groups end where one of 4,096 fixed ranges of the hash does, so a range is found whatever the partitions of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, read_holding, write_parquet
from trajmill.quality.sets import holds
from trajmill.schemas.manifest import FileEntry

RANGE_ROWS: Final = 1 << 16
"""Rows of a row group below which it takes the next range too."""

COPIES: Final = np.dtype([("high", "<u8"), ("low", "<u8"), ("tie", "<u8")])
"""What is kept, by its hash (high, low), with the first 64 bits of the id of its trajectory."""

NODES: Final = np.dtype([("node", "<u8"), ("group", "<u8"), ("pool", "<u8")])
"""A node of a task, instance, trajectory or environment, its group, and the number of the group's pool."""

INPUTS: Final = np.dtype(
    [("content", "<u8"), ("content_low", "<u8"), ("place", "<u8"), ("place_low", "<u8"), ("stamp", "<u8")]
)
"""The first 128 bits of the sha256 of a log's bytes, and of where they lay, and 64 of its stamp (see `recognition`)."""

ENVIRONMENTS: Final = np.dtype([("environment", "<u8")])
"""Environments of which training shows something."""

TASKS: Final = np.dtype([("task", "<u8"), ("unit", "<u8")])
"""A task, and the number of a unit of the generation that holds a rollout of it."""

BANDS: Final = np.dtype([("band", "<u8"), ("tie", "<u8"), ("node", "<u8"), ("place", "<u8")])
"""A kept trajectory in a bucket of near copies: the bucket, the first 64 bits of its id, the node of its task, and its
place: the number of its unit above 32 bits of its first row."""

DRAWN: Final = np.dtype([("value", "<u8"), ("bound", "<u8"), ("amount", "<u8")])
"""What was drawn of a value or group, by its hash and the number of a bound that counts it: tokens, or trajectories."""

REPLICATES: Final = np.dtype([("key", "<u8"), ("amount", "<u8")])
"""How many rows of the same environment, history and action bear the loss, where the recipe bounds them."""

PASSAGES: Final = np.dtype([("high", "<u8"), ("low", "<u8"), ("place", "<u8")])
"""A kept passage of another corpus, by the hash of what it says, and its place: the number of its unit above 32 bits of
its number there."""

VARIETY: Final = np.dtype([("value", "<u8"), ("kind", "<u8"), ("amount", "<u8")])
"""How often a thing (its hash) is kept, by the number of its domain and kind: see `publish.diversity`."""

KINDS: Final = {
    "trajectories": COPIES,
    "transitions": COPIES,
    "groups": NODES,
    "inputs": INPUTS,
    "environments": ENVIRONMENTS,
    "tasks": TASKS,
    "bands": BANDS,
    "drawn": DRAWN,
    "replicates": REPLICATES,
    "passages": PASSAGES,
    "variety": VARIETY,
}
"""The ledgers of a generation; the first field of each is what it is sorted by."""

_SHIFT: Final = np.uint64(52)


def ledger_name(kind: str) -> str:
    """The file of a kind in the folder of a generation's ledgers."""
    return f"{kind}.parquet"


def write_ledger(folder: Folder, kind: str, rows: npt.NDArray[np.void], name: str = "") -> FileEntry:
    """Writes the distinct rows, sorted, and returns what was written.

    Args:
        folder: of the ledgers.
        kind: of the ledger.
        rows: in any order.
        name: of the file, where a ledger has several; that of the kind by default.
    """
    distinct = np.unique(rows)
    schema = pa.schema([(field, pa.uint64()) for field in KINDS[kind].names or ()])
    return write_parquet(folder, name or ledger_name(kind), schema, _batches(distinct, schema))


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


def read_ledger(folders: Sequence[Folder], kind: str) -> npt.NDArray[np.void]:
    """The rows of all generations of a kind, in order of generation.

    Raises:
        ShardError: a ledger is missing or damaged.
    """
    parts = [np.zeros(0, KINDS[kind])]
    for folder in folders:
        parts += [_rows(batch, KINDS[kind]) for batch in read_batches(folder, ledger_name(kind))]
    return np.concatenate(parts)


def found_in(files: Iterable[tuple[Folder, str]], kind: str, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.void]:
    """The rows whose first field is one of the keys, in the order of files; what cannot hold one is not read.

    Args:
        files: of ledgers: folders and names.
        kind: of the ledgers.
        keys: each once, ascending.

    Raises:
        ShardError: a ledger is missing or damaged.
    """
    parts = [np.zeros(0, KINDS[kind])]
    field = (KINDS[kind].names or ("",))[0]

    def may_hold(least: int, most: int) -> bool:
        return bool(np.searchsorted(keys, np.uint64(least)) < np.searchsorted(keys, np.uint64(most), "right"))

    for folder, name in files if len(keys) else ():
        for batch in read_holding(folder, name, field, may_hold):
            some = batch.filter(pa.array(holds(keys, batch[field].to_numpy())))
            parts.append(_rows(some, KINDS[kind]))
    return np.concatenate(parts)


def known_in(folders: Iterable[Folder], kind: str, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.void]:
    """The same of the ledgers of a kind that has one file in each folder."""
    return found_in(((folder, ledger_name(kind)) for folder in folders), kind, keys)


def _rows(batch: pa.RecordBatch, kind: np.dtype[Any]) -> npt.NDArray[np.void]:
    rows = np.zeros(batch.num_rows, kind)
    for name in kind.names or ():
        rows[name] = batch[name].to_numpy()
    return rows
