"""Permanent places of nodes after a finished run: the group and pool of each node of its trajectories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.generations.generations import PLACES, read_ledger
from trajmill.pipelines.generations.known import Draws
from trajmill.pipelines.generations.places import NODE_COLUMNS, PARTED, assign_places, log_nodes
from trajmill.pipelines.judge.judging import Unit, units_in
from trajmill.pipelines.mix.candidates import gather_run_candidates
from trajmill.pipelines.mix.coded_names import hex_texts
from trajmill.pipelines.mix.passages.passage import passage_node
from trajmill.pipelines.mix.pools import of_kind
from trajmill.pipelines.recipe.recipe import POOLS, Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table

VERSION: Final = 2
"""Of what the table holds: nodes of logs since 2."""


def place_rows(recipe: Recipe, stages: Folder, before: Sequence[Folder] = ()) -> npt.NDArray[np.void]:
    """Build the rows of the ledger of places that a run adds.

    Args:
        before: folders of the ledgers of earlier runs, whose nodes keep their places.
    """
    units, draws = units_in(stages), Draws.of(recipe, [stages])
    groups, pools = draws.group, _numbers(draws)
    kept_count = len(gather_run_candidates(units, stages))  # passages come after them
    rows = [
        _rows(groups[:kept_count], groups[:kept_count], pools[:kept_count]),
        *_of_passages(draws, pools, kept_count),
    ]
    for number, by in enumerate(recipe.mix.group_by):
        shared = draws.found.shared(by)
        named = np.flatnonzero(shared != 0)
        rows.append(_without_the_parted(_rows(of_kind(shared[named], number), groups[named], pools[named])))
    kept_places = groups[:kept_count], pools[:kept_count]
    rows += (
        _by_placing(recipe, stages, units, *kept_places, before) if before else _by_judging(stages, units, *kept_places)
    )
    distinct = np.unique(np.concatenate(rows))
    distinct = distinct[np.unique(distinct["node"], return_index=True)[1]]
    distinct = np.sort(np.concatenate([distinct, _of_logs(stages, distinct)]))
    return distinct[~np.isin(distinct["node"], read_ledger(before, "places", distinct["node"].copy())["node"])]


def _of_logs(stages: Folder, places: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Build the rows of logs: each has the place of its trajectories, or is `PARTED` where they have several.

    Args:
        places: rows that hold the trajectories' own nodes, by node, each once.
    """
    rows = [np.zeros(0, PLACES)]
    for unit in units_in(stages):
        measures = read_table(stages / "measures", f"{unit.label}.parquet", ["step", "own_node"])
        starts = np.flatnonzero(measures["step"].to_numpy() == 0)
        own = measures["own_node"].to_numpy()[starts]
        placed = np.isin(own, places["node"])
        of_log = places[np.searchsorted(places["node"], own[placed])].copy()
        of_log["node"] = log_nodes(stages / "transitions", unit, starts[placed])
        rows.append(of_log)
    return _without_the_parted(np.concatenate(rows))


def _numbers(draws: Draws) -> npt.NDArray[np.int64]:
    """Return the number of the pool of each candidate."""
    names = [*map(str, draws.pool.names)]
    return np.array([POOLS.index(name) for name in names], np.int64)[draws.pool.codes]


def _rows(
    node: npt.NDArray[np.uint64], group: npt.NDArray[np.uint64], pool: npt.NDArray[np.int64]
) -> npt.NDArray[np.void]:
    rows = np.zeros(len(node), PLACES)
    rows["node"], rows["group"], rows["pool"] = node, group, pool
    return rows


def _without_the_parted(rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """A row for each environment or log: its place, or `PARTED` where its trajectories are of several groups."""
    distinct = np.unique(rows)
    nodes, first, count = np.unique(distinct["node"], return_index=True, return_counts=True)
    distinct = distinct[first]
    parted = count > 1
    distinct["group"][parted], distinct["pool"][parted] = nodes[parted], PARTED
    return distinct


def _of_passages(draws: Draws, pools: npt.NDArray[np.int64], first: int) -> Iterator[npt.NDArray[np.void]]:
    """Yield the rows of documents.

    Each document is a group of its component, since each component fills its own pools.
    """
    components, names = draws.found.domain[first:].tolist(), hex_texts(draws.group[first:]).to_pylist()
    nodes = [passage_node(str(component), name) for component, name in zip(components, names, strict=True)]
    node = np.array(nodes, np.uint64)
    yield _rows(node, node, pools[first:])


def _by_judging(
    stages: Folder, units: Sequence[Unit], groups: npt.NDArray[np.uint64], pools: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.void]]:
    """Yield the nodes of all trajectories whose group after judging has a kept trajectory, and so a pool."""
    judged = gather_run_candidates(units, stages).group
    names, first = np.unique(judged, return_index=True)
    for unit in units:
        verdicts = read_table(stages / "verdicts", unit.name, ["step", "group"])
        starts = np.flatnonzero(verdicts["step"].to_numpy() == 0)
        group = np.array(
            [int(group_name, 16) for group_name in verdicts["group"].take(pa.array(starts)).to_pylist()], np.uint64
        )
        is_placed = np.isin(group, names)
        at = first[np.searchsorted(names, group[is_placed])]
        yield from _of_unit(stages, unit, starts[is_placed], groups[at], pools[at])


def _by_placing(
    recipe: Recipe,
    stages: Folder,
    units: Sequence[Unit],
    groups: npt.NDArray[np.uint64],
    pools: npt.NDArray[np.int64],
    before: Sequence[Folder],
) -> Iterator[npt.NDArray[np.void]]:
    """Yield the nodes of kept trajectories, and of other trajectories that have a group with a pool through them."""
    begun = 0
    for unit in units:
        verdicts = read_table(stages / "verdicts", unit.name, ["step", "kept"])
        starts = np.flatnonzero((verdicts["step"].to_numpy() == 0) & verdicts["kept"].to_numpy())
        mine = slice(begun, begun + len(starts))
        begun += len(starts)
        yield from _of_unit(stages, unit, starts, groups[mine], pools[mine])
    left = assign_places(recipe, units, gather_run_candidates(units, stages), stages, before).dropped
    if left is not None:
        names, first = np.unique(groups, return_index=True)
        at = np.searchsorted(names, left.group) if len(names) else np.zeros(len(left.group), np.int64)
        at = np.minimum(at, max(len(names) - 1, 0))
        new = (
            np.full(len(left.group), -1) if not len(names) else np.where(names[at] == left.group, pools[first][at], -1)
        )
        pool = np.where(left.pool >= 0, left.pool, new)
        yield _rows(left.node[pool >= 0], left.group[pool >= 0], pool[pool >= 0])


def _of_unit(
    stages: Folder,
    unit: Unit,
    starts: npt.NDArray[np.int64],
    groups: npt.NDArray[np.uint64],
    pools: npt.NDArray[np.int64],
) -> Iterator[npt.NDArray[np.void]]:
    """Yield the rows of the nodes of a unit's trajectories."""
    measures = read_table(stages / "measures", f"{unit.label}.parquet", NODE_COLUMNS)
    for column in NODE_COLUMNS:
        yield _rows(measures[column].to_numpy()[starts], groups, pools)
