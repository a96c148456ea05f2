"""Caps on shares: no task, environment, place or command makes up more than a given share of the kept rows.

A hash of (trajectory, step) decides which rows or trajectories a value loses, so the position in a file has no
influence. The bounds interact: a dropped trajectory takes its rows with it, and a trajectory whose rows all lose their
loss is dropped too. So the bounds are applied repeatedly until all of them hold.

A bound is a share of the rows that have a value: rows without a place count in no share of places.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

import numpy as np
import numpy.typing as npt

from trajmill.quality.fingerprint import mixed
from trajmill.quality.variety import OF_TRAJECTORIES
from trajmill.schemas import ConfigError

BOUNDED: Final = ("task", "environment", "place", "command_head")
"""Kinds of `quality.variety` that may be bounded, in the order of their application."""

RECORD: Final = np.dtype(
    [
        ("chance", "<u8"), ("tie", "<u8"), ("origin", "<u8"),
        *((kind, "<u8") for kind in BOUNDED),
        ("unit", "<u4"), ("first", "<u4"), ("row", "<u4"),
    ]
)  # fmt: skip
"""Row with loss: a uniform random number, the id and the provenance of its trajectory, the value of each bounded kind
(0: unknown), and its position: the unit, the trajectory's first row in it, and the row.
"""

Records = npt.NDArray[np.void]


def limit(counts: npt.NDArray[np.int64], share: float) -> int:
    """Return the largest number of each value that may stay so that no value exceeds `share` of all that stay.

    The result is 0 if there are fewer than 1 / share values.

    Args:
        counts: Count of each value, 1 or more.
        share: Largest share, above 0, up to 1.
    """
    low, high = 0, int(counts.max(initial=0))
    while low < high:  # what stays grows slower than the limit, so that all limits up to the largest hold
        middle = (low + high + 1) // 2
        if middle <= share * int(np.minimum(counts, middle).sum()) + 1e-9:
            low = middle
        else:
            high = middle - 1
    return low


def _beyond(items: Records, kind: str, share: float, domain: str) -> npt.NDArray[np.int64]:
    """Return the positions of the items beyond the limit of their value."""
    known = np.flatnonzero(items[kind])
    values, value_number, counts = np.unique(items[kind][known], return_inverse=True, return_counts=True)
    most = limit(counts, share)
    if not most and len(values):
        raise ConfigError(
            f"judge.max_share.{kind}: {share:g} of what is kept of domain {domain} cannot be the most where only "
            f"{len(values)} different ones are left; {ceil(1 / share - 1e-9)} or more are needed. Allow a larger share."
        )
    some = items[known]
    order = np.lexsort([some["row"], some["unit"], some["origin"], some["tie"], some["chance"], value_number])
    begins = np.repeat(np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) if len(counts) else counts
    rank = np.arange(len(order)) - begins
    late: npt.NDArray[np.int64] = known[order[rank >= most]]
    return late


def _trajectories(rows: Records) -> tuple[Records, npt.NDArray[np.int64]]:
    """Return the trajectories that have a row, each as a record with its own chance, and the number of each row's
    trajectory.
    """
    key = rows["unit"].astype(np.uint64) << np.uint64(32) | rows["first"].astype(np.uint64)
    _, first, trajectory_of_row = np.unique(key, return_index=True, return_inverse=True)
    records = rows[first].copy()
    records["chance"] = mixed(records["tie"])
    records["row"] = records["first"]
    return records, trajectory_of_row


def beyond(rows: Records, shares: Mapping[str, float], domain: str) -> dict[str, Records]:
    """Return the records to drop so that all bounds hold, by kind: a record for each row, or for each trajectory with
    `row` its first.

    The result is the same for any order of `rows`.

    Args:
        rows: Rows of dtype `RECORD`, all rows with loss of a domain; if only tasks and environments are bounded, one of
            each trajectory is enough.
        shares: Largest share of each kind, above 0, up to 1.
        domain: Domain, named in the error.

    Raises:
        ConfigError: A bound cannot hold, since there are too few different values.
    """
    lost: dict[str, list[Records]] = {kind: [rows[:0]] for kind in BOUNDED if kind in shares}
    left = rows
    while True:
        before = len(left)
        for kind, gone in lost.items():
            whole = kind in OF_TRAJECTORIES
            items, item_of_row = _trajectories(left) if whole else (left, np.arange(len(left)))
            late = _beyond(items, kind, shares[kind], domain)
            if len(late):
                gone.append(items[late])
                left = left[~np.isin(item_of_row, late)]
        if len(left) == before:
            return {kind: np.concatenate(records) for kind, records in lost.items()}
