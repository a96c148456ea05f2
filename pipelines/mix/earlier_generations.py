"""The generations that a run adds one to, as its stages ask for them, and what a finished one adds to the ledgers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.generations.forgotten_keys import Tombstones
from trajmill.pipelines.generations.generations import Generation, ledgers_of, stages_of
from trajmill.pipelines.generations.ledgers import KINDS, known_in, read_ledger
from trajmill.pipelines.judge.buckets import is_of_buckets
from trajmill.pipelines.judge.earlier import Earlier, Stages
from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.judge.measures import tasks_of
from trajmill.pipelines.judge.packed_rows import identities
from trajmill.pipelines.judge.replicates import bearing_rows
from trajmill.pipelines.mix.candidates import Candidates, candidates, gathered
from trajmill.pipelines.mix.coded_names import Coded, numbers_of
from trajmill.pipelines.mix.mixture import Judged, draw, draws_name, trained_environments
from trajmill.pipelines.mix.passages.earlier_passages import passage_rows
from trajmill.pipelines.mix.passages.placing_passages import passage_places
from trajmill.pipelines.mix.passages.preparation import EarlierStage
from trajmill.pipelines.mix.placing import NODE_COLUMNS, Before, log_nodes, placed
from trajmill.pipelines.mix.pools import of_kind
from trajmill.pipelines.mix.prior_draws import drawn_rows, is_counted
from trajmill.pipelines.mix.stage_items import stage_items
from trajmill.pipelines.plan.known_inputs import KnownInputs
from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.recipe.recipe import POOLS, Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.quality.fingerprint import as_lanes
from trajmill.quality.sets import distinct
from trajmill.schemas import ShardError


@dataclass(frozen=True, slots=True)
class EarlierGenerations:
    """What a run has to know of the generations before it.

    Attributes:
        earlier: as judging asks for them.
        drawn: as drawing does.
        inputs: as planning does.
        tombstones: of what was forgotten of them.
        plan: what is read now; None until that is known.
        passages: where the passages of other corpora lie that they pass through.
    """

    earlier: Earlier
    drawn: Before
    inputs: KnownInputs
    tombstones: Tombstones
    plan: Plan | None = None
    passages: tuple[EarlierStage, ...] = ()

    @classmethod
    def of(cls, recipe: Recipe, out: Folder, found: Sequence[Generation]) -> EarlierGenerations:
        """Those of a chain in an output folder, for one by that recipe."""
        stages = tuple(stages_in(out, one) for one in found)
        ledgers = tuple(one.ledgers for one in stages)
        draws = tuple(one.folder / "draws" for one in stages)
        drawn: Counter[str] = Counter()
        given: dict[str, Counter[str]] = {name: Counter() for name in POOLS}
        for one in found:
            drawn.update(one.drawn)
            for pool, domains in one.given.items():
                given[pool].update(domains)
        before = Before(len(found) + 1, ledgers, ledgers, draws, drawn, given, tuple(one.mixture for one in found))
        tombstones = Tombstones.read(out)
        inputs = KnownInputs(read_ledger(ledgers, "inputs"), recipe.normalize.grown == "extend", tombstones)
        passed = tuple(EarlierStage(one.folder, one.ledgers) for one in stages) if recipe.mix.passages else ()
        return cls(Earlier(found[-1].digest, stages), before, inputs, tombstones, passages=passed)

    @classmethod
    def only_pools(cls, digest: str, pools: tuple[Folder, ...], tombstones: Tombstones) -> EarlierGenerations:
        """None, but with groups whose pools are told: for a run anew.

        Args:
            digest: of what tells them.
            pools: the folders of ledgers of groups.
            tombstones: of what is not to be read.
        """
        known = KnownInputs(read_ledger((), "inputs"), tombstones=tombstones)
        return cls(Earlier(digest, ()), Before(1, pools), known, tombstones)

    def bridges(self, recipe: Recipe, judged: Judged) -> Mapping[str, tuple[int, ...]]:
        """Unit's label → first rows of the kept trajectories that would join two pools."""
        folders = judged.transitions, judged.verdicts, judged.measures
        found = gathered(candidates(unit, *folders) for unit in judged.units)
        return placed(recipe, judged.units, found, judged.told, self.drawn.pools).bridges


