"""Hashes of texts, transitions and trajectories: 128 bits, stable over versions and machines, computed by column.

Each distinct text is hashed once (xxh3, 128 bits); rows and trajectories combine those numbers with vectorized integer
mixing. Equal content gives equal hashes in any batch, part or order. The hashes are not cryptographic: they suit the
search for duplicates among records that nobody crafted to collide.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

Lanes: TypeAlias = npt.NDArray[np.uint64]
"""Two 64-bit lanes a row, shape (rows, 2)."""

_MULTIPLY: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
_FIRST: Final = np.uint64(0xFF51AFD7ED558CCD)
_SECOND: Final = np.uint64(0xC4CEB9FE1A85EC53)
_ABSENT: Final = np.array([[0x27D4EB2F165667C5, 0x85EBCA77C2B2AE63]], np.uint64)
_SHIFT: Final = np.uint64(33)

TRANSITION_TEXTS: Final = (
    ("observation", "content"),
    ("action", "text"),
    ("next_observation", "content"),
)
"""Texts that identical transitions share: those that samples show of them.

Ids, times and places are left out. So are the name and the arguments of an action, which describe the act of its text
in a log's own terms, such as the point of a click on a button or a selector.
"""


def mixed(lanes: Lanes) -> Lanes:
    """Spread every bit of each lane over the whole lane (the finalizer of MurmurHash3)."""
    lanes = (lanes ^ (lanes >> _SHIFT)) * _FIRST
    lanes = (lanes ^ (lanes >> _SHIFT)) * _SECOND
    return lanes ^ (lanes >> _SHIFT)


def combine_hashes(parts: Sequence[Lanes]) -> Lanes:
    """Combine the parts in their order to one hash a row; all parts have the same number of rows."""
    result = np.zeros_like(parts[0])
    for part in parts:
        result = mixed((result + np.uint64(1)) * _MULTIPLY ^ part)
    return result


def _hash_texts(texts: pa.Array) -> Lanes:
    """Hash plain texts; null has a hash of its own."""
    _, offsets, values = texts.cast(pa.binary()).buffers()
    data = memoryview(values if values is not None else b"")
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].tolist()
    digests = b"".join([xxhash.xxh3_128_digest(data[begin:end]) for begin, end in pairwise(ends)])
    lanes = np.frombuffer(digests, np.uint64).reshape(-1, 2)
    if texts.null_count:
        lanes = np.where(texts.is_null().to_numpy(zero_copy_only=False)[:, None], _ABSENT, lanes)
    return lanes


def text_hashes(column: pa.Array) -> Lanes:
    """Return 128-bit hashes of a text column. Each distinct text of a dictionary-encoded column is hashed once."""
    if column.null_count == len(column):
        return np.repeat(_ABSENT, len(column), axis=0)
    if not pa.types.is_dictionary(column.type):
        return _hash_texts(column)
    if len(column.dictionary) > 2 * len(column):  # of a few rows of a batch
        return _hash_texts(column.cast(pa.string()))
    known = np.concatenate([_hash_texts(column.dictionary), _ABSENT])
    missing = len(known) - 1
    return known[pc.fill_null(column.indices, missing).to_numpy(zero_copy_only=False)]


def struct_text(batch: pa.RecordBatch, struct: str, name: str) -> pa.Array:
    """Return the text column `struct.name` of a batch, null where the struct is null."""
    return pc.struct_field(batch[struct], name)


def transition_hashes(batch: pa.RecordBatch) -> Lanes:
    """Return one hash a row of (observation, action, next_observation) and the domain."""
    parts = [text_hashes(struct_text(batch, *path)) for path in TRANSITION_TEXTS]
    return combine_hashes([text_hashes(batch["domain"]), *parts])


def trajectory_starts(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the rows at which trajectories begin, and the first row, since a batch may continue a trajectory."""
    begins = batch["step"].to_numpy() == 0
    begins[:1] = True
    return np.flatnonzero(begins)


def trajectory_sums(rows: Lanes, starts: npt.NDArray[np.int64], step: npt.NDArray[np.int32]) -> Lanes:
    """Sum the hashes of the transitions of each trajectory: shape (len(starts), 2).

    The sum of a trajectory in several batches is the sum over the batches.
    """
    placed = mixed(rows + (step.astype(np.uint64)[:, None] + np.uint64(1)) * _MULTIPLY)
    return np.add.reduceat(placed, starts, axis=0) if len(starts) else placed[:0]


def trajectory_hashes(rows: Lanes, starts: npt.NDArray[np.int64], step: npt.NDArray[np.int32]) -> Lanes:
    """Return one hash a trajectory from those of its transitions in order: shape (len(starts), 2)."""
    return mixed(trajectory_sums(rows, starts, step))


def as_bytes(lanes: Lanes) -> pa.Array:
    """Return the hashes as fixed 16-byte values, the first lane's least significant byte first."""
    data = np.ascontiguousarray(lanes.astype("<u8"))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(lanes), [None, pa.py_buffer(data)])


def as_lanes(column: pa.Array) -> Lanes:
    """Return the hashes that `as_bytes` encoded."""
    data = column.buffers()[1]
    lanes = np.frombuffer(data, "<u8", 2 * len(column), 16 * column.offset)
    return lanes.reshape(-1, 2).astype(np.uint64)
