"""Places: the groups and pools that nodes have for ever, and where the trajectories of a later run belong by them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from trajmill.pipelines.generations.ledgers import read_ledger
from trajmill.pipelines.generations.newcomers import Bearing, Places, settled
from trajmill.pipelines.judge.judging import Unit, Withdrawn
from trajmill.pipelines.judge.reasons import BRIDGES_POOLS
from trajmill.pipelines.judge.similarity_index import read_likeness
from trajmill.pipelines.mix.candidates import Candidates
from trajmill.pipelines.mix.coded_names import Coded
from trajmill.pipelines.mix.known import Placed, Verdicts
from trajmill.pipelines.mix.pools import of_kind
from trajmill.pipelines.recipe.recipe import POOLS, Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table

NODE_COLUMNS: Final = ("task_node", "instance_node", "own_node", "parent_node")
"""By which trajectories are of one group, as they are measured."""

_LOG: Final = "log_node"


@dataclass(frozen=True, slots=True)
class SettledPlaces:
    """Where the trajectories of a later run belong.

    Attributes:
        kept: of each candidate its group, and its pool if that is known.
        bridges: unit's label and first rows of those that would join two pools, and have no place.
        dropped: nodes of what is not kept, and the place that it has by them; a pool of -1 has still to be chosen too.
    """

    kept: Placed
    bridges: Withdrawn = ()
    dropped: Places | None = None


def settled_places(
    recipe: Recipe, units: Sequence[Unit], found: Candidates, judged: Verdicts, pools: Sequence[Folder]
) -> SettledPlaces:
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
        return SettledPlaces(Placed(found.group, Coded.alike("", len(found))))
    kept = table["kept"].to_numpy()
    own, whole = _bearing(recipe, table, found, kept)
    result = settled(whole, _order(table), known_among(np.unique(whole.node), pools))
    bridging = np.flatnonzero(result.bridges & kept)
    labels = {unit.number: unit.label for unit in units}
    bridges: dict[str, list[int]] = {}
    for unit, row in zip(*(table[name].to_numpy()[bridging].tolist() for name in ("unit", "row")), strict=True):
        bridges.setdefault(labels[unit], []).append(row)
    left = own.among(~kept & ~result.bridges)
    dropped = Places(left.node, result.group[left.newcomer], result.pool[left.newcomer])
    told = tuple((label, tuple(sorted(rows))) for label, rows in sorted(bridges.items()))
    pool = Coded((result.pool[kept] + 1).astype(np.uint8), ("", *POOLS))
    return SettledPlaces(Placed(result.group[kept], pool), told, dropped)


def _bearing(
    recipe: Recipe, table: pa.Table, found: Candidates, kept: npt.NDArray[np.bool_]
) -> tuple[Bearing, Bearing]:
    """The nodes that each bears itself, and these with the tasks of those that it is like."""
    every = np.arange(table.num_rows)
    columns = [*NODE_COLUMNS, *([_LOG] if _LOG in table.schema.names else [])]
    rows, nodes = [every] * len(columns), [table[name].to_numpy() for name in columns]
    for number, by in enumerate(recipe.mix.group_by):
        shared = found.shared(by)
        rows.append(np.flatnonzero(kept)[shared != 0])
        nodes.append(of_kind(shared[shared != 0], number))
    own = Bearing.of(np.concatenate(rows), np.concatenate(nodes))
    like = table["like"].combine_chunks()
    of_like = np.repeat(every, pc.list_value_length(like).to_numpy())
    both = np.concatenate([own.newcomer, of_like]), np.concatenate([own.node, pc.list_flatten(like).to_numpy()])
    return own, Bearing.of(*both)


def _order(table: pa.Table) -> npt.NDArray[np.int64]:
    """Newcomers as they are tried: what is kept first, each by rank and id."""
    keys = table.select(["rank", "unit", "row"]).append_column("late", pc.invert(table["kept"]).cast(pa.int8()))
    keys = keys.append_column("trajectory_id", table["trajectory_id"].cast(pa.string()))
    by = [(name, "ascending") for name in ("late", "rank", "trajectory_id", "unit", "row")]
    return pc.sort_indices(keys, sort_keys=by).to_numpy().astype(np.int64)


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


def known_among(wanted: npt.NDArray[np.uint64], ledgers: Sequence[Folder]) -> Places:
    """The places of those nodes, ascending and each once, that earlier generations know."""
    found = read_ledger(ledgers, "places", wanted)
    return Places(found["node"].copy(), found["group"].copy(), found["pool"].astype(np.int8))


def known_pools(wanted: set[int], ledgers: Sequence[Folder]) -> dict[int, str]:
    """The pools of those nodes that earlier generations know."""
    found = known_among(np.array(sorted(wanted), np.uint64), ledgers)
    return {node: POOLS[pool] for node, pool in zip(found.node.tolist(), found.pool.tolist(), strict=True)}