def stages_in(out: Folder, one: Generation) -> Stages:
    """Where the stages and ledgers of a generation lie.

    Raises:
        ShardError: its transitions have no manifest.
    """
    folder = stages_of(out, one)
    sealed = read_manifest(folder / "transitions", MANIFEST)
    if sealed is None:
        raise ShardError(f"{(folder / 'transitions').path(MANIFEST)} is missing or damaged.")
    bands = tuple(file.name for file in one.ledgers if is_of_buckets(file.name))
    return Stages(folder, ledgers_of(out, one), tuple(file.name for file in sealed.files), bands)


@dataclass(frozen=True, slots=True)
class Added:
    """What a finished generation adds.

    Attributes:
        rows: kind of ledger → its rows.
        drawn: trajectories drawn by pool.
        given: trajectories given, by pool and domain.
    """

    rows: Mapping[str, npt.NDArray[np.void]]
    drawn: dict[str, int]
    given: dict[str, dict[str, int]]


def added(recipe: Recipe, judged: Judged, draws: Folder, *, counting: bool = True) -> Added:
    """What a generation adds, from its verdicts and draws.

    Args:
        recipe: that it was made by.
        judged: its stages, and the generations before it, whose nodes keep what they have.
        draws: what it drew.
        counting: whether it is of the recipe, whose bounds count what was drawn.
    """
    before = judged.before
    rows: dict[str, list[npt.NDArray[np.void]]] = {name: [np.zeros(0, KINDS[name])] for name in _GATHERED}
    drawn: Counter[str] = Counter()
    given: dict[str, Counter[str]] = {name: Counter() for name in POOLS}
    environments = [np.zeros(0, np.uint64)]
    some: list[Candidates] = []
    chosen: list[_Drawn] = []
    for number, unit in enumerate(judged.units):
        found = candidates(unit, judged.transitions, judged.verdicts, judged.measures)
        mine = _Drawn.of(draws, unit.label)
        mine.count(unit.domain, given, drawn)
        environments.append(trained_environments(found.environment, mine.pool, mine.copies))
        for kind, part in _copies(unit, judged):
            rows[kind].append(part)
        tasks = tasks_of([unit], judged.measures)
        rows["tasks"].append(_records("tasks", tasks, np.full(len(tasks), number)))
        some.append(found)
        chosen.append(mine)
    for passed in judged.passage_units():
        _Drawn.of(draws, passed.label).count(judged.component(passed), given, drawn)
    found, whole = gathered(some), _Drawn.joined(chosen)
    rows["groups"] += [_nodes(whole.group, whole), *_widening(recipe, found, whole)]
    ledgers = () if before is None else before.ledgers
    if before is None and judged.likeness is None:
        rows["groups"] += _nodes_of_judging(recipe, judged, found, whole)
    else:
        rows["groups"] += _nodes_of_placing(recipe, judged, found, whole, ledgers)
    if judged.passages is not None:
        rows["groups"] += passage_places(judged.passages.out)
    made = {kind: np.concatenate(parts) for kind, parts in rows.items()}
    replicates = recipe.judge.replicates
    if replicates is not None and replicates.max is not None:
        made["replicates"] = bearing_rows(judged.units, judged.measures, judged.verdicts)
    made |= {} if judged.passages is None else passage_rows(judged.passages)
    made["groups"] = _first_known(made["groups"], ledgers)
    made["drawn"] = _counted(recipe, judged) if counting else np.zeros(0, KINDS["drawn"])
    made["environments"] = _records("environments", distinct(np.concatenate(environments)))
    return Added(made, dict(sorted(drawn.items())), {pool: dict(sorted(of.items())) for pool, of in given.items()})


