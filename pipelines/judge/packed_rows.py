"""Packed records of rows that are exchanged between units. Nothing else of a corpus is shuffled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

LOSER: Final = np.dtype([("row", "<u4"), ("kept", "<u8")])
"""A row that loses against another, and the first 64 bits of the id of the kept trajectory."""

SIMILAR: Final = "similar"
"""Name of the answer with packed pairs of similar nodes, of a unit's trajectories and of others, of one group each."""

LIKE: Final = "like"
"""Name of the answer for units of a later generation: first rows of trajectories, and tasks of similar trajectories."""

LIKENESS: Final = np.dtype([("row", "<u4"), ("node", "<u8")])
"""The first row of a trajectory, and the task node of a similar one."""

PARTITIONS: Final = 64
"""Default number of partitions of packed records."""


def partition_records(keys: npt.NDArray[np.void], by: str, partitions: int = PARTITIONS) -> Iterator[tuple[int, bytes]]:
    """Yield the records as bytes, by partition of one of their hash fields.

    The number of partitions must be a power of two.
    """
    bits = partitions.bit_length() - 1
    yield from apart(keys, (keys[by] >> np.uint64(63 - bits) >> np.uint64(1)).astype(np.int64))


def by_unit(records: npt.NDArray[np.void]) -> Iterator[tuple[int, bytes]]:
    """Yield the records as bytes, by their unit."""
    yield from apart(records, records["unit"])


def apart(records: npt.NDArray[np.void], number: npt.NDArray[Any]) -> Iterator[tuple[int, bytes]]:
    """Yield the records as bytes in their order, by the number of each. A single sort handles any number of units."""
    order = np.argsort(number, kind="stable")
    ordered = number[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(order) else order
    for begin, end in pairwise([*begins.tolist(), len(order)]):
        yield int(ordered[begin]), records[order[begin:end]].tobytes()


def unpack(packed: Iterable[bytes | memoryview], record: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Join the records of all blocks, in their order."""
    return np.concatenate([np.zeros(0, record), *(np.frombuffer(data, record) for data in packed)])


def identities(keys: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Return the first 64 bits of trajectory ids."""
    return np.array([int(key[:16], 16) for key in keys], np.uint64)
