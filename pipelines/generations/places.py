"""Places: the permanent groups and pools of nodes, and the assignment of a later run's trajectories to them.

A trajectory has the nodes of its task, its instance, its own id and its parent's, and of environments by which the
recipe widens groups. A node that an earlier generation knows has a permanent group and pool. New trajectories are
assigned in order; one that would join nodes of two pools is reported as a bridge, and joins nothing. Besides its own
nodes, a new trajectory has the task nodes of similar trajectories.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from trajmill.pipelines.generations.generations import read_ledger
from trajmill.pipelines.judge.judging import Unit, Withdrawn
from trajmill.pipelines.judge.near_duplicates import STAGE as LIKENESS
from trajmill.pipelines.judge.near_duplicates import read_likeness
from trajmill.pipelines.judge.reasons import BRIDGES_POOLS
from trajmill.pipelines.mix.candidates import Candidates
from trajmill.pipelines.mix.coded_names import Coded
from trajmill.pipelines.mix.known import Placement
from trajmill.pipelines.mix.pools import of_kind
from trajmill.pipelines.recipe.recipe import POOLS, Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table

Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Bearing:
    """Nodes of new trajectories. There are millions, so nothing here is an object.

    Attributes:
        newcomer: number of the new trajectory, ascending.
        node: its node, ascending and distinct within each trajectory.
    """

    newcomer: npt.NDArray[np.int64]
    node: Numbers

    @classmethod
    def of(cls, newcomer: npt.NDArray[np.int64], node: Numbers) -> Bearing:
        """Build from pairs in any order, with possible repetitions."""
        order = np.lexsort((node, newcomer))
        newcomer, node = newcomer[order], node[order]
        first = np.r_[True, (newcomer[1:] != newcomer[:-1]) | (node[1:] != node[:-1])][: len(node)]
        return cls(newcomer[first], node[first])

    def among(self, newcomers: npt.NDArray[np.bool_]) -> Bearing:
        """Select the nodes of some of the new trajectories."""
        mine = newcomers[self.newcomer]
        return Bearing(self.newcomer[mine], self.node[mine])


@dataclass(frozen=True, slots=True)
class Places:
    """Permanent groups and pools, as arrays of one length."""

    node: Numbers
    group: Numbers
    pool: npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Settled:
    """Groups and pools of new trajectories, as arrays of one length in their order.

    Attributes:
        pool: number of the pool that it joins; -1 if none of its nodes is known, so that shares decide.
        bridges: whether it would join two pools; group and pool are then meaningless.
    """

    group: Numbers
    pool: npt.NDArray[np.int8]
    bridges: npt.NDArray[np.bool_]


def assign_groups(bearing: Bearing, order: npt.NDArray[np.int64], known: Places) -> Settled:
    """Assign new trajectories to groups.

    Args:
        bearing: nodes of each new trajectory, at least one.
        order: order of assignment: numbers of the trajectories, each once.
        known: places of known nodes; if a node occurs twice, the last place counts.
    """
    nodes, dense = np.unique(bearing.node, return_inverse=True)
    group, pool = array("Q", bytes(8 * len(nodes))), array("b", b"\xff" * len(nodes))  # of roots; pool -1: not known
    at = np.searchsorted(nodes, known.node).tolist()
    for node_number, known_group, to in zip(at, known.group.tolist(), known.pool.tolist(), strict=True):
        group[node_number], pool[node_number] = known_group, to
    parents = array("q", np.arange(len(nodes), dtype=np.int64).tobytes())
    bridges = np.zeros(len(order), np.bool_)
    starts = np.searchsorted(bearing.newcomer, np.arange(len(order) + 1))
    for number in order:
        mine = dense[starts[number] : starts[number + 1]].tolist()
        roots = sorted({_root(parents, node) for node in mine})
        placed_roots = [root for root in roots if pool[root] >= 0]
        if len({pool[root] for root in placed_roots}) > 1:
            bridges[number] = True
            continue
        for root in roots:
            parents[root] = roots[0]
        if placed_roots:
            group[roots[0]], pool[roots[0]] = min(group[root] for root in placed_roots), pool[placed_roots[0]]
    roots_of = _roots(np.frombuffer(parents, np.int64) if len(nodes) else np.zeros(0, np.int64))
    names = roots_of[dense[starts[:-1]]]
    pools = np.frombuffer(pool, np.int8)[names] if len(nodes) else np.zeros(0, np.int8)
    groups = np.frombuffer(group, np.uint64)[names] if len(nodes) else np.zeros(0, np.uint64)
    return Settled(np.where(pools >= 0, groups, nodes[names]), pools, bridges)


def _root(parents: array[int], node: int) -> int:
    """Return the smallest node of a node's component."""
    root = node
    while parents[root] != root:
        root = parents[root]
    while parents[node] != root:
        parents[node], node = root, parents[node]
    return root


