"""Replicates over generations: the bound counts what earlier ones bear, and what is forgotten counts no more."""

import json
from pathlib import Path

import polars as pl

from tests.pipelines.generations.test_append_near_copies import Logs
from trajmill.pipelines.generations.forgetting import Forgetting
from trajmill.pipelines.generations.traces import Selection
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe


def recipe(most: int | None) -> Recipe:
    values = {"name": "near", "source": "tests", "domains": ["terminal"], "judge": {"replicates": {"max": most}}}
    return parse_recipe(json.dumps(values), "near")


def bearing(stages: Path) -> int:
    """How many first turns bear the loss, which all stand in the same history."""
    rows = pl.read_parquet(stages / "verdicts" / "*" / "*.parquet")
    return len(rows.filter((pl.col("step") == 0) & (pl.col("use") == "target")))


def put(logs: Logs, name: str, count: int) -> None:
    for number in range(count):
        logs.put(f"{name}{number}", "the same task", logs.said(3))


def test_another_bound_counts_on_and_what_is_forgotten_counts_no_more(tmp_path):
    logs = Logs(tmp_path, recipe(1))
    put(logs, "a", 2)
    logs.add()
    put(logs, "b", 1)
    logs.recipe = recipe(2)
    logs.add()
    assert [bearing(stages) for stages in logs.stages()] == [1, 1]
    Forgetting(logs.recipe, logs.out).forget(Selection(sources=("b0.json",)))
    put(logs, "c", 3)
    logs.add()
    assert [bearing(stages) for stages in logs.stages()] == [1, 0, 1]
