"""Approximate memory of the rows of a batch as Python values: texts by their bytes, other values by their number."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_VALUE: Final = 64
_STRUCT: Final = 256
_VALUES: Final = 64 << 20
"""Number of values of an array above which its rows are not read."""

Weights = np.ndarray[Any, np.dtype[np.int64]]


def row_weights(batch: pa.RecordBatch) -> Weights:
    """Return the bytes that each row takes.

    Raises:
        ValueError: a column holds too many values, or its type allows overlapping values.
    """
    total = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        total += _weights(column)
    return total


def _weights(values: Any) -> Weights:
    kind = values.type
    if len(values) > _VALUES:
        raise ValueError(f"{len(values)} values, of which {_VALUES} are read at most at once")
    if pa.types.is_dictionary(kind):
        longest = _weights(values.dictionary)
        return longest[values.indices.fill_null(0).to_numpy(zero_copy_only=False)] if len(longest) else _even(values)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(values.buffers()[1], "<i4").reshape(-1, 4)
        return views[values.offset : values.offset + len(values), 0].astype(np.int64) + _VALUE
    if _is_text(kind):
        return pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) + _VALUE
    if pa.types.is_struct(kind):
        return sum((_weights(field) for field in values.flatten()), np.full(len(values), _STRUCT, np.int64))
    if pa.types.is_map(kind):
        values = values.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    if pa.types.is_map(kind) or _is_list(kind):
        counts = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        ends = np.cumsum(counts)
        sums = np.concatenate([[0], np.cumsum(_weights(values.flatten()))])
        return sums[ends] - sums[ends - counts] + _VALUE
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind) or pa.types.is_run_end_encoded(kind):
        raise ValueError(f"a column of type {kind}, whose values may overlap")
    if isinstance(values, pa.ExtensionArray):
        return _weights(values.storage)
    return _even(values)


def _even(values: Any) -> Weights:
    return np.full(len(values), _VALUE, np.int64)


def _is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary,
                                       pa.types.is_large_binary, pa.types.is_fixed_size_binary))  # fmt: skip


def _is_list(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))
