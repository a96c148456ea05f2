"""What is already known when a run begins: nothing, unless it adds to earlier runs or keeps the pools of one.

Plan, judge and mix ask this one object, and none of them whether there was an earlier run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.generations.forgotten_keys import Tombstones
from trajmill.pipelines.generations.generations import Generation, ledgers_of, stages_of
from trajmill.pipelines.generations.places import Placed, Verdicts, known_pools, placed
from trajmill.pipelines.judge.judging import DECIDED, Unit, Withdrawn, units_in
from trajmill.pipelines.mix.candidates import (
    Candidates,
    Wanted,
    candidates,
    draws_name,
    gathered,
    shared_groups,
    trained_environments,
)
from trajmill.pipelines.mix.coded_names import Coded, hex_texts, numbers_of
from trajmill.pipelines.mix.draw import Carried
from trajmill.pipelines.mix.passages.drawing import passage_candidates
from trajmill.pipelines.mix.passages.passage import passage_node
from trajmill.pipelines.mix.passages.preparation import Prepared
from trajmill.pipelines.recipe.mixture import Stage
from trajmill.pipelines.recipe.recipe import POOLS, Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier runs decided, which stays; picklable.

    Attributes:
        digest: of all of it; empty of nothing.
        stages: where the stages of earlier runs lie, in their order.
        places: the folders of tables that say which group and pool nodes have.
        mixtures: what the stages of each run drew, as `Mixture.told` says it.
        tombstones: of what was forgotten, and is not read again.
    """

    digest: str = ""
    stages: tuple[Folder, ...] = ()
    places: tuple[Folder, ...] = ()
    mixtures: tuple[Mapping[str, Any], ...] = ()
    tombstones: Tombstones = field(default_factory=Tombstones)

    @classmethod
    def of(cls, out: Folder, found: Sequence[Generation]) -> Known:
        """What the generations of an output folder make known."""
        stages, ledgers = (tuple(where(out, one) for one in found) for where in (stages_of, ledgers_of))
        return cls(found[-1].digest, stages, ledgers, tuple(one.mixture for one in found), Tombstones.read(out))

    @property
    def generation(self) -> int:
        """The number of the run that begins, among those of its folder."""
        return len(self.stages) + 1

    def units(self) -> list[Unit]:
        """The decided units of earlier runs, numbered from `DECIDED` on.

        Raises:
            ShardError: the transitions of a run have no manifest.
        """
        found = [(folder, unit.name) for folder in self.stages for unit in units_in(folder)]
        return [Unit(DECIDED + number, name, "", folder) for number, (folder, name) in enumerate(found)]

    def asks_likeness(self, recipe: Recipe) -> bool:
        """Whether pools are given by whom trajectories are like, so that judging has to write it down."""
        return bool(self.places) and recipe.judge.near_duplicates is not None

    def bridges(self, recipe: Recipe, units: Sequence[Unit], judged: Verdicts) -> Withdrawn:
        """The first rows of kept trajectories that would join two pools, by their unit's label."""
        if not self.places:
            return ()
        found = gathered(candidates(unit, *judged.folders) for unit in units)
        return placed(recipe, units, found, judged, self.places).bridges

    def placed(self, recipe: Recipe, units: Sequence[Unit], found: Candidates, judged: Verdicts) -> Placed:
        """The group of each candidate, and its pool; empty where that is still to be chosen."""
        if self.places:
            return placed(recipe, units, found, judged, self.places)
        return Placed(shared_groups(found, recipe.mix), Coded.alike("", len(found)))

    def placed_passages(self, passed: Candidates) -> Placed:
        """The same of passages, each document of which is a group of its component."""
        named = zip(passed.domain.tolist(), hex_texts(passed.group).to_pylist(), strict=True)
        nodes = [passage_node(str(component), group) for component, group in named] if self.places else []
        pools = known_pools(set(nodes), self.places)
        pool = Coded.of([pools.get(node, "") for node in nodes]) if nodes else Coded.alike("", len(passed))
        return Placed(passed.group, pool)

    def draws(self, recipe: Recipe) -> Draws:
        """What earlier runs drew."""
        return Draws.of(recipe, self.stages, self.mixtures)


