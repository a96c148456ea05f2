"""What earlier generations keep, as judging a later one asks for it: looked up by hash, in what they wrote down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.generations.ledgers import found_in, known_in, ledger_name
from trajmill.pipelines.storage.folders import Folder
from trajmill.quality.duplicate import KEY
from trajmill.quality.near import MEMBER
from trajmill.quality.sets import distinct, holds

EARLIER: Final = 1 << 31
"""The number of the first unit of earlier generations; the others follow, generation by generation."""

_UNIT_BITS: Final = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Stages:
    """Where an earlier generation lies.

    Attributes:
        folder: of its stages.
        ledgers: the folder of its ledgers.
        names: of its files of transitions, which are its units.
        bands: of its ledgers of buckets.
    """

    folder: Folder
    ledgers: Folder
    names: tuple[str, ...]
    bands: tuple[str, ...] = ()


class Place(NamedTuple):
    """Where a unit of an earlier generation lies: the folder of its stages, and its name in that of transitions."""

    folder: Folder
    name: str


@dataclass(frozen=True, slots=True)
class Earlier:
    """Earlier generations, picklable.

    Attributes:
        parent: digest of the last one's manifest, by it of all.
        generations: in order.
        withdrawn: unit's label → first rows of trajectories that would join two pools, as they were found so far.
        grown: tasks of which there are rollouts now and were before: 64-bit hashes, ascending, packed.
        whole: whether all rollouts of the last generation take part beside those of tasks that grew.
    """

    parent: str
    generations: tuple[Stages, ...]
    withdrawn: tuple[tuple[str, tuple[int, ...]], ...] = ()
    grown: bytes = b""
    whole: bool = False

    @property
    def ledgers(self) -> tuple[Folder, ...]:
        """The folders of their ledgers, in order."""
        return tuple(one.ledgers for one in self.generations)

    def bridges(self, label: str) -> npt.NDArray[np.int64]:
        """First rows of a unit's trajectories that would join two pools."""
        return np.array(dict(self.withdrawn).get(label, ()), np.int64)

    def without(self, bridges: Mapping[str, tuple[int, ...]]) -> Earlier:
        """The same, where these are withdrawn too."""
        found = dict(self.withdrawn)
        for label, rows in bridges.items():
            found[label] = tuple(sorted({*found.get(label, ()), *rows}))
        return replace(self, withdrawn=tuple(sorted(found.items())))

    def with_tasks(self, tasks: npt.NDArray[np.uint64]) -> Earlier:
        """The same, where these tasks have new rollouts."""
        wanted = distinct(tasks)
        known = known_in(self.ledgers, "tasks", wanted)
        return replace(self, grown=distinct(known["task"]).astype("<u8").tobytes())

    def tasks_of(self, number: int) -> npt.NDArray[np.uint64] | None:
        """Tasks whose rollouts in an earlier unit take part in the search for near copies; None for all."""
        if self.whole and number >= self.first_of_last():
            return None
        return np.frombuffer(self.grown, "<u8")

    def place(self, number: int) -> Place:
        """Where the unit of that number lies."""
        firsts = self._firsts()
        which = int(np.searchsorted(firsts, number, "right")) - 1
        one = self.generations[which]
        return Place(one.folder, one.names[number - firsts[which]])

    def taking_part(self) -> list[int]:
        """The numbers of the units that hold rollouts of tasks that grew."""
        tasks = np.frombuffer(self.grown, "<u8")
        numbers: set[int] = set()
        for first, one in zip(self._firsts(), self.generations, strict=True):
            if self.whole and one is self.generations[-1]:
                numbers.update(range(first, first + len(one.names)))
            else:
                numbers.update((known_in([one.ledgers], "tasks", tasks)["unit"] + np.uint64(first)).tolist())
        return sorted(numbers)

    def members(self, bands: npt.NDArray[np.uint64]) -> npt.NDArray[np.void]:
        """Who of tasks that did not grow stands in these buckets, each once and ascending, before all others."""
        found = [np.zeros(0, MEMBER)]
        grown = np.frombuffer(self.grown, "<u8")
        for first, one in zip(self._firsts(), self.generations, strict=True):
            rows = found_in(((one.ledgers, name) for name in one.bands), "bands", bands)
            rows = rows[~holds(grown, rows["node"])]
            some = np.zeros(len(rows), MEMBER)
            for name in ("band", "tie", "node"):
                some[name] = rows[name]
            some["unit"], some["row"] = (rows["place"] >> _UNIT_BITS) + np.uint64(first), rows["place"].astype("<u4")
            found.append(some)
        return np.concatenate(found)

    def survivors(self, kind: str, keys: npt.NDArray[np.void]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.void]]:
        """Which keys an earlier generation keeps an equal of, and those keys' survivors as keys.

        Args:
            kind: `trajectories` or `transitions`.
            keys: of dtype `KEY`.
        """
        held = known_in(self.ledgers, kind, distinct(keys["high"]))
        pairs = np.concatenate([np.stack([some["high"], some["low"]], axis=1) for some in (held, keys)])
        _, first, inverse = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        place = first[inverse.ravel()][len(held) :]
        again = place < len(held)
        kept = np.zeros(int(again.sum()), KEY)
        for name in ("high", "low", "tie"):
            kept[name] = held[name][place[again]]
        return again, kept

    def bearing(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """How many replicates of each key bear the loss, where these are counted."""
        counted = [one for one in self.ledgers if one.exists(ledger_name("replicates"))]
        found = known_in(counted, "replicates", distinct(keys))
        known, place = np.unique(found["key"], return_inverse=True)
        amounts = np.bincount(place, found["amount"].astype(np.float64), len(known)).astype(np.uint64)
        at = np.searchsorted(known, keys)
        there = np.append(known, 0)[at] == keys if len(known) else np.zeros(len(keys), np.bool_)
        return np.where(there, np.append(amounts, np.uint64(0))[at], np.uint64(0)).astype(np.uint64)

    def first_of_last(self) -> int:
        """The number of the first unit of the last generation."""
        return self._firsts()[-1]

    def _firsts(self) -> list[int]:
        """The number of the first unit of each generation."""
        sizes = [len(one.names) for one in self.generations]
        return [EARLIER + sum(sizes[:which]) for which in range(len(sizes))]
