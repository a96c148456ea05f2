"""Rows of several batches as one batch, and a few rows of a large batch without the texts of all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def join_rows(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join the rows of at least one batch of one schema, in order; dictionaries are unified."""
    return pa.Table.from_batches(batches).combine_chunks().unify_dictionaries().to_batches()[0]


def rows_alone(batch: pa.RecordBatch, first: int, end: int) -> pa.RecordBatch:
    """Return a copy of the rows from `first` to before `end`, at least one, that does not keep the batch's memory
    alive.
    """
    taken = batch.take(pa.array(np.arange(first, end)))
    return pa.RecordBatch.from_arrays([_alone(column) for column in taken.columns], schema=batch.schema)


def _alone(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_struct(kind):
        children = [_alone(column.field(field_number)) for field_number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind.fields), mask=column.is_null())
    if not pa.types.is_dictionary(kind):
        return column
    used, index = np.unique(pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False), return_inverse=True)
    if absent := int(used[0] < 0):
        used, index = used[1:], index - absent
    indices = pa.array(index.astype(np.int32), mask=index < 0)
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.take(pa.array(used)))
