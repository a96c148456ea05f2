"""The best of a task through whole runs: whatever the parts and the order, and never a part of an attempt."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.pipelines.judge.test_near_duplicates import atif
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run

ATTEMPTS: Sequence[tuple[str, int, Mapping[str, Any]]] = [
    ("failed", 2, {"resolved": False, "reward": 0.9}),
    ("unknown", 3, {}),
    ("solved, longer", 5, {"resolved": True}),
    ("solved, shorter", 4, {"resolved": True}),
    ("scored, low", 2, {"reward": 0.25}),
    ("scored, high", 6, {"reward": 250.0}),
]
"""Name, turns, outcome."""


def talk(task: str, name: str, turns: int, outcome: Mapping[str, Any]) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    for number in range(turns):
        asked = {"name": "look", "arguments": json.dumps({"at": f"{name} {number}"})}
        call = {"id": f"c{number}", "type": "function", "function": asked}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"{task}: {name} saw {number}"},
        ]
    return json.dumps({"messages": messages, **outcome})


def recipe(**judge: object) -> Recipe:
    values = {"near_duplicates": None, "replicates": None, "prefer": ["solved", "complete", "shorter"], **judge}
    return parse_recipe(
        json.dumps({"name": "b", "source": "tests", "domains": ["mcp", "terminal"], "judge": values}), "b"
    )


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The attempts at two tasks, one a file, and one attempt at a third."""
    folder = tmp_path_factory.mktemp("raw")
    logs = [talk(task, *attempt) for task in ("first", "second") for attempt in ATTEMPTS]
    for number, log in enumerate([*logs, talk("third", *ATTEMPTS[0])]):
        (folder / f"{number * 7 % 13}.jsonl").write_text(log + "\n")
    return folder


def judged(out: Path) -> pl.DataFrame:
    rows = pl.read_parquet(out / "transitions" / "*" / "*.parquet", columns=["row_id", "step", "task", "action"])
    rows = rows.with_columns(
        pl.col("task").struct.field("instruction").alias("task"),
        pl.col("action").struct.field("arguments").str.extract(r'"at": ?"(.+) \d+"').alias("name"),
    )
    verdicts = pl.read_parquet(out / "verdicts" / "*" / "*.parquet").join(rows, on="row_id")
    return verdicts.filter(pl.col("step") == 0).select("task", "name", "kept", "reason").sort("task", "name")


@pytest.mark.parametrize(
    ("most", "kept"),
    [
        (1, {"solved, shorter"}),
        (4, {"solved, shorter", "solved, longer", "scored, high", "scored, low"}),
    ],
)
def test_the_best_of_each_task_are_kept_by_outcome_score_and_length(
    raw: Path, tmp_path: Path, most: int, kept: set[str]
):
    tables = []
    for part_bytes in (1 << 28, 4_000):
        out = tmp_path / str(part_bytes)
        Run(recipe(max_per_task=most), [str(raw)], str(out), Execution(part_bytes=part_bytes)).run("judge")
        tables.append(judged(out))
    assert tables[0].equals(tables[1])
    for task in ("first", "second"):
        of_task = tables[0].filter(pl.col("task") == task)
        assert set(of_task.filter(pl.col("kept"))["name"]) == kept
        assert set(of_task.filter(~pl.col("kept"))["reason"]) == {"max_per_task"}
    assert tables[0].filter(pl.col("task") == "third")["kept"].to_list() == [True]
    rejects = pl.read_parquet(out / "rejects" / "judge" / "*.parquet")
    assert rejects.select("unit", "reason").rows() == [("trajectory", "max_per_task")] * 2 * (len(ATTEMPTS) - most)
    assert rejects["detail"].str.contains("best is trajectory [0-9a-f]{16}").all()


def test_what_rules_drop_takes_no_place_of_its_task(raw: Path, tmp_path: Path):
    rules = {"long": {"signal": "turns", "min": 5}, "failed": {"signal": "outcome", "min": 0}}
    Run(recipe(max_per_task=1, rules=rules), [str(raw)], str(tmp_path)).run("judge")
    table = judged(tmp_path).filter(pl.col("task") == "first")
    assert dict(table.select("name", "reason").rows()) == {
        "failed": "long",
        "scored, high": "max_per_task",
        "scored, low": "long",
        "solved, longer": None,
        "solved, shorter": "long",
        "unknown": "long",
    }


def test_a_rule_of_another_domain_drops_nothing(raw: Path, tmp_path: Path):
    rules = {"failed": {"signal": "outcome", "min": 0, "domains": ["terminal"]}}
    Run(recipe(rules=rules), [str(raw)], str(tmp_path)).run("judge")
    assert judged(tmp_path)["kept"].all()


def test_equal_transitions_of_attempts_that_go_take_no_loss(tmp_path: Path):
    folder = tmp_path / "raw"
    folder.mkdir()
    for name, outcome in (("a", {"resolved": False}), ("b", {"resolved": True})):
        log = talk("task", "same", 3, {}).removesuffix("}")
        more = talk("task", name, 1, {})
        messages = json.loads(log + "}")["messages"] + json.loads(more)["messages"][1:]
        (folder / f"{name}.jsonl").write_text(json.dumps({"messages": messages, **outcome}) + "\n")
    Run(recipe(max_per_task=1), [str(folder)], str(tmp_path / "out")).run("judge")
    uses = pl.read_parquet(tmp_path / "out" / "verdicts" / "*" / "*.parquet")
    assert uses.filter(pl.col("kept"))["use"].to_list() == ["target"] * 4
    assert uses.filter(~pl.col("kept"))["reason"].to_list() == ["max_per_task"] * 4


def test_sub_agents_are_no_attempts_at_a_task(tmp_path: Path):
    inner = {**atif("inner", "dig", ["a hole"]), "trajectory_id": "inner"}
    whole = {**atif("s", "dig", ["stones", "earth"]), "trajectory_id": "whole", "subagent_trajectories": [inner]}
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "s.json").write_text(json.dumps(whole))
    (tmp_path / "raw" / "t.json").write_text(json.dumps(atif("t", "dig", ["roots"])))
    Run(recipe(max_per_task=1, near_duplicates={}), [str(tmp_path / "raw")], str(tmp_path / "out")).run("judge")
    rows = pl.read_parquet(tmp_path / "out" / "transitions" / "*" / "*.parquet", columns=["row_id", "step", "relation"])
    table = pl.read_parquet(tmp_path / "out" / "verdicts" / "*" / "*.parquet").join(rows, on=["row_id", "step"])
    first = table.filter(pl.col("step") == 0).select("relation", "kept").sort("relation", "kept")
    assert first.rows() == [(None, False), (None, True), ("subagent", True)]


@pytest.mark.parametrize(("most", "reason"), [(1, "max_per_task"), (2, None)])
def test_a_later_generation_fills_the_places_that_earlier_ones_left(tmp_path: Path, most: int, reason: str | None):
    folders = [tmp_path / name for name in ("monday", "tuesday")]
    for folder, outcome in zip(folders, (False, True), strict=True):
        folder.mkdir()
        (folder / "log.jsonl").write_text(talk("task", folder.name, 2, {"resolved": outcome}) + "\n")
    asked, out = recipe(max_per_task=most), tmp_path / "out"
    Run(asked, [str(folders[0])], str(out)).run()
    result = Append(asked, [str(folder) for folder in folders], str(out)).run()
    assert judged(out)["kept"].to_list() == [True]
    assert judged(out / result.generation.folder)["reason"].to_list() == [reason]
