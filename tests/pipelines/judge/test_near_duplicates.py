"""Near duplicates through a whole run: found across parts, merged with a reason, and never in two pools."""

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.judge.near_duplicates import _goes_on
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run

VOCABULARY = [f"word{number}" for number in range(3000)]


def atif(session: str, task: str, answers: list[str]) -> dict[str, object]:
    """A session in ATIF whose agent runs one command a step."""
    steps: list[dict[str, object]] = [{"step_id": 1, "source": "user", "message": task}]
    for number, answer in enumerate(answers, 2):
        call = {"tool_call_id": f"c{number}", "function_name": "bash", "arguments": {"command": f"step {number}"}}
        result = {"source_call_id": f"c{number}", "content": answer}
        observed = {"results": [result]}
        step = {"step_id": number, "source": "agent", "message": "", "tool_calls": [call], "observation": observed}
        steps.append(step)
    agent = {"name": "a", "version": "1"}
    return {"schema_version": "ATIF-v1.4", "session_id": session, "agent": agent, "steps": steps}


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four tasks of five rollouts that share six of ten steps; of each task one is copied with a word changed."""
    random_ = random.Random(11)
    folder = tmp_path_factory.mktemp("raw")

    def said() -> str:
        return " ".join(random_.choices(VOCABULARY, k=80))

    for task in range(4):
        prefix = [said() for _ in range(6)]
        for rollout in range(5):
            tail = [said() for _ in range(4)]
            log = atif(f"{task}-{rollout}", f"task {task}", prefix + tail)
            (folder / f"{task}-{rollout}.json").write_text(json.dumps(log))
            if rollout == 3:
                copy = [" ".join(["changed", *text.split()[1:]]) for text in tail]
                log = atif(f"{task}-copy", f"the same as task {task}", prefix + copy)
                (folder / f"copy-{task}.json").write_text(json.dumps(log))
    return folder


def recipe(**judge: object) -> Recipe:
    return parse_recipe(
        json.dumps({"name": "near", "source": "tests", "domains": ["terminal"], "judge": judge}), "near"
    )


def verdicts(out: Path) -> pl.DataFrame:
    names = pl.scan_parquet(out / "transitions" / "*" / "*.parquet").select(
        "trajectory_id", "step", pl.col("provenance").struct.field("uri")
    )
    table = pl.scan_parquet(out / "verdicts" / "*" / "*.parquet")
    return table.join(names, on=["trajectory_id", "step"]).filter(pl.col("step") == 0).sort("uri").collect()


@pytest.mark.parametrize("part_bytes", [1 << 28, 40_000])
def test_only_copies_go_and_the_reject_names_who_stays(raw: Path, tmp_path: Path, part_bytes: int):
    Run(recipe(), [str(raw)], str(tmp_path), Execution(part_bytes=part_bytes)).run("judge")
    gone = verdicts(tmp_path).filter(~pl.col("kept"))
    pairs = {tuple(sorted((f"copy-{task}", f"{task}-3"))) for task in range(4)}
    assert gone["reason"].unique().to_list() == ["near_duplicate"]
    assert len(gone) == 4
    rejects = pl.read_parquet(tmp_path / "rejects" / "judge" / "*.parquet").filter(pl.col("reason") == "near_duplicate")
    ids = {row["trajectory_id"][:16]: row["uri"] for row in verdicts(tmp_path).iter_rows(named=True)}
    for row in rejects.iter_rows(named=True):
        stays = ids[row["detail"].split()[-1].rstrip("…")]
        names = sorted(uri.rpartition("/")[2].removesuffix(".json") for uri in (row["uri"], stays))
        assert tuple(names) in pairs


def test_copies_share_a_group_even_where_none_goes(raw: Path, tmp_path: Path):
    Run(recipe(near_duplicates={"max_absent": 0.0}), [str(raw)], str(tmp_path)).run("judge")
    groups = {row["uri"]: row["group"] for row in verdicts(tmp_path).iter_rows(named=True)}
    assert len(groups) == 24
    for task in range(4):
        assert groups[f"copy-{task}.json"] == groups[f"{task}-3.json"]
    assert len(set(groups.values())) == 4


@pytest.mark.parametrize(
    ("steps", "goes_on"),
    [([1, 2, 3], True), ([1, 9], True), ([1, 2, 9], False), ([8, 2], False), ([9], False), ([1], True)],
)
def test_a_log_goes_on_from_one_whose_last_answer_alone_may_have_been_cut(steps, goes_on):
    def sketched(*steps: int) -> Any:
        return SimpleNamespace(starts=np.array([0]), lengths=np.array([len(steps)]), step=np.array(steps))

    first, has_text = np.array([0]), np.ones(len(steps), np.bool_)
    assert _goes_on(sketched(1, 2, 3), first, sketched(*steps), first, has_text).tolist() == [goes_on]
