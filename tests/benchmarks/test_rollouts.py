"""Generated rollouts repeat as real ones do, and a unit of them is judged like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import judge_memory
from benchmarks.logs.rollouts import DOMAINS, task
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder


@pytest.mark.parametrize("domain", list(DOMAINS))
def test_rollouts_of_a_task_begin_alike_and_the_same_seed_gives_the_same(domain: str):
    rollouts = [list(task(domain, place, 7)) for place in range(12)]
    assert rollouts == [list(task(domain, place, 7)) for place in range(12)]
    several = [of for of in rollouts if len(of) > 1]
    assert several
    for of in several:
        assert len({one.steps[0].action for one in of}) == 1
        assert len({one.native_id for one in of}) == len(of)


def test_a_unit_of_rollouts_is_judged_with_every_rule(tmp_path: Path):
    unit, size, count, _ = judge_memory.write_unit(Folder(str(tmp_path / "transitions")), 0, 0, 7, most=1_500_000)
    told = Run(judge_memory.recipe(), [], str(tmp_path)).judge([unit]).counts
    assert size >= 1_500_000
    assert told["trajectories"] == count
    assert told["trajectories.dropped.duplicate_trajectory"] > 0
    assert told["transitions.target"] > told["transitions"] / 4
