"""A task of more rollouts than any pool is to have ends a run before judging, unless the recipe bounds it."""

import json
from pathlib import Path
from typing import Any

import pytest

from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError

ROLLOUTS, OTHERS = 120, 60


def rollout(question: str, number: int) -> dict[str, Any]:
    call = {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": json.dumps({"n": number})}}
    return {
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": f"Entry {number}."},
        ]
    }


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    rows = [rollout("What is known of it?", number) for number in range(ROLLOUTS)]
    rows += [rows[0]] * 500  # equal rollouts are one
    rows += [rollout(f"What is known of {number}?", 1000 + number) for number in range(OTHERS)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def recipe(**sections: Any) -> Recipe:
    return parse_recipe(json.dumps({"name": "rows", "source": "tests", **sections}), "rows")


def test_a_task_that_no_pool_has_room_for_is_told_before_anything_is_judged(raw, tmp_path):
    with pytest.raises(ConfigError, match=r"One task has 120 of the 180 trajectories of mcp.*\n?.*judge\.max_share"):
        Run(recipe(mix={"pools": {"sft": 0.5, "eval": 0.5}}), [str(raw)], str(tmp_path / "out")).run()
    assert (tmp_path / "out" / "transitions" / "manifest.json").exists()
    assert not (tmp_path / "out" / "measures").exists()


@pytest.mark.parametrize(
    "sections",
    [
        {"mix": {"pools": {"sft": 0.7, "eval": 0.3}}},
        {"mix": {"pools": {"sft": 0.5, "eval": 0.5}}, "judge": {"max_share": {"task": 0.25}}},
    ],
)
def test_a_larger_pool_or_a_bound_on_tasks_lets_the_run_go_on(raw, tmp_path, sections):
    summary = Run(recipe(**sections), [str(raw)], str(tmp_path / "out")).run()
    assert summary.last == "mix"
    assert sum(summary.samples.values()) > 0


def test_a_run_that_draws_nothing_does_not_ask(raw, tmp_path):
    summary = Run(recipe(mix={"pools": {"sft": 0.5, "eval": 0.5}}), [str(raw)], str(tmp_path / "out")).run("judge")
    assert summary.last == "judge"
