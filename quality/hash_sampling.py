"""Choices by hash among similar rows. They depend on the row alone, never on order, parts or a clock."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.quality.fingerprint import combine_hashes, mixed, text_hashes

_ODD = np.uint64(0x9E3779B97F4A7C15)


def chances(trajectory_id: pa.Array, step: npt.NDArray[np.int32], purpose: str) -> npt.NDArray[np.uint64]:
    """Return a uniformly distributed 64-bit number a row, a hash of (trajectory, step).

    Args:
        trajectory_id: Text column of trajectory ids.
        step: Step of each row.
        purpose: Name of the choice; choices for different purposes are independent.
    """
    purpose_hash = np.broadcast_to(text_hashes(pa.array([purpose])), (len(step), 2))
    if not pa.types.is_dictionary(trajectory_id.type):
        trajectory_id = trajectory_id.dictionary_encode()
    lanes = combine_hashes([purpose_hash, text_hashes(trajectory_id)])[:, 0]
    return mixed(lanes + (step.astype(np.uint64) + np.uint64(1)) * _ODD)
