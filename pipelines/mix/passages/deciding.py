"""Passages that are not kept of all that was read: items of benchmarks, then exact duplicates.

Over all components at once, so that none shows what another one does. Of equal passages that of an earlier generation
stays, then that of the component which the recipe names first, then that of the smallest hash: no order of files or
rows has a say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.judge.evaluation_index import read_index
from trajmill.pipelines.mix.passages.passage import KEY_SCHEMA
from trajmill.pipelines.mix.passages.preparation import (
    READ,
    STAGE,
    PassageUnit,
    Preparation,
    label_of,
    part_names,
    read_file,
)
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, read_table
from trajmill.quality.contamination_matches import MATCH_SCHEMA, decided, tasks_showing

CONTAMINATED: Final = "contaminated"
DUPLICATE: Final = "duplicate"

Numbers = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


class Lost(NamedTuple):
    """A passage that is not kept: its place among those that were read of its unit, the reason, and words for it."""

    place: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Keys:
    """What decisions know of a unit's passages.

    Attributes:
        unit: number of the unit.
        component: of which it is, counted from 1; 0 of a unit that an earlier run decided.
        ids: of the passages.
        high, low: of the normalized content.
        exact: of the content.
        starts: the first of each passage's rows in matches; at last the number of rows.
    """

    unit: int
    component: int
    ids: pa.StringArray
    high: Numbers
    low: Numbers
    exact: Numbers
    starts: Places

    @classmethod
    def of(cls, unit: int, component: int, table: pa.Table) -> Keys:
        """Those of a unit, from its table of `KEY_SCHEMA`."""
        held = table.combine_chunks()
        high, low, exact = (held[name].to_numpy() for name in ("high", "low", "exact"))
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(held["pieces"].to_numpy().astype(np.int64))])
        ids = pa.concat_arrays([pa.array([], pa.string()), *held["id"].chunks])
        return cls(unit, component, ids, high, low, exact, starts)

    @property
    def size(self) -> int:
        """Passages."""
        return len(self.high)

    def words(self, place: int) -> str:
        """What a passage is called, for a person."""
        return str(self.ids[place].as_py())


Left = dict[int, npt.NDArray[np.bool_]]
"""By unit, of each passage whether it is kept so far."""


def lost_passages(preparing: Preparation, units: Sequence[PassageUnit]) -> dict[int, list[Lost]]:
    """By number of the unit the passages that are not kept, by place.

    Raises:
        ShardError: what was read of a unit is not there.
    """
    keys = {one.number: Keys.of(one.number, one.component + 1, read_keys(preparing.read, one.label)) for one in units}
    left = {number: np.ones(one.size, np.bool_) for number, one in keys.items()}
    lost: dict[int, list[Lost]] = {one.number: [] for one in units}
    if preparing.benchmarks:
        _drop_contaminated(preparing, units, keys, left, lost)
    decided = kept_keys(preparing.decided, len(keys))
    keys |= decided
    left |= {number: np.ones(one.size, np.bool_) for number, one in decided.items()}
    for unit, place, kept, kept_place in exact_copies(keys, left):
        if unit in lost:
            lost[unit].append(Lost(place, DUPLICATE, f"equal to {keys[kept].words(kept_place)}"))
    return {number: sorted(some) for number, some in lost.items()}


def read_keys(read: Folder, label: str) -> pa.Table:
    """What decisions know of the passages that were read of a unit."""
    return pa.Table.from_batches(read_batches(read, read_file(label, "keys")), KEY_SCHEMA)


def kept_keys(decided: Sequence[Folder], first: int) -> dict[int, Keys]:
    """The keys of the passages that earlier runs keep, by unit, numbered from `first` on."""
    found: dict[int, Keys] = {}
    for folder in decided:
        for part in part_names(folder / STAGE):
            table = read_keys(folder / READ, label_of(part))
            kept = read_table(folder / STAGE, part, ["id", "row"])
            names = set(zip(kept["id"].to_pylist(), kept["row"].to_pylist(), strict=True))
            told = zip(table["id"].to_pylist(), table["row"].to_pylist(), strict=True)
            some = table.filter(pa.array([one in names for one in told], pa.bool_()))
            found[first + len(found)] = Keys.of(first + len(found), 0, some)
    return found


def _drop_contaminated(
    preparing: Preparation,
    units: Sequence[PassageUnit],
    keys: Mapping[int, Keys],
    left: Left,
    lost: Mapping[int, list[Lost]],
) -> None:
    """Takes out what shows an item; passages that say the same are one task, as rollouts are."""
    index = read_index(preparing.measures, preparing.benchmarks)
    rules = preparing.recipe.judge.contamination
    matches = {
        one.number: pa.Table.from_batches(
            read_batches(preparing.read, read_file(one.label, "benchmarks")), MATCH_SCHEMA
        )
        for one in units
    }
    shown = [np.zeros((0, 2), np.uint64)]
    for number, table in matches.items():
        known = keys[number]
        run, task = tasks_showing(table, np.repeat(known.high, np.diff(known.starts)))
        shown.append(np.stack([run, task], axis=1))
    run, tasks = np.unique(np.unique(np.concatenate(shown), axis=0)[:, 0], return_counts=True)
    weights = index.weights(rules.common, run, tasks.astype(np.uint64))
    for number, table in matches.items():
        rows, items, _ = decided(table, index, weights, rules.min_score)
        for place, item in zip(np.searchsorted(keys[number].starts, rows).tolist(), items.tolist(), strict=True):
            lost[number].append(Lost(place, CONTAMINATED, index.items[item]))
            left[number][place] = False


def exact_copies(keys: Mapping[int, Keys], left: Mapping[int, npt.NDArray[np.bool_]]) -> list[tuple[int, ...]]:
    """(unit, place, unit and place of the one that stays) of each passage that says the same as one that stays.

    Args:
        keys: of all units.
        left: of each unit's passages, whether they are compared.
    """
    some = {number: np.flatnonzero(left[number]) for number in keys}
    columns = [
        np.concatenate([np.zeros(0, np.uint64), *(values.astype(np.uint64) for values in of)])
        for of in zip(
            *(
                (
                    one.high[some[number]],
                    one.low[some[number]],
                    np.full(len(some[number]), one.component),
                    one.exact[some[number]],
                    np.full(len(some[number]), number),
                    some[number],
                )
                for number, one in keys.items()
            ),
            strict=True,
        )
    ]
    if not columns or not len(columns[0]):
        return []
    order = np.lexsort(columns[::-1])
    high, low, _, _, unit, place = (column[order] for column in columns)
    first = np.ones(len(order), np.bool_)
    first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    keeper = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    again = np.flatnonzero(~first)
    found = [unit[again], place[again], unit[keeper[again]], place[keeper[again]]]
    return [*zip(*(column.tolist() for column in found), strict=True)]
