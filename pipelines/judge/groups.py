"""Groups of trajectories that no two pools share: components over tasks, instances, families and likeness."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from pipelines.judge.decision import Answers, Key, Keys
from pipelines.judge.packed_rows import SIMILAR
from pipelines.judge.reasons import BRIDGES_POOLS
from pipelines.judge.standing import Standing
from quality.group import components

GROUPS: Final = "groups"
"""The round that finds them."""


def edges(standing: Standing) -> Keys:
    """Distinct pairs of nodes that belong together, packed: a task with an instance, a family, or one that is alike."""
    measures = standing.measures
    task, *others = (
        measures.column(name)[measures.starts] for name in ("task_node", "instance_node", "own_node", "parent_node")
    )
    # one that would join two pools joins nothing
    apart = np.isin(measures.starts, standing.losers[BRIDGES_POOLS]["row"])
    others = [np.where(apart, task, other) for other in others]
    pairs = np.concatenate([np.stack([task, other], axis=1) for other in others])
    alike = [np.frombuffer(data, "<u8").reshape(-1, 2) for data in standing.told(SIMILAR)]
    yield 0, np.unique(np.concatenate([pairs.astype("<u8"), *alike]), axis=0).tobytes()


def components_of(key: Key, packed: Iterable[bytes]) -> Answers:
    """Every node and the name of its group, packed: two arrays of 64-bit numbers, one after the other."""
    pairs = np.concatenate([np.frombuffer(data, "<u8").reshape(-1, 2) for data in packed])
    nodes, groups = components(pairs.astype(np.uint64))
    yield GROUPS, int(key), np.concatenate([nodes, groups]).astype("<u8").tobytes()
