"""Decisions of earlier runs, for a run that appends to them or keeps their pools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.generations.generations import Generation, ledgers_of, stages_of
from trajmill.pipelines.generations.places import assign_places, known_pools
from trajmill.pipelines.judge.judging import DECIDED, Unit, Withdrawn, units_in
from trajmill.pipelines.mix.candidates import (
    Candidates,
    Wanted,
    candidates,
    draws_name,
    gather_candidates,
    gather_run_candidates,
    training_environments,
)
from trajmill.pipelines.mix.coded_names import Coded, hex_texts, numbers_of
from trajmill.pipelines.mix.draw import PriorDraws
from trajmill.pipelines.mix.known import EarlierDraws, Known, Placement
from trajmill.pipelines.mix.passages.drawing import passage_candidates
from trajmill.pipelines.mix.passages.passage import passage_node
from trajmill.pipelines.mix.passages.preparation import Prepared
from trajmill.pipelines.normalize.forgotten_keys import Tombstones
from trajmill.pipelines.recipe.mixture import Stage
from trajmill.pipelines.recipe.recipe import POOLS, Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table


class KnownGenerations(Known):
    """Decisions of earlier runs.

    Args:
        ledgers: folders of ledgers with the groups and pools of nodes.
        stages: folders of the stages of runs; empty if only pools are kept.
    """

    def __init__(
        self,
        digest: str,
        ledgers: tuple[Folder, ...],
        tombstones: Tombstones,
        stages: tuple[Folder, ...] = (),
        mixtures: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.digest, self.places, self.tombstones, self.stages = digest, ledgers, tombstones, stages
        self._mixtures = mixtures

    @classmethod
    def of(cls, out: Folder, generations: Sequence[Generation]) -> KnownGenerations:
        """Read the decisions of the generations of an output folder."""
        return cls(
            generations[-1].digest,
            tuple(ledgers_of(out, generation) for generation in generations),
            Tombstones.read(out),
            tuple(stages_of(out, generation) for generation in generations),
            [generation.mixture for generation in generations],
        )

    def units(self) -> list[Unit]:
        """See the base class.

        Raises:
            ShardError: the transitions of a run have no manifest.
        """
        unit_folders = [(folder, unit.name) for folder in self.stages for unit in units_in(folder)]
        return [Unit(DECIDED + number, name, "", folder) for number, (folder, name) in enumerate(unit_folders)]

    def asks_likeness(self, recipe: Recipe) -> bool:
        return recipe.judge.near_duplicates is not None

    def bridges(self, recipe: Recipe, units: Sequence[Unit], stages: Folder) -> Withdrawn:
        return assign_places(recipe, units, gather_run_candidates(units, stages), stages, self.places).bridges

    def placed(self, recipe: Recipe, units: Sequence[Unit], found: Candidates, stages: Folder) -> Placement:
        """See the base class. The pool of new groups is left open."""
        return assign_places(recipe, units, found, stages, self.places).kept

    def place_passages(self, passed: Candidates) -> Placement:
        """See the base class. Each document is a group of its component."""
        named = zip(passed.domain.tolist(), hex_texts(passed.group).to_pylist(), strict=True)
        nodes = [passage_node(str(component), group) for component, group in named]
        pools = known_pools(set(nodes), self.places)
        return Placement(passed.group, Coded.of([pools.get(node, "") for node in nodes]))

    def draws(self, recipe: Recipe) -> EarlierDraws:
        return Draws.of(recipe, self.stages, self._mixtures)


@dataclass(frozen=True)
class Draws(EarlierDraws):
    """Draws of runs, run by run: kept trajectories in the order of their units, then passages.

    Attributes:
        group: name of each candidate's group.
        copies: how often each is drawn.
        tokens: tokens of each, as a sample of its pool.
        mixtures: summary of each run's draws, as returned by `Mixture.told`.
    """

    found: Candidates
    group: npt.NDArray[np.uint64]
    pool: Coded
    copies: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]
    mixtures: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, recipe: Recipe, stages: Sequence[Folder], mixtures: Sequence[Mapping[str, Any]] = ()) -> Draws:
        """Read the draws of runs by a recipe, or by one that this recipe may follow."""
        bounds = [bound for stage in recipe.mix.stages.values() for bound in stage.bounds]
        wanted = Wanted(tasks=any(bound.by == "task" for bound in bounds))
        some: list[Candidates] = []
        tables = [pa.table({"group": [], "pool": [], "copies": [], "tokens": []}, _DRAWN)]
        for folder in stages:
            units = units_in(folder)
            some += [candidates(unit, folder, wanted) for unit in units]
            passages = Prepared(recipe, recipe.mix.passages, folder)
            passed = passages.units() if recipe.mix.passages else []
            some += [passage_candidates(unit, passages, wanted) for unit in passed]
            labels = [*(unit.label for unit in units), *(unit.label for unit in passed)]
            tables += [read_table(folder / "draws", draws_name(label), _DRAWN.names).cast(_DRAWN) for label in labels]
        drawn = pa.concat_tables(tables).combine_chunks()
        return cls(
            gather_candidates(some),
            numbers_of(drawn["group"]),
            Coded.of(drawn["pool"].combine_chunks()),
            drawn["copies"].to_numpy(),
            drawn["tokens"].to_numpy(),
            mixtures,
        )

    def environments(self) -> npt.NDArray[np.uint64]:
        """Return the environments that training samples show, ascending."""
        return training_environments(self.found.environment, self.pool, self.copies)

    def count(self, pool: str) -> int:
        """Return the number of samples that a pool drew. The running index continues from it."""
        return int((self.pool.is_in([pool]) & (self.copies > 0)).sum())

    def given(self) -> dict[str, Counter[str]]:
        """Count the trajectories of each pool by domain."""
        counts: dict[str, Counter[str]] = {}
        for pool in POOLS:
            domain = self.found.domain[self.pool.is_in([pool])]
            counts[pool] = Counter(dict(zip(map(str, domain.held()), _counts(domain), strict=True)))
        return counts

    def carried(self, pool: str, stage: Stage) -> PriorDraws:
        """Return the earlier draws that count when a stage of a pool is drawn again."""
        drawn, available = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        samples = 0
        for category in (category for mixture in self.mixtures for category in mixture["stages"].get(pool, ())):
            key = category["component"], category["domain"]
            drawn[key] += category["tokens"]
            available[key] += category["available"]
            samples += category["samples"]
        mine = np.flatnonzero(self.pool.is_in([pool]) & (self.copies > 0))
        by_component = Counter[str]()
        for (component, _), tokens in drawn.items():
            by_component[component] += tokens
        amounts = self.tokens[mine] * self.copies[mine]
        bounds = tuple(
            by_component if bound.by == "component" else _sum_by_value(getattr(self.found, bound.by)[mine], amounts)
            for bound in stage.bounds
        )
        groups = (
            _sum_by_value(self.group[mine], np.ones(len(mine), np.int64)) if stage.max_per_group is not None else {}
        )
        return PriorDraws(samples, drawn, available, bounds, groups)


_DRAWN = pa.schema([("group", pa.string()), ("pool", pa.string()), ("copies", pa.int64()), ("tokens", pa.int64())])


def _counts(names: Coded) -> list[int]:
    return [count for count in np.bincount(names.codes, minlength=len(names.names)).tolist() if count]


def _sum_by_value(values: Coded | npt.NDArray[np.uint64], amounts: npt.NDArray[np.int64]) -> dict[Any, int]:
    names: Sequence[Any]
    if isinstance(values, Coded):
        names, number = values.names, values.codes.astype(np.int64)
    else:
        distinct, number = np.unique(values, return_inverse=True)
        names = distinct.tolist()
    sums = np.zeros(len(names), np.int64)
    np.add.at(sums, number, amounts)
    return {name: size for name, size in zip(names, sums.tolist(), strict=True) if size}
