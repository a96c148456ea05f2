"""Bounds on shares through a whole run: they hold of what is kept, whatever the parts, and each loss has its row."""

import json
from pathlib import Path

import polars as pl
import pytest

from tests.pipelines.judge.test_near_duplicates import atif
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen rollouts of one task and two of each of four others; every second command is `git`."""
    folder = tmp_path_factory.mktemp("raw")
    for number in range(24):
        task = f"task {0 if number < 16 else number // 2}"
        log = json.dumps(atif(f"s{number}", task, [f"answer {number} {step}" for step in range(6)]))
        for step in range(2, 8):
            log = log.replace(f'"step {step}"', f'"{"git" if step % 2 else f"tool{step}"} {number}-{step}"')
        (folder / f"s{number}.json").write_text(log)
    return folder


def recipe(shares: dict[str, float], **judge: object) -> Recipe:
    values = {"near_duplicates": None, "max_share": shares, **judge}
    return parse_recipe(json.dumps({"name": "s", "source": "tests", "domains": ["terminal"], "judge": values}), "s")


def judged(out: Path) -> pl.DataFrame:
    names = pl.read_parquet(
        out / "transitions" / "*" / "*.parquet", columns=["trajectory_id", "step", "task", "action"]
    )
    names = names.with_columns(
        pl.col("task").struct.field("instruction").alias("task"),
        pl.col("action").struct.field("arguments").str.extract(r'"(git|tool\d)').alias("head"),
    ).drop("action")
    table = pl.read_parquet(out / "verdicts" / "*" / "*.parquet").join(names, on=["trajectory_id", "step"])
    return table.select("trajectory_id", "step", "task", "head", "kept", "use", "reason").sort("trajectory_id", "step")


def test_bounds_hold_of_what_is_kept_whatever_the_parts(raw: Path, tmp_path: Path):
    tables = []
    for part_bytes in (1 << 28, 10_000):
        out = tmp_path / str(part_bytes)
        bounded = recipe({"task": 0.25, "command_head": 0.3})
        summary = Run(bounded, [str(raw)], str(out), Execution(part_bytes=part_bytes)).run()
        tables.append(judged(out))
    assert len(list((tmp_path / "10000" / "verdicts" / "terminal").glob("*.parquet"))) > 3
    assert tables[0].equals(tables[1])
    survivors = tables[0].filter(pl.col("kept"))
    tasks = survivors.filter(pl.col("step") == 0)["task"].value_counts()["count"]
    assert sorted(tasks) == [2, 2, 2, 2, 2]
    heads = survivors.filter(pl.col("use") == "target")["head"].value_counts()
    assert dict(heads.rows()) == {"git": 12, "tool2": 10, "tool4": 10, "tool6": 10}
    assert dict(tables[0].filter(pl.col("use") != "target")["reason"].value_counts().rows()) == {
        "max_share_task": 14 * 6,
        "max_share_command_head": 18,
    }
    assert summary.line("trajectories").lost["max_share_task"] == 14
    rejects = pl.read_parquet(tmp_path / "10000" / "rejects" / "judge" / "*.parquet")
    assert dict(rejects["reason"].value_counts().rows()) == {"max_share_task": 14, "max_share_command_head": 18}
    assert set(rejects["detail"]) == {
        "as much of its task is kept as the recipe's share allows",
        "as much of its command head is kept as the recipe's share allows",
    }


def test_a_bound_that_cannot_hold_ends_the_run(raw: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"max_share\.task"):
        Run(recipe({"task": 0.1}), [str(raw)], str(tmp_path)).run()


def test_bounds_are_kept_by_what_caps_and_duplicates_leave(raw: Path, tmp_path: Path):
    rules = {"git": {"signal": "length_ratio", "max": 1.3, "cap": 0.4}}
    Run(recipe({"command_head": 0.3}, rules=rules), [str(raw)], str(tmp_path)).run("judge")
    table = judged(tmp_path)
    heads = dict(table.filter(pl.col("use") == "target")["head"].value_counts().rows())
    assert max(heads.values()) <= 0.3 * sum(heads.values())
    assert set(table["reason"]) == {None, "git", "max_share_command_head"}
