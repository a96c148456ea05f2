"""Placing: the trajectories of a later generation in the groups and pools that earlier ones fixed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from pipelines.engine.ledgers import known_in, read_ledger
from pipelines.engine.parquet import read_table
from pipelines.engine.storage import Folder
from pipelines.judge.judging import Unit
from pipelines.judge.likeness import read_likeness
from pipelines.judge.reasons import BRIDGES_POOLS
from pipelines.mix.candidates import Candidates
from pipelines.mix.coded_names import Coded, coded
from pipelines.mix.newcomers import Node, Place, settled
from pipelines.mix.pools import of_kind
from pipelines.recipe.recipe import POOLS, Recipe

NODE_COLUMNS: Final = ("task_node", "instance_node", "own_node", "parent_node")
"""By which trajectories are of one group, as they are measured."""

_LOG: Final = "log_node"


@dataclass(frozen=True, slots=True)
class Before:
    """What earlier generations drew.

    Attributes:
        generation: the number of the one that is drawn now.
        pools: the folders of ledgers that say which groups and pools nodes have.
        ledgers: the folders of the earlier ones' ledgers.
        draws: the folders of what they drew.
        drawn: trajectories drawn by pool, which the running index goes on from.
        given: trajectories given, by pool and domain.
        mixtures: what the stages of each drew.
    """

    generation: int
    pools: tuple[Folder, ...]
    ledgers: tuple[Folder, ...] = ()
    draws: tuple[Folder, ...] = ()
    drawn: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    mixtures: tuple[Mapping[str, Any], ...] = ()

    def environments(self) -> npt.NDArray[np.uint64]:
        """Those that training shows already."""
        return read_ledger(self.ledgers, "environments")["environment"]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Where what was judged of units lies.

    Attributes:
        transitions: the rows.
        verdicts: their verdicts.
        measures: what was measured of them.
        likeness: whom they are like; None where the recipe looks for no near copies.
    """

    transitions: Folder
    verdicts: Folder
    measures: Folder
    likeness: Folder | None


@dataclass(frozen=True, slots=True)
class Placed:
    """Of each candidate its group, and its pool; empty where that has still to be chosen, for the group as a whole.

    Attributes:
        group: names.
        pool: names.
        bridges: unit's label → first rows of those that would join two pools, and have no place.
        dropped: nodes of a trajectory that is not kept, and the place that it has by them, its pool empty as above.
    """

    group: npt.NDArray[np.uint64]
    pool: Coded
    bridges: Mapping[str, tuple[int, ...]]
    dropped: tuple[tuple[tuple[Node, ...], Place], ...] = ()


def placed(
    recipe: Recipe, units: Sequence[Unit], found: Candidates, judged: Verdicts, pools: Sequence[Folder]
) -> Placed:
    """Where candidates belong, by the nodes that each bears and those of whom it is like.

    They are tried in the order of rank and id. What is not kept comes after them: it makes groups of one, as in a first
    run, where that joins no two pools.

    Args:
        recipe: what widens groups.
        units: whose trajectories are placed.
        found: those of them that are kept.
        judged: where their verdicts lie.
        pools: the folders of ledgers that say what nodes have.
    """
    table = pa.concat_tables([_firsts(recipe, unit, judged) for unit in units]) if units else None
    if table is None or not table.num_rows:
        return Placed(found.group, Coded.alike("", len(found)), {})
    kept = table["kept"].to_numpy()
    columns = [*NODE_COLUMNS, *([_LOG] if _LOG in table.schema.names else [])]
    own = [set(some) for some in zip(*(table[name].to_pylist() for name in columns), strict=True)]
    candidates = np.flatnonzero(kept)
    for number, by in enumerate(recipe.mix.group_by):
        shared = found.shared(by)
        for row, node in zip(np.flatnonzero(shared), of_kind(shared[shared != 0], number).tolist(), strict=True):
            own[candidates[row]].add(node)
    nodes = [sorted({*some, *like}) for some, like in zip(own, table["like"].to_pylist(), strict=True)]
    known = known_places({node for some in nodes for node in some}, pools)
    by_rank = table.select(["kept", "rank", "trajectory_id", "unit", "row"]).to_pylist()
    order = sorted(range(len(nodes)), key=lambda row: (not by_rank[row]["kept"], *list(by_rank[row].values())[1:]))
    result = settled(nodes, order, known)
    bridges: dict[str, list[int]] = {}
    labels = {unit.number: unit.label for unit in units}
    for one in np.flatnonzero(result.bridges & kept).tolist():
        bridges.setdefault(labels[by_rank[one]["unit"]], []).append(by_rank[one]["row"])
    dropped = tuple(
        (tuple(sorted(own[row])), Place(int(result.group[row]), result.pool[row]))
        for row in np.flatnonzero(~kept & ~result.bridges).tolist()
    )
    told = {label: tuple(sorted(rows)) for label, rows in sorted(bridges.items())}
    return Placed(result.group[kept], coded(result.pool[kept]), told, dropped)


def log_nodes(recipe: Recipe, transitions: Folder, unit: Unit, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The node of the log that each row is of, and of the log's own id there; none where grown logs are ignored.

    By it what a grown log adds belongs to the group that the log has.
    """
    if recipe.normalize.grown == "ignore":
        return np.zeros(0, np.uint64)
    table = read_table(transitions, unit.name, ["native_id", "provenance.uri", "provenance.member"])
    told = table.take(pa.array(rows)).to_pylist()
    named = [["log", one["provenance"]["uri"], one["provenance"]["member"], one["native_id"]] for one in told]
    return np.array([xxhash.xxh3_64_intdigest(json.dumps(one).encode()) for one in named], np.uint64)


def _firsts(recipe: Recipe, unit: Unit, judged: Verdicts) -> pa.Table:
    """A row for each trajectory of a unit but those that would join two pools: nodes, rank, id, row, whether it is kept
    and the tasks of those that it is like."""
    verdicts = read_table(judged.verdicts, unit.name, ["step", "kept", "reason"])
    columns = [*NODE_COLUMNS, "rank", "trajectory_id"]
    measured = read_table(judged.measures, f"{unit.label}.parquet", columns)
    bridging = np.array(verdicts["reason"].to_pylist(), object) == BRIDGES_POOLS
    rows = np.flatnonzero((verdicts["step"].to_numpy() == 0) & ~bridging)
    like: dict[int, list[int]] = {}
    if judged.likeness is not None:
        for row, node in read_likeness(judged.likeness, unit.name).tolist():
            like.setdefault(row, []).append(node)
    firsts = (
        measured.take(pa.array(rows))
        .append_column("kept", verdicts["kept"].take(pa.array(rows)))
        .append_column("row", pa.array(rows))
        .append_column("unit", pa.array(np.full(len(rows), unit.number)))
        .append_column("like", pa.array([like.get(row, []) for row in rows.tolist()], pa.list_(pa.uint64())))
    )
    if recipe.normalize.grown == "ignore":
        return firsts
    return firsts.append_column(_LOG, pa.array(log_nodes(recipe, judged.transitions, unit, rows)))


def known_places(wanted: set[int], ledgers: Sequence[Folder]) -> dict[int, Place]:
    """The places of those nodes that earlier generations know."""
    found = known_in(ledgers, "groups", np.array(sorted(wanted), np.uint64))
    return {int(one["node"]): Place(int(one["group"]), POOLS[int(one["pool"])]) for one in found}
