"""Tasks with more rollouts than any pool may have, found before judging.

A group of trajectories is in one pool, and rollouts of one task form a group. A task that alone makes the draw
impossible is found from the transitions; further grouping is known only after judging.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.mix.pools import LARGE
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import row_groups
from trajmill.quality.fingerprint import text_hashes
from trajmill.quality.measure import task_nodes
from trajmill.schemas import ConfigError

_Hashes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"
_LEAVES: Final = ("trajectory_id", "step", "source", "task.id", "task.instruction")


def require_room(recipe: Recipe, units: Sequence[Unit], transitions: Folder) -> None:
    """Stop if one task has more trajectories of a domain, counted by id, than the largest pool may have.

    A recipe that bounds what is kept of a task is not checked.

    Raises:
        ConfigError: a task is too large for any pool.
    """
    if "task" in recipe.judge.max_share or (recipe.judge.max_per_task or LARGE) < LARGE:
        return
    share = max(recipe.mix.pools.values()) / sum(recipe.mix.pools.values())
    for domain in sorted({unit.domain for unit in units}):
        tasks = [_tasks(transitions, unit) for unit in units if unit.domain == domain]
        known, total = _count_trajectories(np.concatenate(tasks))
        most = int(known.max(initial=0))
        if most >= LARGE and most > share * total:
            raise ConfigError(
                f"One task has {most:,} of the {total:,} trajectories of {domain}, and the largest pool is to have "
                f"{share * total:,.0f}: rollouts of one task are in one pool. In the recipe, bound what is kept of a "
                f"task (judge.max_per_task: 10, or judge.max_share: {{task: {share / 2:.2g}}}), or give one pool a "
                "larger share (mix.pools)."
            )


def _tasks(transitions: Folder, unit: Unit) -> _Hashes:
    """Return hashes of the task, 0 if unknown, and of the id of each trajectory of a unit."""
    parts = [np.zeros((0, 2), np.uint64)]
    for group in row_groups(transitions, unit.name):
        batch = group.read(_LEAVES)
        first = batch["step"].to_numpy() == 0
        task = task_nodes(batch, np.zeros(batch.num_rows, np.uint64))
        parts.append(np.stack([task[first], text_hashes(batch["trajectory_id"])[first, 0]], axis=1))
    return np.concatenate(parts)


def _count_trajectories(tasks: _Hashes) -> tuple[npt.NDArray[np.int64], int]:
    """Count the trajectories of each known task, and all trajectories, each id once."""
    ids, first = np.unique(tasks[:, 1], return_index=True)
    task = tasks[first, 0]
    return np.unique(task[task != 0], return_counts=True)[1], len(ids)
