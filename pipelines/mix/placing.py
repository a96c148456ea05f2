"""Placing: the kept trajectories of a later generation in the groups and pools that earlier ones fixed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.engine.ledgers import NODES, read_ledger
from pipelines.engine.parquet import read_batches
from pipelines.engine.storage import Folder
from pipelines.judge.judging import Unit
from pipelines.mix.candidates import Candidates
from pipelines.mix.newcomers import Place, settled
from pipelines.mix.pools import of_kind
from pipelines.recipe.recipe import POOLS, Mix

NODE_COLUMNS: Final = ("task_node", "instance_node", "own_node", "parent_node")
"""By which trajectories are of one group, as they are measured."""

_PARTITIONS: Final = 64


@dataclass(frozen=True, slots=True)
class Before:
    """What earlier generations drew.

    Attributes:
        generation: the number of the one that is drawn now.
        ledgers: the folders of the earlier ones' ledgers.
        draws: the folders of what they drew.
        drawn: trajectories drawn by pool, which the running index goes on from.
        given: trajectories given, by pool and domain.
    """

    generation: int
    ledgers: tuple[Folder, ...]
    draws: tuple[Folder, ...]
    drawn: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def environments(self) -> npt.NDArray[np.uint64]:
        """Those that training shows already."""
        return read_ledger(self.ledgers, "environments")["environment"]


@dataclass(frozen=True, slots=True)
class Placed:
    """Of each candidate its group, and its pool; empty where that has still to be chosen, for the group as a whole.

    Attributes:
        group: 16 hex digits each.
        pool: names.
        bridges: unit's label → first rows of those that would join two pools, and have no place.
    """

    group: npt.NDArray[np.object_]
    pool: npt.NDArray[np.object_]
    bridges: Mapping[str, tuple[int, ...]]


def placed(
    mix: Mix, units: Sequence[Unit], found: Candidates, verdicts: Folder, measures: Folder, of: Before
) -> Placed:
    """Where candidates belong.

    They are tried in the order of rank and id: by the nodes of each first, and, where no one joins two pools, by the
    components of judging too, which hold whom likeness joins.
    """
    firsts = [_firsts(unit, verdicts, measures) for unit in units]
    table = pa.concat_tables(firsts) if firsts else None
    if table is None or not table.num_rows:
        return Placed(found.group, np.full(len(found), "", object), {})
    columns = [table[name].to_numpy() for name in NODE_COLUMNS]
    nodes = [{int(value) for value in row} for row in zip(*columns, strict=True)]
    for number, by in enumerate(mix.group_by):
        shared = found.shared(by)
        for row, node in zip(
            np.flatnonzero(shared).tolist(), of_kind(shared[shared != 0], number).tolist(), strict=True
        ):
            nodes[row].add(int(node))
    groups = [int(name, 16) for name in found.group]
    known = _known({*groups, *(node for some in nodes for node in some)}, of.ledgers)
    ids = table["trajectory_id"].to_pylist()
    rank = table["rank"].to_pylist()
    order = sorted(range(len(found)), key=lambda row: (rank[row], ids[row], found.unit[row], row))
    result = settled([sorted(some) for some in nodes], order, known)
    if not result.bridges.any():
        result = settled([sorted({*some, group}) for some, group in zip(nodes, groups, strict=True)], order, known)
    bridges: dict[str, list[int]] = {}
    labels = {unit.number: unit.label for unit in units}
    for row in np.flatnonzero(result.bridges).tolist():
        bridges.setdefault(labels[int(found.unit[row])], []).append(int(table["row"][row].as_py()))
    names = np.array([f"{int(group):016x}" for group in result.group], object)
    return Placed(names, result.pool, {label: tuple(rows) for label, rows in sorted(bridges.items())})


def _firsts(unit: Unit, verdicts: Folder, measures: Folder) -> pa.Table:
    """The nodes, rank, id and row of the first row of each kept trajectory of a unit."""
    judged = pa.Table.from_batches(read_batches(verdicts, unit.name, ["step", "kept"])).combine_chunks()
    columns = [*NODE_COLUMNS, "rank", "trajectory_id"]
    measured = pa.Table.from_batches(read_batches(measures, f"{unit.label}.parquet", columns)).combine_chunks()
    rows = np.flatnonzero(judged["kept"].to_numpy() & (judged["step"].to_numpy() == 0))
    return measured.take(pa.array(rows)).append_column("row", pa.array(rows))


def _known(wanted: set[int], ledgers: Sequence[Folder]) -> dict[int, Place]:
    """The places of those nodes that earlier generations know."""
    nodes = np.array(sorted(wanted), np.uint64)
    return {int(one["node"]): Place(int(one["group"]), POOLS[int(one["pool"])]) for one in known_nodes(nodes, ledgers)}


def known_nodes(nodes: npt.NDArray[np.uint64], ledgers: Sequence[Folder]) -> npt.NDArray[np.void]:
    """The rows of the ledgers of groups that are of these nodes, which are sorted."""

    def parts() -> Iterator[npt.NDArray[np.void]]:
        yield np.zeros(0, NODES)
        width = (1 << 64) // _PARTITIONS
        for number in range(_PARTITIONS):
            first, last = number * width, (number + 1) * width - 1
            begin, end = np.searchsorted(nodes, np.uint64(first)), np.searchsorted(nodes, np.uint64(last), "right")
            if begin < end:
                held = read_ledger(ledgers, "groups", first, last)
                yield held[np.isin(held["node"], nodes[begin:end])]

    return np.concatenate(list(parts()))
