"""Text of harnesses that no parser knows: its rows bear no loss, the end of a run names it, a table line removes it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from trajmill.connectors.conversation import harness_text
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.judge.harness_text import read_frames, table_line
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder

PROGRAMS = ("git", "ls", "pytest", "cat", "npm", "make")


def log(agent: str, number: int, wrapped: bool) -> dict[str, object]:
    """A session of one command a step, in the Agent Trajectory Interchange Format."""
    steps: list[dict[str, object]] = [{"step_id": 1, "source": "user", "message": f"task {number}"}]
    for index, program in enumerate(PROGRAMS):
        answer = f"{program} tells {agent} of {number}{index}{program[::-1]}" + (
            f"\n<took {number}{index} ms>" if wrapped else ""
        )
        call = {"tool_call_id": f"c{index}", "function_name": "bash", "arguments": {"command": f"{program} -x"}}
        result = {"source_call_id": f"c{index}", "content": answer}
        steps.append({"step_id": index + 2, "source": "agent", "message": "", "tool_calls": [call]})
        steps[-1]["observation"] = {"results": [result]}
    named = {"name": agent, "version": "2.1"}
    return {"schema_version": "ATIF-v1.4", "session_id": f"{agent}{number}", "agent": named, "steps": steps}


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions of an agent whose harness adds a line to every answer, and two of one that adds none."""
    folder = tmp_path_factory.mktemp("raw")
    for agent, wrapped in (("crane", True), ("heron", False)):
        for number in range(2):
            (folder / f"{agent}{number}.json").write_text(json.dumps(log(agent, number, wrapped)))
    return folder


def judged(raw: Path, out: Path, part_bytes: int = 1 << 28, **settings: object) -> tuple[Counter[tuple[str, str]], Run]:
    """How often each agent's rows come to a reason, and the run."""
    values = {"name": "r", "source": "tests", "judge": {"near_duplicates": None, "harness_text": settings}}
    run = Run(parse_recipe(json.dumps(values), "r"), [str(raw)], str(out), Execution(part_bytes=part_bytes))
    run.run("judge")
    rows = pl.read_parquet(f"{out}/transitions/**/*.parquet").join(
        pl.read_parquet(f"{out}/verdicts/**/*.parquet"), on="row_id"
    )
    agents = rows["agent"].struct.field("name")
    return Counter(zip(agents.to_list(), rows["reason"].fill_null("").to_list(), strict=True)), run


@pytest.mark.parametrize("part_bytes", [1 << 28, 1_000])
def test_rows_that_stand_in_frames_bear_no_loss_whatever_the_parts(raw: Path, tmp_path: Path, part_bytes: int):
    counts, _ = judged(raw, tmp_path, part_bytes, max=0.1)
    assert counts == {("crane", "no_target"): 12, ("heron", ""): 12}
    (row,) = read_frames(Folder(str(tmp_path)) / "measures")
    assert (row["agent"], row["version"], row["tool"], row["place"]) == ("crane", "2.1", "bash", "tail")
    assert (row["answers"], row["among"], row["kinds"]) == (12, 12, 6)
    assert row["example"].startswith("<took ")


def test_frames_are_listed_by_agent_and_the_most_frequent_first(tmp_path: Path):
    (tmp_path / "raw").mkdir()
    for agent, sessions in (("crane", 2), ("adder", 3)):
        for number in range(sessions):
            document: Any = log(agent, number, wrapped=True)
            for step in document["steps"][1 + number :: 2]:
                step["observation"]["results"][0]["content"] += f"\n(left {number} ms)"
            (tmp_path / "raw" / f"{agent}{number}.json").write_text(json.dumps(document))
    judged(tmp_path / "raw", tmp_path / "out", max=0.1)
    rows = [(row["agent"], -row["answers"]) for row in read_frames(Folder(str(tmp_path / "out")) / "measures")]
    assert rows == sorted(rows)
    assert len(rows) > len({agent for agent, _ in rows}) == 2


def test_an_agent_with_too_much_of_it_is_dropped_whole(raw: Path, tmp_path: Path):
    counts, _ = judged(raw, tmp_path, max=0.1, max_of_agent=0.2)
    assert counts == {("crane", "harness_share"): 12, ("heron", ""): 12}


def test_rows_with_less_of_it_than_the_recipe_allows_keep_their_loss(raw: Path, tmp_path: Path):
    counts, _ = judged(raw, tmp_path, max=0.9)
    assert counts == {("crane", ""): 12, ("heron", ""): 12}


def test_the_end_of_a_run_names_the_agent_and_its_lines(raw: Path, tmp_path: Path):
    _, run = judged(raw, tmp_path, max=0.1)
    (warning,) = run.run("judge").warnings
    assert "crane 2.1" in warning
    assert "<took 00 ms>" in warning


def test_a_line_of_the_table_made_of_a_frame_takes_it_out_of_answers(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    judged(raw, tmp_path / "before", max=0.1)
    lines = [table_line(row) for row in read_frames(Folder(str(tmp_path / "before")) / "measures")]
    monkeypatch.setattr(harness_text, "FORMS", (*harness_text.FORMS, *harness_text.read_forms("\n".join(lines))))
    for cached in (harness_text.forms, harness_text._patterns):
        cached.cache_clear()
    counts, _ = judged(raw, tmp_path / "after", max=0.1)
    for cached in (harness_text.forms, harness_text._patterns):
        cached.cache_clear()
    assert counts == {("crane", ""): 12, ("heron", ""): 12}
    shown = pl.read_parquet(f"{tmp_path}/after/transitions/**/*.parquet")["next_observation"].struct.field("content")
    assert not shown.str.contains("took").any()
