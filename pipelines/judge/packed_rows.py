"""Rows of units as packed records, on their way between units: nothing else of a corpus is shuffled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

LOSER: Final = np.dtype([("row", "<u4"), ("kept", "<u8")])
"""A row that loses against another, and the first 64 bits of the id of the trajectory that is kept."""

SIMILAR: Final = "similar"
"""Name of the answer on likeness: packed pairs of nodes of a unit's trajectories and of others, one group each."""

LIKE: Final = "like"
"""Name of the answer that units of a later generation hear: first rows of trajectories, and tasks that each is like."""

LIKENESS: Final = np.dtype([("row", "<u4"), ("node", "<u8")])
"""The first row of a trajectory, and the node of the task of one that it is like."""

PARTITIONS: Final = 64
"""Into how many partitions records are cut where nobody says otherwise."""


def partition_records(keys: npt.NDArray[np.void], by: str, partitions: int = PARTITIONS) -> Iterator[tuple[int, bytes]]:
    """Yield the records as bytes, by partition of a hash among their fields; the number of partitions is a power of
    two.
    """
    bits = partitions.bit_length() - 1
    yield from apart(keys, (keys[by] >> np.uint64(63 - bits) >> np.uint64(1)).astype(np.int64))


def by_unit(records: npt.NDArray[np.void]) -> Iterator[tuple[int, bytes]]:
    """The records as bytes, by the unit that they name."""
    yield from apart(records, records["unit"])


def apart(records: npt.NDArray[np.void], number: npt.NDArray[Any]) -> Iterator[tuple[int, bytes]]:
    """The records as bytes, in their order, by the number that each has: in one go, since units may be many."""
    order = np.argsort(number, kind="stable")
    ordered = number[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(order) else order
    for begin, end in pairwise([*begins.tolist(), len(order)]):
        yield int(ordered[begin]), records[order[begin:end]].tobytes()


def losers_of(packed: Iterable[bytes]) -> npt.NDArray[np.void]:
    """Merge the losers of a unit, of dtype `LOSER`, sorted by row."""
    return np.sort(np.concatenate([np.zeros(0, LOSER), *(np.frombuffer(data, LOSER) for data in packed)]))


def identities(keys: Sequence[str]) -> npt.NDArray[np.uint64]:
    """The first 64 bits of trajectory ids."""
    return np.array([int(key[:16], 16) for key in keys], np.uint64)