def _counted(recipe: Recipe, judged: Judged) -> npt.NDArray[np.void]:
    """What was drawn by the values that the recipe's bounds tell apart; nothing where it has none."""
    if not is_counted(recipe):
        return np.zeros(0, KINDS["drawn"])
    _, found, (groups, pools, copies, tokens) = draw(recipe, judged)
    found = replace(found, tokens=tokens)
    some = []
    for pool, stage in recipe.mix.stages.items():
        chosen, items = stage_items(found, groups, pools, pool, recipe.mix)
        some.append((pool, stage, items, copies[chosen]))
    return drawn_rows(some)


_GATHERED: Final = ("trajectories", "transitions", "groups", "tasks")


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What was drawn of candidates; arrays of one length.

    Attributes:
        pool: names.
        copies: how often each is drawn.
        group: of each.
    """

    pool: Coded
    copies: npt.NDArray[np.int32]
    group: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, draws: Folder, label: str) -> _Drawn:
        table = read_table(draws, draws_name(label), ["group", "pool", "copies"])
        group, pool = (table[name].combine_chunks().cast(pa.string()) for name in ("group", "pool"))
        return cls(Coded.of(pool), table["copies"].to_numpy(), numbers_of(group))

    def count(self, domain: str, given: Mapping[str, Counter[str]], drawn: Counter[str]) -> None:
        """Adds how many each pool was given, and how many of them are drawn."""
        for name in POOLS:
            mine = self.pool.is_in([name])
            if mine.any():
                given[name][domain] += int(mine.sum())
                drawn[name] += int((mine & (self.copies > 0)).sum())

    @classmethod
    def joined(cls, some: Sequence[_Drawn]) -> _Drawn:
        copies = np.concatenate([np.zeros(0, np.int32), *(one.copies for one in some)])
        group = np.concatenate([np.zeros(0, np.uint64), *(one.group for one in some)])
        return cls(Coded.joined([one.pool for one in some]), copies, group)

    @property
    def pools(self) -> npt.NDArray[np.uint64]:
        """The number of the pool of each."""
        names: list[Any] = [*self.pool.names]
        return np.array([POOLS.index(name) for name in names], np.uint64)[self.pool.codes]

    def pools_of(self, groups: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The number of the pool of each group; -1 for one of which nothing was drawn."""
        names, first = np.unique(self.group, return_index=True)
        if not len(names):
            return np.full(len(groups), -1)
        place = np.minimum(np.searchsorted(names, groups), len(names) - 1)
        return np.where(names[place] == groups, self.pools[first][place].astype(np.int64), -1)


def _widening(recipe: Recipe, found: Candidates, drawn: _Drawn) -> Iterator[npt.NDArray[np.void]]:
    """The nodes of environments by which the recipe widens groups."""
    for number, by in enumerate(recipe.mix.group_by):
        shared = found.shared(by)
        known = shared != 0
        yield _records("groups", of_kind(shared[known], number), drawn.group[known], drawn.pools[known])


def _nodes_of_judging(
    recipe: Recipe, judged: Judged, found: Candidates, drawn: _Drawn
) -> Iterator[npt.NDArray[np.void]]:
    """The nodes of all trajectories whose group, as judging names it, has a kept one, and so a pool."""
    names = found.group.tolist()
    places = dict(zip(names, zip(drawn.group.tolist(), drawn.pools.tolist(), strict=True), strict=True))
    for unit in judged.units:
        verdicts = read_table(judged.verdicts, unit.name, ["step", "group"])
        measures = _table(judged.measures, unit, NODE_COLUMNS)
        first = np.flatnonzero(verdicts["step"].to_numpy() == 0)
        group = [int(one, 16) for one in verdicts["group"].take(pa.array(first)).to_pylist()]
        first = first[np.array([one in places for one in group], np.bool_)]
        taken = np.array([places[one] for one in group if one in places], np.uint64).reshape(-1, 2)
        for column in NODE_COLUMNS:
            yield _records("groups", measures[column].to_numpy()[first], taken[:, 0], taken[:, 1])
        logs = log_nodes(recipe, judged.transitions, unit, first)
        yield _records("groups", logs, *(taken[: len(logs), side] for side in (0, 1)))


