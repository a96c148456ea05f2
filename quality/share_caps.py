"""Shares: no task, environment, place or command makes up more than a given share of what is kept.

Which of its rows or trajectories a value loses is decided by a hash of (trajectory, step), so that nothing is told
apart by its place in a file. Bounds hold together: a trajectory that goes takes its rows with it, and one whose rows
all lose their loss goes too, so bounds are applied again until all of them hold.

A bound is a share of what has a value at all: rows without a place count in no share of places.
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
"""The kinds of `quality.variety` that may be bounded, in the order in which they are."""

RECORD: Final = np.dtype(
    [
        ("chance", "<u8"), ("tie", "<u8"), ("origin", "<u8"),
        *((kind, "<u8") for kind in BOUNDED),
        ("unit", "<u4"), ("first", "<u4"), ("row", "<u4"),
    ]
)  # fmt: skip
"""A row that bears the loss: a number as if drawn evenly, the id and the provenance of its trajectory, what it is about
(0: not known), and where it stands: the unit, the trajectory's first row in it, and the row."""

Records = npt.NDArray[np.void]


def limit(counts: npt.NDArray[np.int64], share: float) -> int:
    """Find the largest number of each value that may stay so that none is more than `share` of all that stay.

    0 if there is none, because there are fewer values than 1 / share.

    Args:
        counts: of each value, 1 or more.
        share: above 0, up to 1.
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
    """Return positions of the items that their value has too many of."""
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
    """Return the trajectories that have a row, each as a record of its own chance, and of each row the number of its
    own.
    """
    key = rows["unit"].astype(np.uint64) << np.uint64(32) | rows["first"].astype(np.uint64)
    _, first, trajectory_of_row = np.unique(key, return_index=True, return_inverse=True)
    records = rows[first].copy()
    records["chance"] = mixed(records["tie"])
    records["row"] = records["first"]
    return records, trajectory_of_row


def beyond(rows: Records, shares: Mapping[str, float], domain: str) -> dict[str, Records]:
    """Find what goes so that all bounds hold, by kind: a record for each row, or for each trajectory with `row` its
    first.

    The same for any order of `rows`.

    Args:
        rows: of dtype `RECORD`, all of a domain that bear the loss; where only tasks and environments are bounded, one
            of each trajectory is enough.
        shares: the bound of each kind, above 0, up to 1.
        domain: named in the error.

    Raises:
        ConfigError: a bound cannot hold, for want of different values.
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
