"""The record of a run tells how it ended, whether that was well or not."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.hostile import GOOD
from trajmill.app.cli import cli
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.conservation import TooManyRejectsError
from trajmill.pipelines.run_record.summary import StageStart
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ShardError

RECIPE = Recipe(name="t", source="t")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "good.jsonl").write_bytes(GOOD)
    return folder


def record(out: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((out / "run.json").read_text())
    return values


def test_while_a_run_works_its_record_says_that_it_has_not_ended_and_then_that_it_has(raw: Path, tmp_path: Path):
    out, seen = tmp_path / "out", list[tuple[str, int | None]]()

    def look(start: StageStart) -> None:
        if start.steps:
            seen.append((start.stage, record(out)["exit_code"]))

    Run(RECIPE, [str(raw)], str(out), tell=look).run("normalize")
    assert seen == [("normalize", 137)]
    ended = record(out)
    assert (ended["exit_code"], ended["error"], ended["last_stage"]) == (0, None, "normalize")
    assert ended["finished"] >= ended["begun"]


def test_a_run_that_rejects_too_much_is_recorded_with_its_counts_and_its_recipe(tmp_path: Path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "notes.txt").write_text("no log")
    with pytest.raises(TooManyRejectsError):
        Run(RECIPE, [str(tmp_path / "raw")], str(tmp_path / "out")).run()
    ended = record(tmp_path / "out")
    assert (ended["exit_code"], ended["last_stage"]) == (2, "normalize")
    assert "100.0% of 1 files were not recognized" in ended["error"]
    assert ended["counts"]["files"]["lost"] == {"unrecognized": 1}
    assert load_recipe(str(tmp_path / "out" / "run.json")) == RECIPE


@pytest.mark.parametrize(("error", "code"), [(ShardError("/x cannot be read"), 4), (ZeroDivisionError("by zero"), 70)])
def test_a_run_that_fails_is_recorded_with_its_exit_code_and_without_secrets(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
):
    error.args = (f"{error.args[0]}, token ghp_16C7e42F292c6912E7710c838347Ae178B4a",)
    run = Run(RECIPE, [str(raw)], str(tmp_path / "out"))

    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr(run, "judge", failing)
    with pytest.raises(type(error)):
        run.run()
    ended = record(tmp_path / "out")
    assert (ended["exit_code"], ended["last_stage"]) == (code, "normalize")
    assert ended["error"]
    assert "ghp_16C7e42F292c6912E7710c838347Ae178B4a" not in ended["error"]


def test_where_not_even_the_record_can_be_written_the_error_is_the_one_that_ended_the_run(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "out"
    run = Run(RECIPE, [str(raw)], str(out))

    def full(*_: object, **__: object) -> None:
        monkeypatch.setattr(Folder, "write", full)
        raise ShardError("/out/x cannot be written: [Errno 28] No space left on device")

    monkeypatch.setattr(run, "judge", full)
    with pytest.raises(ShardError, match="/out/x"):
        run.run()
    assert record(out)["exit_code"] == 137


def test_a_run_that_is_refused_leaves_the_record_of_the_one_before(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    words = ["trajmill", "run", "terminal", "--raw", str(raw), "--out", str(tmp_path / "out"), "--stop-after", "plan"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    before = record(tmp_path / "out")
    assert (ended.value.code, before["exit_code"], before["command"]) == (0, 0, words)
    monkeypatch.setattr("sys.argv", [*words[:2], "swe", *words[3:]])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert record(tmp_path / "out") == before