@dataclass(frozen=True, slots=True)
class Draws:
    """What runs drew, run by run: of kept trajectories in the order of their units, then of passages.

    Attributes:
        found: what it was drawn from.
        group: of each, by name.
        pool: of each.
        copies: how often each is drawn.
        tokens: of each, as a sample of its pool.
        mixtures: what the stages of each run drew, as `Mixture.told` says it.
    """

    found: Candidates
    group: npt.NDArray[np.uint64]
    pool: Coded
    copies: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]
    mixtures: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, recipe: Recipe, stages: Sequence[Folder], mixtures: Sequence[Mapping[str, Any]] = ()) -> Draws:
        """Those of runs by a recipe, or by one that this one may follow."""
        bounds = [bound for stage in recipe.mix.stages.values() for bound in stage.bounds]
        wanted = Wanted(tasks=any(bound.by == "task" for bound in bounds))
        some: list[Candidates] = []
        tables = [pa.table({"group": [], "pool": [], "copies": [], "tokens": []}, _DRAWN)]
        for folder in stages:
            judged = folder / "transitions", folder / "verdicts", folder / "measures"
            units = units_in(folder)
            some += [candidates(unit, *judged, wanted) for unit in units]
            passages = Prepared(recipe, recipe.mix.passages, folder)
            passed = passages.units() if recipe.mix.passages else []
            some += [passage_candidates(unit, passages, wanted) for unit in passed]
            tables += [
                read_table(folder / "draws", draws_name(unit.label), _DRAWN.names).cast(_DRAWN)
                for unit in [*units, *passed]
            ]
        drawn = pa.concat_tables(tables).combine_chunks()
        return cls(
            gathered(some),
            numbers_of(drawn["group"]),
            Coded.of(drawn["pool"].combine_chunks()),
            drawn["copies"].to_numpy(),
            drawn["tokens"].to_numpy(),
            mixtures,
        )

    def environments(self) -> npt.NDArray[np.uint64]:
        """The environments of which training shows something, ascending."""
        return trained_environments(self.found.environment, self.pool, self.copies)

    def count(self, pool: str) -> int:
        """How many a pool drew, on which the running index of later ones goes on."""
        return int((self.pool.is_in([pool]) & (self.copies > 0)).sum())

    def given(self) -> dict[str, Counter[str]]:
        """How many each pool was given, by domain."""
        found = {}
        for pool in POOLS:
            domain = self.found.domain[self.pool.is_in([pool])]
            found[pool] = Counter(dict(zip(map(str, domain.held()), _counts(domain), strict=True)))
        return found

    def carried(self, pool: str, stage: Stage) -> Carried:
        """What of it counts where a stage of a pool is drawn once more."""
        drawn, available = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        samples = 0
        for one in (one for mixture in self.mixtures for one in mixture["stages"].get(pool, ())):
            place = one["component"], one["domain"]
            drawn[place] += one["tokens"]
            available[place] += one["available"]
            samples += one["samples"]
        mine = np.flatnonzero(self.pool.is_in([pool]) & (self.copies > 0))
        by_component = Counter[str]()
        for (component, _), tokens in drawn.items():
            by_component[component] += tokens
        amounts = self.tokens[mine] * self.copies[mine]
        bounds = tuple(
            by_component if bound.by == "component" else _summed(getattr(self.found, bound.by)[mine], amounts)
            for bound in stage.bounds
        )
        groups = _summed(self.group[mine], np.ones(len(mine), np.int64)) if stage.max_per_group is not None else {}
        return Carried(samples, drawn, available, bounds, groups)


_DRAWN = pa.schema([("group", pa.string()), ("pool", pa.string()), ("copies", pa.int64()), ("tokens", pa.int64())])


def _counts(names: Coded) -> list[int]:
    return [count for count in np.bincount(names.codes, minlength=len(names.names)).tolist() if count]


def _summed(values: Coded | npt.NDArray[np.uint64], amounts: npt.NDArray[np.int64]) -> dict[Any, int]:
    """The sum of amounts by value."""
    names: Sequence[Any]
    if isinstance(values, Coded):
        names, number = values.names, values.codes.astype(np.int64)
    else:
        distinct, number = np.unique(values, return_inverse=True)
        names = distinct.tolist()
    sums = np.zeros(len(names), np.int64)
    np.add.at(sums, number, amounts)
    return {name: size for name, size in zip(names, sums.tolist(), strict=True) if size}
