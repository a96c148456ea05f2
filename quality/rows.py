"""Rows of several batches as one batch, and a few rows of a large batch without the texts of all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_LARGE: Final = 1 << 20
"""Bytes from which on a dictionary is looked at."""


def join_rows(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join the rows of at least one batch of one schema, in order; dictionaries are unified."""
    return pa.Table.from_batches(batches).combine_chunks().unify_dictionaries().to_batches()[0]


def rows_alone(batch: pa.RecordBatch, first: int, end: int) -> pa.RecordBatch:
    """Return a copy of the rows from `first` to before `end`, at least one, that does not keep the batch's memory
    alive.
    """
    taken = batch.take(pa.array(np.arange(first, end)))
    return pa.RecordBatch.from_arrays([_alone(column) for column in taken.columns], schema=batch.schema)


def without_unused(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with smaller dictionaries in place of those of which no row uses the larger part."""
    return pa.RecordBatch.from_arrays([_alone(column, _LARGE, 0.5) for column in batch.columns], schema=batch.schema)


def _alone(column: pa.Array, least: int = 0, most_used: float = 1.0) -> pa.Array:
    """Return the column with dictionaries of used values alone.

    Args:
        least: bytes of the smallest dictionary that is replaced.
        most_used: largest share of used values with which a dictionary is replaced.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        children = [_alone(column.field(number), least, most_used) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind.fields), mask=column.is_null())
    if not pa.types.is_dictionary(kind) or column.dictionary.nbytes < least:
        return column
    used, index = np.unique(pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False), return_inverse=True)
    if len(used) - 1 > len(column.dictionary) * most_used:
        return column
    if absent := int(used[0] < 0):
        used, index = used[1:], index - absent
    indices = pa.array(index.astype(np.int32), mask=index < 0)
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.take(pa.array(used)))