def _roots(parents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    while True:
        further = parents[parents]
        if np.array_equal(further, parents):
            return further
        parents = further


NODE_COLUMNS: Final = ("task_node", "instance_node", "own_node", "parent_node")
"""Measured columns of the nodes that join trajectories into groups."""

PARTED: Final = 127
"""In place of a pool: an environment too large to tie trajectories (see `mix.group_by`), or a log of several groups;
now and later."""

_LOG: Final = "log_node"


@dataclass(frozen=True, slots=True)
class SettledPlaces:
    """Groups and pools of the trajectories of a later run.

    Attributes:
        kept: for each candidate its group, and its pool if known.
        bridges: unit's label and first rows of trajectories that would join two pools, and have no place.
        dropped: nodes of dropped trajectories, with their places; a pool of -1 is still to be chosen.
    """

    kept: Placement
    bridges: Withdrawn = ()
    dropped: Places | None = None


def assign_places(
    recipe: Recipe, units: Sequence[Unit], newcomers: Candidates, stages: Folder, pools: Sequence[Folder]
) -> SettledPlaces:
    """Assign candidates to groups, by their own nodes and those of similar trajectories.

    They are assigned in the order of rank and id. Dropped trajectories come last. They join groups, as in a first run,
    unless that would join two pools.

    Args:
        recipe: the recipe, which may widen groups.
    """
    table = pa.concat_tables([_firsts(recipe, unit, stages) for unit in units]) if units else None
    if table is None or not table.num_rows:
        return SettledPlaces(Placement(newcomers.group, Coded.alike("", len(newcomers))))
    kept_flags = table["kept"].to_numpy()
    own, whole, known = _bearing(recipe, table, newcomers, kept_flags, pools)
    result = assign_groups(whole, _order(table), known)
    bridging = np.flatnonzero(result.bridges & kept_flags)
    labels = {unit.number: unit.label for unit in units}
    bridges: dict[str, list[int]] = {}
    for unit, row in zip(*(table[name].to_numpy()[bridging].tolist() for name in ("unit", "row")), strict=True):
        bridges.setdefault(labels[unit], []).append(row)
    left = own.among(~kept_flags & ~result.bridges)
    dropped = Places(left.node, result.group[left.newcomer], result.pool[left.newcomer])
    withdrawn = tuple((label, tuple(sorted(rows))) for label, rows in sorted(bridges.items()))
    pool = Coded((result.pool[kept_flags] + 1).astype(np.uint8), ("", *POOLS))
    return SettledPlaces(Placement(result.group[kept_flags], pool), withdrawn, dropped)


def _bearing(
    recipe: Recipe, table: pa.Table, newcomers: Candidates, kept_flags: npt.NDArray[np.bool_], pools: Sequence[Folder]
) -> tuple[Bearing, Bearing, Places]:
    """Return the nodes that each bears itself, these with the tasks of those that it is like, and the places of known
    ones.

    A log ties by the place it has, and so does an environment that ties only up to a share of its domain. A new one
    ties nothing: rows of one table may share the log's id, and the share of the whole dataset is not known here.
    """
    every = np.arange(table.num_rows)
    rows, nodes = [every] * len(NODE_COLUMNS), [table[name].to_numpy() for name in NODE_COLUMNS]
    mine, logs = _with_known(every, table[_LOG].to_numpy(), pools)
    rows.append(mine)
    nodes.append(logs)
    for number, (by, largest) in enumerate(recipe.mix.group_by.items()):
        shared = newcomers.shared(by)
        mine, environments = np.flatnonzero(kept_flags)[shared != 0], of_kind(shared[shared != 0], number)
        if largest < 1:
            mine, environments = _with_known(mine, environments, pools)
        rows.append(mine)
        nodes.append(environments)
    own = Bearing.of(np.concatenate(rows), np.concatenate(nodes))
    like = table["like"].combine_chunks()
    of_like = np.repeat(every, pc.list_value_length(like).to_numpy())
    both = np.concatenate([own.newcomer, of_like]), np.concatenate([own.node, pc.list_flatten(like).to_numpy()])
    with_likeness = Bearing.of(*both)
    return own, with_likeness, known_among(np.unique(with_likeness.node), pools)


def _with_known(
    rows: npt.NDArray[np.int64], nodes: Numbers, pools: Sequence[Folder]
) -> tuple[npt.NDArray[np.int64], Numbers]:
    """Return the rows whose node has a place by which it ties, and these nodes."""
    known = known_among(np.unique(nodes), pools)
    ties = np.isin(nodes, known.node[known.pool != PARTED])
    return rows[ties], nodes[ties]


def _order(table: pa.Table) -> npt.NDArray[np.int64]:
    """Return the order in which new trajectories are assigned: kept ones first, each by rank and id."""
    keys = table.select(["rank", "unit", "row"]).append_column("late", pc.invert(table["kept"]).cast(pa.int8()))
    keys = keys.append_column("trajectory_id", table["trajectory_id"].cast(pa.string()))
    by = [(name, "ascending") for name in ("late", "rank", "trajectory_id", "unit", "row")]
    return pc.sort_indices(keys, sort_keys=by).to_numpy().astype(np.int64)


def log_nodes(transitions: Folder, unit: Unit, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return the node of the log that each row is of, and of the log's own id there.

    By it what a grown log adds belongs to the group that the log has.
    """
    table = read_table(transitions, unit.name, ["native_id", "provenance.uri", "provenance.member"])
    log_rows = table.take(pa.array(rows)).to_pylist()
    named = [["log", row["provenance"]["uri"], row["provenance"]["member"], row["native_id"]] for row in log_rows]
    return np.array([xxhash.xxh3_64_intdigest(json.dumps(log_name).encode()) for log_name in named], np.uint64)


def _firsts(recipe: Recipe, unit: Unit, stages: Folder) -> pa.Table:
    """Return a row for each trajectory of a unit, except those that would join two pools.

    A row holds the nodes, rank, id, row number, whether the trajectory is kept, and the tasks of similar trajectories.
    """
    verdicts = read_table(stages / "verdicts", unit.name, ["step", "kept", "reason"])
    columns = [*NODE_COLUMNS, "rank", "trajectory_id"]
    measured = read_table(stages / "measures", f"{unit.label}.parquet", columns)
    bridging = np.array(verdicts["reason"].to_pylist(), object) == BRIDGES_POOLS
    rows = np.flatnonzero((verdicts["step"].to_numpy() == 0) & ~bridging)
    like: dict[int, list[int]] = {}
    if recipe.judge.near_duplicates is not None:
        for row, node in read_likeness(stages / LIKENESS, unit.name).tolist():
            like.setdefault(row, []).append(node)
    firsts = (
        measured.take(pa.array(rows))
        .append_column("kept", verdicts["kept"].take(pa.array(rows)))
        .append_column("row", pa.array(rows))
        .append_column("unit", pa.array(np.full(len(rows), unit.number)))
        .append_column("like", pa.array([like.get(row, []) for row in rows.tolist()], pa.list_(pa.uint64())))
    )
    return firsts.append_column(_LOG, pa.array(log_nodes(stages / "transitions", unit, rows)))


def known_among(wanted: npt.NDArray[np.uint64], ledgers: Sequence[Folder]) -> Places:
    """Return the places of the wanted nodes that earlier generations know, ascending and distinct."""
    entries = read_ledger(ledgers, "places", wanted)
    return Places(entries["node"].copy(), entries["group"].copy(), entries["pool"].astype(np.int8))


def known_pools(wanted: set[int], ledgers: Sequence[Folder]) -> dict[int, str]:
    """Return the pools of the wanted nodes that earlier generations know."""
    places = known_among(np.array(sorted(wanted), np.uint64), ledgers)
    return {node: POOLS[pool] for node, pool in zip(places.node.tolist(), places.pool.tolist(), strict=True)}
