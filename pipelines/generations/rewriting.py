"""Taking rows out of the files of a stage: what is left keeps its order, its row groups and its schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajmill.pipelines.judge.measure_files import costs_name, sketch_name
from trajmill.pipelines.render.costs import COST_HASHES
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import ParquetSink, rows_of
from trajmill.quality.sketch import HASHED
from trajmill.schemas.manifest import FileEntry

Flags = npt.NDArray[np.bool_]
Change = Callable[[pa.Table, int], pa.Table]
"""A row group and the number of its first row → what is left of it."""


def rewritten(folder: Folder, name: str, change: Change, *, shard: bool = False) -> FileEntry:
    """A Parquet file with each of its row groups changed, in its place.

    Raises:
        ShardError: it cannot be written.
    """
    with folder.open(name) as stream:
        reader = pq.ParquetFile(stream)
        schema = reader.schema_arrow
        hashed = HASHED if name.endswith(sketch_name("")) else COST_HASHES if name.endswith(costs_name("")) else ()
        sink = ParquetSink(folder, name, schema, shard=shard, hashed=hashed)
        first = 0
        try:
            for group in range(reader.num_row_groups):
                table = reader.read_row_group(group, use_threads=False)
                left = change(table, first).cast(schema).combine_chunks()
                for batch in left.to_batches():
                    sink.write(batch)
                first += table.num_rows
        except BaseException:
            sink.abandon()
            raise
    return sink.close()


def of_rows(kept: Flags) -> Change:
    """Leaves the rows that are kept, of a file that has one row for each."""
    return lambda table, first: table.filter(pa.array(kept[first : first + table.num_rows]))


def of_places(kept: Flags, column: str) -> Change:
    """Leaves what names a row that is kept, by its new number."""
    moved = np.cumsum(kept) - 1

    def change(table: pa.Table, _: int) -> pa.Table:
        rows = table[column].to_numpy().astype(np.int64)
        left = table.filter(pa.array(kept[rows]))
        place = left.schema.get_field_index(column)
        field = left.schema.field(place)
        return left.set_column(place, field, pa.array(moved[rows[kept[rows]]], field.type))

    return change


def of_ids(ids: Collection[str]) -> Change:
    """Leaves what is of no trajectory of these, wherever a row names its trajectory."""
    gone = pa.array(sorted(ids), pa.string())

    def change(table: pa.Table, _: int) -> pa.Table:
        names = ids_of(table)
        return table.filter(pc.invert(pc.is_in(names, value_set=gone)))

    return change


def ids_of(table: pa.Table) -> pa.ChunkedArray:
    """The trajectory of each row."""
    if "trajectory_id" in table.schema.names:
        return table["trajectory_id"].cast(pa.string())
    return pc.struct_field(table["extra_info"], "trajectory_id").cast(pa.string())


def without_lines(data: bytes, ids: Collection[str]) -> tuple[bytes, int]:
    """The lines of a JSONL file that are of no trajectory of these, and how many are gone."""
    lines = data.splitlines(keepends=True)
    left = [line for line in lines if json.loads(line)["trajectory_id"] not in ids]
    return b"".join(left), len(lines) - len(left)


def is_whole(folder: Folder, name: str, kept: Flags) -> bool:
    """Whether an aligned file still has all rows; if not, they were taken out before a kill."""
    return rows_of(folder, name) == len(kept)
