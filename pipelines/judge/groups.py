"""Groups of trajectories that must share a pool: connected components over tasks, instances, families and similarity.

Each unit first joins its own nodes. Only nodes that several units hold tie its groups to those of others, so the
exchange holds a pair for each of these rather than one for each trajectory:

    nodes and the groups of their units ─▶ groups that share a node ─▶ their names
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.judge.corpus_rule import Answers, Key, Keys, Round
from trajmill.pipelines.judge.packed_rows import SIMILAR, apart, partition_records, unpack
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import BRIDGES_POOLS
from trajmill.quality.group import components, name_edges

GROUPS: Final = "groups"
"""Name of the round that names the groups."""

_TIES: Final = "ties"

_NODE: Final = np.dtype([("node", "<u8"), ("group", "<u8"), ("unit", "<u4")])
"""A node and its group in a unit, which is named by the smallest node of the group."""

_TIE: Final = np.dtype([("group", "<u8"), ("other", "<u8"), ("unit", "<u4")])
"""A group of a unit, and a group of another unit that shares a node with it. Each block is of one unit."""

_NAME: Final = np.dtype([("group", "<u8"), ("name", "<u8")])
"""A group of a unit, and the smallest node of all groups tied to it."""

Nodes = npt.NDArray[np.uint64]


def _within(standing: Standing) -> tuple[Nodes, Nodes]:
    """Return the nodes of a unit, sorted, and the smallest node in the component of each within the unit."""
    measures = standing.measures
    task, *columns = (
        measures.column(name)[measures.starts] for name in ("task_node", "own_node", "parent_node", "instance_node")
    )
    # a trajectory that would join two pools joins nothing
    apart_from = np.isin(measures.starts, standing.losers[BRIDGES_POOLS]["row"])
    own, parent, instance = (np.where(apart_from, task, column) for column in columns)
    pairs = [np.stack([task, own], axis=1)]
    pairs += [np.stack([task, more], axis=1)[(more != task) & (more != own)] for more in (parent, instance)]
    alike = [np.frombuffer(data, "<u8").reshape(-1, 2) for data in standing.told(SIMILAR)]
    return components(np.concatenate([*pairs, *alike]))


def collect_nodes(standing: Standing) -> Keys:
    """Yield packed nodes of a unit with their groups, by partition of the node."""
    nodes, groups = _within(standing)
    records = np.zeros(len(nodes), _NODE)
    records["node"], records["group"], records["unit"] = nodes, groups, standing.unit.number
    yield from partition_records(records, "node", standing.judging.partitions)


def tie_groups(_: Key, packed: Iterable[bytes]) -> Answers:
    """Send units the groups that share a node with groups of other units."""
    records = unpack(packed, _NODE)
    records = records[np.lexsort([records[name] for name in ("unit", "group", "node")])]
    first, node_index, count = np.unique(records["node"], return_index=True, return_inverse=True, return_counts=True)[
        1:
    ]
    shared = count[node_index] > 1
    ties = np.zeros(int(shared.sum()), _TIE)
    ties["group"], ties["other"] = records["group"][shared], records["group"][first][node_index][shared]
    ties["unit"] = records["unit"][shared]
    yield from ((_TIES, *each) for each in apart(ties, ties["unit"]))


def ties(standing: Standing) -> Keys:
    """Yield the distinct ties of a unit's groups."""
    distinct = np.unique(unpack(standing.told(_TIES), _TIE))
    if len(distinct):
        yield 0, distinct.tobytes()


def name_groups(_: Key, packed: Iterable[bytes]) -> Answers:
    """Send units the names of groups that are tied to others, a block at a time."""
    units: list[tuple[int, int]] = []
    columns = {"group": bytearray(), "other": bytearray()}
    for data in packed:
        ties = np.frombuffer(data, _TIE)
        units.append((int(ties["unit"][0]), len(ties)))
        for name, column in columns.items():
            column.extend(ties[name].tobytes())
    groups, names = (np.frombuffer(column, "<u8") for column in columns.values())
    name_edges((groups, names))
    begin = 0
    for unit, count in units:
        records = np.zeros(count, _NAME)
        records["group"], records["name"] = (side[begin : begin + count] for side in (groups, names))
        begin += count
        yield GROUPS, unit, records.tobytes()


def groups_of(standing: Standing) -> Nodes:
    """Name the group of each row of a unit, once all answers have arrived."""
    nodes, groups = _within(standing)
    row_groups = groups[np.searchsorted(nodes, standing.measures.column("task_node"))]
    names = np.unique(unpack(standing.told(GROUPS), _NAME))
    if not len(names):
        return row_groups
    position = np.minimum(np.searchsorted(names["group"], row_groups), len(names) - 1)
    return np.where(names["group"][position] == row_groups, names["name"][position], row_groups)


@dataclass(frozen=True, slots=True)
class Grouping:
    """Rule that names groups and drops nothing.

    Attributes:
        likeness: rounds whose answers name similar nodes.
    """

    likeness: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    losing: str = ""
    reported: tuple[str, ...] = (GROUPS,)

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (
            Round(_TIES, collect_nodes, tie_groups, self.likeness, sees_losses=False, heavy=True),
            Round(GROUPS, ties, name_groups, (_TIES,), sees_losses=False, heavy=True),
        )

    def words(self, reason: str, survivor: int) -> str:
        return "by the recipe's rule"
