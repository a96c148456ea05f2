"""What earlier generations drew, as far as bounds of a stage count it: a budget is of the dataset, of no generation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xxhash

from trajmill.pipelines.generations.ledgers import KINDS, known_in
from trajmill.pipelines.mix.bounded_values import Values, numbered
from trajmill.pipelines.mix.draw import NOTHING, Carried, Items
from trajmill.pipelines.mix.simulated import summed
from trajmill.pipelines.recipe.mixture import Stage
from trajmill.pipelines.recipe.recipe import POOLS, Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.quality.sets import distinct

_WIDTH: Final = 1 << 16
"""More than a stage has bounds."""

_GROUPS: Final = _WIDTH - 1
"""Stands among the numbers of bounds for trajectories by group."""


@dataclass(frozen=True, slots=True)
class EarlierDraws:
    """What earlier generations drew.

    Attributes:
        ledgers: the folders of their ledgers, in order.
        mixtures: what the stages of each drew, as `Mixture.told` says it.
    """

    ledgers: tuple[Folder, ...] = ()
    mixtures: tuple[Mapping[str, Any], ...] = field(default=())

    def simulated(self) -> list[dict[str, Any]]:
        """What of it world models answered, by stage and component."""
        return summed(self.mixtures)

    def carried(self, pool: str, stage: Stage, items: Items) -> Carried:
        """What of it counts where a stage of a pool is drawn from these items."""
        if not self.mixtures:
            return NOTHING
        drawn: Counter[tuple[str, str]] = Counter()
        available: Counter[tuple[str, str]] = Counter()
        samples = 0
        for mixture in self.mixtures:
            for one in mixture["stages"].get(pool, ()):
                place = one["component"], one["domain"]
                drawn[place] += one["tokens"]
                available[place] += one["available"]
                samples += one["samples"]
        bounds = tuple(
            self._by_value(_place(pool, number), items.values[bound.by]) for number, bound in enumerate(stage.bounds)
        )
        groups = self._by_value(_place(pool, _GROUPS), items.group) if stage.max_per_group is not None else {}
        return Carried(samples, drawn, available, bounds, groups)

    def _by_value(self, place: int, values: Values) -> dict[Any, int]:
        """What the ledgers count of each of the values, under the number of a bound."""
        hashes = {value_hash(value): value for value in numbered(values)[1]}
        found = known_in(self.ledgers, "drawn", distinct(np.array(list(hashes), np.uint64)))
        summed: Counter[Any] = Counter()
        for row in found[found["bound"] == place]:
            summed[hashes[int(row["value"])]] += int(row["amount"])
        return dict(summed)


NO_DRAWS: Final = EarlierDraws()


def is_counted(recipe: Recipe) -> bool:
    """Whether a stage of the recipe has bounds that count what was drawn by value or by group."""
    return any(stage.bounds or stage.max_per_group is not None for stage in recipe.mix.stages.values())


def drawn_rows(drawn: Iterable[tuple[str, Stage, Items, npt.NDArray[np.integer[Any]]]]) -> npt.NDArray[np.void]:
    """The rows of a ledger of what was drawn: of each stage its pool, what it asks for, its items and their copies."""
    parts = [np.zeros(0, KINDS["drawn"])]
    for pool, stage, items, copies in drawn:
        for number, bound in enumerate(stage.bounds):
            parts.append(_counted(_place(pool, number), items.values[bound.by], items.tokens * copies.astype(np.int64)))
        if stage.max_per_group is not None:
            parts.append(_counted(_place(pool, _GROUPS), items.group, (copies > 0).astype(np.int64)))
    return np.concatenate(parts)


def _counted(place: int, values: Values, amounts: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.void]:
    number, names = numbered(values)
    summed = np.zeros(len(names), np.int64)
    np.add.at(summed, number, amounts)
    hashes = np.array([value_hash(name) for name in names], np.uint64)
    order = np.argsort(hashes, kind="stable")
    order = order[summed[order] != 0]
    rows = np.zeros(len(order), KINDS["drawn"])
    for name, column in zip(KINDS["drawn"].names or (), (hashes[order], place, summed[order]), strict=True):
        rows[name] = column
    return rows


def value_hash(value: object) -> int:
    """A name or a hash, as ledgers hold it."""
    return value if isinstance(value, int) else xxhash.xxh3_64_intdigest(str(value).encode())


def _place(pool: str, bound: int) -> int:
    return [*POOLS].index(pool) * _WIDTH + bound  # type: ignore[arg-type]
