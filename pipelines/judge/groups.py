"""Groups of trajectories that no two pools share: components over tasks, instances, families and likeness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from pipelines.judge.judging import Judging, Unit
from pipelines.judge.measures import Measures, read_measures
from quality.group import components


def edges(unit: Unit, judging: Judging) -> Iterator[tuple[int, bytes]]:
    """The unit's distinct pairs of nodes that belong together, packed: a task with an instance and with a family."""
    measures = read_measures(unit, judging)
    task, *others = (
        measures.column(name)[measures.starts] for name in ("task_node", "instance_node", "own_node", "parent_node")
    )
    pairs = np.concatenate([np.stack([task, other], axis=1) for other in others])
    yield 0, np.unique(pairs.astype("<u8"), axis=0).tobytes()


def packed_groups(packed: Iterable[bytes]) -> bytes:
    """Every node and the name of its group, packed: two arrays of 64-bit numbers, one after the other."""
    pairs = np.concatenate([np.frombuffer(data, "<u8").reshape(-1, 2) for data in packed])
    nodes, groups = components(pairs.astype(np.uint64))
    return np.concatenate([nodes, groups]).astype("<u8").tobytes()


def group_names(measures: Measures, groups: bytes) -> pa.Array:
    """The name of the group of each row, from what `packed_groups` made."""
    nodes, names = np.frombuffer(groups, "<u8").reshape(2, -1)
    found = names[np.searchsorted(nodes, measures.column("task_node"))]
    distinct, inverse = np.unique(found, return_inverse=True)
    return pa.array([f"{int(name):016x}" for name in distinct], pa.string()).take(pa.array(inverse))
