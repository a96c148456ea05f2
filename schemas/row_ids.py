"""The key of a row: `row_id`, unique where (trajectory_id, step) is not, because exact copies share an id.

It hangs on the row, and on how many copies of its trajectory stood before it in the same input and domain, on nothing
else: neither on parts, batches and workers nor on what other inputs hold. So it is the same whenever the same inputs
are read again, and can be derived for files that lack it, in the order of their rows. Of a large file of rows, each
slice is an input, of which the id tells where it begins.
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
"""The columns that a row's id is made of."""


class RowIds:
    """Ids of rows that come batch by batch, in the order in which they stand in a file.

    An id is `<trajectory_id>-<copy>-<step>`: copy is 16 hex digits of blake2b over (domain, provenance.uri, how many
    trajectories with this id stood before in that input and domain). All rows of an input follow each other.

    Args:
        begin: of the slice that all rows are of; it stands behind the uri. 0 for inputs that are read from the first.
    """

    def __init__(self, begin: int = 0) -> None:
        self._begin = f"\n{begin}" if begin else ""
        self._input = ("", "")
        self._seen: Counter[str] = Counter()

    def of(self, rows: pa.RecordBatch | pa.Table | Mapping[str, pa.Array]) -> pa.StringArray:
        """Return the ids of the rows that follow those given before, which may go on with a trajectory of theirs.

        Args:
            rows: at least the columns `OF`; text plain or dictionary-encoded.
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
        """The copy of a trajectory that begins, or that goes on."""
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
