"""The buckets of what a generation keeps, written down sorted, so that near copies of it are found by later ones.

The background of a task is that of all rollouts there are when it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from trajmill.pipelines.execution.exchange import Span
from trajmill.pipelines.execution.flow import Collection, FlatMap, Flatten, GroupByKey, Map, Transform
from trajmill.pipelines.generations.ledgers import BANDS, write_ledger
from trajmill.pipelines.judge.judging import Judging, Unit
from trajmill.pipelines.judge.near_duplicates import NearCopies, members_of, sized, steps, tasks
from trajmill.pipelines.judge.packed_rows import partitioned
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas.manifest import FileEntry

_ROWS: Final = 1 << 21
"""Rows of one of the ledger's files, about."""

_MOST: Final = 1024
_STEPS: Final = "ledger_steps"
_BANDS: Final = "ledger_bands"


def files_of(records: int) -> int:
    """How many files a ledger of so many rows has: a power of two."""
    return min(_MOST, 1 << (max(-(-records // _ROWS), 1) - 1).bit_length())


def bands_name(number: int) -> str:
    """The file of a ledger of that number."""
    return f"bands-{number:04d}.parquet"


def is_of_buckets(name: str) -> bool:
    """Whether a file of ledgers is of buckets."""
    return name.startswith("bands-")


class UnitsToBuckets(Transform):
    """Units, numbered as of earlier generations → the files of the ledger of buckets of the last of these.

    Args:
        judging: whose `earlier` ends with the generation that is written, whole.
        ledgers: the folder that is written.
        files: how many.
    """

    def __init__(self, judging: Judging, ledgers: Folder, files: int) -> None:
        super().__init__()
        self._judging, self._ledgers, self._files = judging, ledgers, files

    def expand(self, units: Collection[Unit]) -> Collection[FileEntry]:
        judging, near = self._judging, self._judging.recipe.judge.near_duplicates
        assert near is not None
        itself = units | "KeyUnits" >> Map(_keyed)
        sizes = units | "Rollouts" >> FlatMap(_rollouts, judging) | "Tasks" >> GroupByKey() | "Sizes" >> FlatMap(_sizes)
        shared = (
            (itself, sizes)
            | "Sized" >> Flatten()
            | "JoinSizes" >> GroupByKey()
            | "Steps" >> FlatMap(_steps, judging)
            | "Kinds" >> GroupByKey()
            | "Background" >> FlatMap(_background, NearCopies(near, judging.earlier), judging)
        )
        return (
            (itself, shared)
            | "Told" >> Flatten()
            | "Join" >> GroupByKey()
            | "Buckets" >> FlatMap(_bands, judging, self._files)
            | "Gather" >> GroupByKey()
            | "Write" >> Map(_written, judging, self._ledgers)
        )


Told = tuple[int, Iterable[Unit | tuple[str, bytes]]]
"""A unit's number, the unit, and what it was told."""


def _keyed(unit: Unit) -> tuple[int, Unit]:
    return unit.number, unit


def _standing(told: Told, judging: Judging) -> Standing:
    heard: dict[str, list[bytes | Span]] = {}
    units: list[Unit] = []
    for one in told[1]:
        if isinstance(one, Unit):
            units.append(one)
        else:
            heard.setdefault(one[0], []).append(one[1])
    (unit,) = units
    return Standing(unit, judging, heard)


def _rollouts(unit: Unit, judging: Judging) -> Iterator[tuple[int, bytes]]:
    yield from tasks(Standing(unit, judging))  # type: ignore[misc]


def _sizes(gathered: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, tuple[str, bytes]]]:
    for name, number, data in sized(*gathered):
        yield number, (name, data)


def _steps(told: Told, judging: Judging) -> Iterator[tuple[int, bytes | Span]]:
    keys: Iterator[tuple[int, bytes]] = steps(_standing(told, judging))  # type: ignore[assignment]
    yield from judging.carried(_STEPS, told[0], keys)


def _background(
    gathered: tuple[int, Iterable[bytes | Span]], near: NearCopies, judging: Judging
) -> Iterator[tuple[int, tuple[str, bytes]]]:
    key, packed = gathered
    for name, number, data in near.background(key, judging.fetched(packed)):
        yield number, (name, data)


def _bands(told: Told, judging: Judging, files: int) -> Iterator[tuple[int, bytes | Span]]:
    number, earlier = told[0], judging.earlier
    assert earlier is not None
    first = earlier.first_of_last()
    if number < first:
        return
    found = members_of(_standing(told, judging))
    rows = np.zeros(len(found), BANDS)
    for name in ("band", "tie", "node"):
        rows[name] = found[name]
    rows["place"] = np.uint64(number - first) << np.uint64(32) | found["row"]
    yield from judging.carried(_BANDS, number, partitioned(rows, "band", files))


def _written(gathered: tuple[int, Iterable[bytes | Span]], judging: Judging, ledgers: Folder) -> FileEntry:
    key, packed = gathered
    rows = np.concatenate([np.frombuffer(data, BANDS) for data in judging.fetched(packed)])
    return write_ledger(ledgers, "bands", rows, bands_name(key))