def _nodes_of_placing(
    recipe: Recipe, judged: Judged, found: Candidates, drawn: _Drawn, ledgers: Sequence[Folder]
) -> Iterator[npt.NDArray[np.void]]:
    """The nodes of kept trajectories, and of others where by these they have a group with a pool."""
    begun = 0
    for unit in judged.units:
        verdicts = read_table(judged.verdicts, unit.name, ["step", "kept"])
        measures = _table(judged.measures, unit, NODE_COLUMNS)
        first = np.flatnonzero((verdicts["step"].to_numpy() == 0) & verdicts["kept"].to_numpy())
        mine = slice(begun, begun + len(first))
        begun += len(first)
        for column in NODE_COLUMNS:
            yield _records("groups", measures[column].to_numpy()[first], drawn.group[mine], drawn.pools[mine])
        logs = log_nodes(recipe, judged.transitions, unit, first)
        yield _records("groups", logs, drawn.group[mine][: len(logs)], drawn.pools[mine][: len(logs)])
    left = placed(recipe, judged.units, found, judged.told, ledgers).dropped
    if left is not None:
        pools = np.where(left.pool >= 0, left.pool, drawn.pools_of(left.group))
        told = pools >= 0
        yield _records("groups", left.node[told], left.group[told], pools[told])


def _copies(unit: Unit, judged: Judged) -> Iterator[tuple[str, npt.NDArray[np.void]]]:
    """The ledger rows of a unit's kept trajectories and of the transitions that bear the loss."""
    columns = ["trajectory_id", "step", "kept", "use"]
    verdicts = read_table(judged.verdicts, unit.name, columns)
    measures = _table(judged.measures, unit, ("trajectory_hash", "transition_hash"))
    for kind, column, chosen in (
        ("trajectories", "trajectory_hash", (verdicts["step"].to_numpy() == 0) & verdicts["kept"].to_numpy()),
        ("transitions", "transition_hash", np.array(verdicts["use"].to_pylist(), object) == "target"),
    ):
        rows = pa.array(np.flatnonzero(chosen))
        lanes = as_lanes(measures[column].take(rows).combine_chunks())
        yield (
            kind,
            _records(kind, lanes[:, 0], lanes[:, 1], identities(verdicts["trajectory_id"].take(rows).to_pylist())),
        )


def _table(measures: Folder, unit: Unit, columns: Sequence[str]) -> pa.Table:
    return read_table(measures, f"{unit.label}.parquet", columns)


def _records(kind: str, *columns: npt.ArrayLike) -> npt.NDArray[np.void]:
    """Rows of a ledger of these columns."""
    rows = np.zeros(len(np.asarray(columns[0])), KINDS[kind])
    for name, column in zip(KINDS[kind].names or (), columns, strict=True):
        rows[name] = column
    return rows


def _nodes(nodes: npt.NDArray[np.uint64], drawn: _Drawn) -> npt.NDArray[np.void]:
    return _records("groups", nodes, drawn.group, drawn.pools)


def _first_known(rows: npt.NDArray[np.void], ledgers: Sequence[Folder]) -> npt.NDArray[np.void]:
    """The rows of nodes that no ledger has, each node once."""
    rows = np.unique(rows)
    rows = rows[np.r_[True, rows["node"][1:] != rows["node"][:-1]]] if len(rows) else rows
    return rows[~np.isin(rows["node"], known_in(ledgers, "groups", rows["node"])["node"])]
