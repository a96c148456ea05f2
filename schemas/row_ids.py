"""The key of a row: `row_id`, which is unique where (trajectory_id, step) is not, since exact copies share an id.

It depends only on the row and on the number of copies of its trajectory before it in the same input and domain; parts,
batches, workers and other inputs have no influence. So it is the same whenever the same inputs are read again, and
files that lack it can derive it from the order of their rows. Each slice of a large file of rows is an input of its
own, with its first row in the id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

KEY: Final = "row_id"
OF: Final = ("trajectory_id", "step", "domain", "provenance")
"""Columns from which a row's id is made."""


class RowIds:
    """Generator of row ids for rows that arrive batch by batch, in the order of their file.

    An id is `<trajectory_id>-<copy>-<step>`: copy is 16 hex digits of blake2b over (domain, provenance.uri, number of
    earlier trajectories with this id in that input and domain). The rows of an input must be contiguous.

    Args:
        begin: Beginning of the slice that holds all rows, which is hashed after the uri; 0 for inputs that are read
            from the first row.
    """

    def __init__(self, begin: int = 0) -> None:
        self._begin = f"\n{begin}" if begin else ""
        self._input = ("", "")
        self._seen: Counter[str] = Counter()

    def of(self, rows: pa.RecordBatch | pa.Table | Mapping[str, pa.Array]) -> pa.StringArray:
        """Return the ids of the next rows, which may continue a trajectory of the previous batch.

        Args:
            rows: Rows with at least the columns `OF`; text plain or dictionary-encoded.
        """
        key, step, domain, uri = _columns(rows)
        if not len(step):
            return pa.array([], pa.string())
        starts = pc.indices_nonzero(pc.equal(step, 0))
        if step[0].as_py() > 0:
            starts = pa.concat_arrays([pa.array([0], starts.type), starts])
        begun = zip(
            *(column.take(starts).to_pylist() for column in (key, domain, uri)),
            pc.equal(step.take(starts), 0).to_pylist(),
            strict=True,
        )
        copies = pa.array(
            [
                f"{trajectory_id}-{self._copy(trajectory_id, (world, uri_of), begins)}"
                for trajectory_id, world, uri_of, begins in begun
            ]
        )
        ends = [*starts.to_pylist()[1:], len(step)]
        spread = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), copies))
        return pc.binary_join_element_wise(spread, step.cast(pa.string()), "-")

    def _copy(self, key: str, where: tuple[str, str], begins: bool) -> str:
        """Return the copy digits of a trajectory that begins, or that continues."""
        if where != self._input:
            self._input = where
            self._seen.clear()
        self._seen[key] += begins
        domain, uri = where
        before = max(self._seen[key] - 1, 0)
        return blake2b(f"{domain}\n{uri}{self._begin}\n{before}".encode(), digest_size=8).hexdigest()


def _columns(rows: pa.RecordBatch | pa.Table | Mapping[str, pa.Array]) -> list[pa.Array]:
    key, step, domain, provenance = (_combine_chunks(rows[name]) for name in OF)
    return [key, step, domain, pc.struct_field(provenance, "uri")]


def _combine_chunks(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
