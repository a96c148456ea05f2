"""The record of a run: counts, losses, warnings about the mixture, and the log."""

import copy
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from tests.pipelines.hostile import GOOD
from trajmill.app.cli import cli
from trajmill.app.cli.tables import show_summary
from trajmill.app.console import Printer
from trajmill.pipelines.mix.mixture import Mixture
from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.recipe.recipe import Mix, Recipe
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.changes import changes, read_record
from trajmill.pipelines.run_record.conservation import Line, TooManyRejectsError, passage_lines
from trajmill.pipelines.run_record.run_log import RunLog
from trajmill.pipelines.run_record.summary import StageStart, Summary
from trajmill.pipelines.run_record.warnings import mixture_warnings
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ContractError, ShardError

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


RECORD: dict[str, Any] = {
    "version": "1.0",
    "begun": 0.0,
    "exit_code": 0,
    "finished": 1.0,
    "last_stage": "mix",
    "recipe": {"judge": {"rules": {"few_turns": {"min": 2}}}, "name": "a"},
    "counts": {"trajectories": {"entered": 10, "kept": 8}},
    "samples": {"sft.web": 4},
}


def changed(**values: Any) -> dict[str, Any]:
    return copy.deepcopy(RECORD) | values


def test_a_first_run_tells_of_no_change():
    assert changes(None, RECORD) == ()
    assert read_record(None) is read_record(b"{") is read_record(b"[]") is None


def test_settings_and_counts_that_differ_are_named_with_both_values():
    after = changed(
        recipe={"judge": {"rules": {"few_turns": {"min": 3}}}, "name": "a"},
        counts={"trajectories": {"entered": 10, "kept": 7}, "inputs": {"entered": 2, "kept": 2}},
        samples={"sft.web": 3, "rl.web": 1},
    )
    messages = [line.partition("Z: ")[2] for line in changes(RECORD, after)]
    assert messages == [
        "judge.rules.few_turns.min: 2 → 3",
        "trajectories: kept 8 → 7",
        "inputs: in 0 → 2, kept 0 → 2",
        "samples: rl.web 0 → 1, sft.web 4 → 3",
    ]


def test_a_run_that_stood_earlier_is_gone_on_with_and_counts_are_not_compared():
    killed = changed(exit_code=137, finished=None, last_stage="normalize")
    (message,) = changes(killed, RECORD)
    assert "it stood after normalize" in message


def test_the_record_of_another_version_is_no_reason_to_fail():
    assert changes({"begun": "yesterday"}, RECORD) == ()
    assert changes(changed(counts=[]), RECORD) == ()


LOSSES_RECIPE = "name: none\nsource: none\nnormalize: {max_reject_ratio: 1.0}\n"
NO_ANSWER = """{"type": "user", "sessionId": "a", "uuid": "1", "parentUuid": null, "version": "2.0.0", "cwd": "/",
"timestamp": "2025-01-01T00:00:00Z", "message": {"role": "user", "content": "Look."}}""".replace("\n", " ")


def test_a_run_that_keeps_nothing_tells_why_and_reports_it(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "log.jsonl").write_text(NO_ANSWER)
    (tmp_path / "recipe.yaml").write_text(LOSSES_RECIPE)
    out = tmp_path / "out"
    code, output, complained = ran("run", tmp_path / "recipe.yaml", "--raw", tmp_path / "raw", "--out", out)
    message = "nothing is kept: of 1 inputs, no_transitions 1"
    assert code == 0
    assert message in output.splitlines()
    assert "not written" not in complained
    assert message in (out / "report.html").read_text()
    assert "is empty" not in output


def test_a_report_that_was_not_written_is_not_named(tmp_path, monkeypatch):
    def failing(_: str) -> str:
        raise OSError("no room")

    monkeypatch.setattr("trajmill.app.report.report.write_report", failing)
    (tmp_path / "log.jsonl").write_text(NO_ANSWER)
    (tmp_path / "recipe.yaml").write_text(LOSSES_RECIPE)
    words = ("run", tmp_path / "recipe.yaml", "--raw", tmp_path / "log.jsonl", "--out", tmp_path / "out")
    code, output, complained = ran(*words)
    assert code == 0
    assert "no room" in complained
    assert "report.html" not in output


COUNTS = {
    "law.rows": 9, "law.windows": 2, "law.kept": 6, "law.dropped.too_short": 2, "law.dropped.duplicate": 3,
    "law.tokens": 100, "laws.rows": 1, "laws.kept": 1,
}  # fmt: skip


def test_each_component_has_a_line_whose_sum_holds():
    law, laws = passage_lines(["law", "laws"], COUNTS)
    assert (law.entered, law.kept, law.lost, law.merged) == (11, 6, {"too_short": 2}, {"duplicate": 3})
    assert (laws.entered, laws.kept, laws.dropped) == (1, 1, "none")


def test_a_passage_that_is_not_accounted_for_is_a_bug():
    with pytest.raises(ContractError, match="law"):
        passage_lines(["law"], {**COUNTS, "law.kept": 5})


def lines(data: bytes) -> list[str]:
    return [line.split(" ", 1)[1] for line in data.decode().splitlines()]


def test_a_folder_that_cannot_be_written_does_not_end_the_run_and_secrets_are_not_written():
    log, written = RunLog(), list[bytes]()

    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    log.open(None, full)
    log.add("here")
    log.open(None, written.append)
    log.add("ended with 4: https://me:hunter2hunter2@host/ is away")
    assert b"hunter2" not in written[-1]


def test_a_run_writes_its_log_beside_its_record_and_goes_on_with_it(tmp_path: Path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "good.jsonl").write_bytes(GOOD)
    for _ in range(2):
        Run(Recipe(name="t", source="t"), [str(tmp_path / "raw")], str(tmp_path / "out"), log=RunLog()).run("normalize")
    assert lines((tmp_path / "out" / "run.log").read_bytes()) == ["ended with 0, after normalize"] * 2


def row(domain: str = "web", component: str = "trajectories", **more: Any) -> dict[str, Any]:
    values = {"samples": 10, "tokens": 1000, "loss_tokens": 500, "available": 1000, "share": None, "shortfall": 0}
    return {"component": component, "domain": domain, **values, **more}


def mixture(pools: dict[str, Any], **stages: list[dict[str, Any]]) -> Mixture:
    return Mixture({}, stages, pools)


MIX = Mix.model_validate({"pools": {"sft": 0.8, "eval": 0.2}})
ASKED = {"sft": {"web": (80.0, 79)}, "eval": {"web": (20.0, 21)}}
SAMPLES = {"sft.web": 79, "eval.web": 30}


def test_a_pool_far_off_its_share_is_told_and_one_that_is_off_by_a_few_is_not():
    pools = {"sft": {"web": (80.0, 70), "swe": (400.0, 320)}, "eval": {"web": (20.0, 30), "swe": (100.0, 180)}}
    (line,) = mixture_warnings(mixture(pools, sft=[row()], eval=[row()]), MIX, SAMPLES)
    assert line == "pool eval was given 180 trajectories of swe, where its share is 100"


def short(budget: int) -> tuple[str, ...]:
    stage = {"components": {"a": {"weight": 0.5}, "b": {"weight": 0.5}}, "budget": budget}
    mix = Mix.model_validate({"pools": {"sft": 0.8, "eval": 0.2}, "stages": {"sft": stage, "eval": {"samples": 40}}})
    rows = [row("web", "a", tokens=40_000), row("", "b", tokens=0, available=0, samples=0, shortfall=budget // 2)]
    return mixture_warnings(mixture(ASKED, sft=rows, eval=[row()]), mix, SAMPLES)


def test_what_falls_short_is_told_with_its_figures():
    assert short(40_000) == (
        "stage sft falls short: component 'b' gave 0 of the 20,000 tokens of its share, and 0 are there",
        "stage eval falls short: it drew 10 of the 40 samples asked for",
    )


def test_a_budget_that_no_sample_fills_is_told_unless_hardly_anything_is_left_of_it():
    mix = Mix.model_validate({"pools": {"sft": 1}, "stages": {"sft": {"budget": 80_000}}})
    by_size = {
        tokens: mixture_warnings(mixture({"sft": {"web": (9.0, 9)}}, sft=[row(tokens=tokens)]), mix, SAMPLES)
        for tokens in (52_157, 79_199, 79_200)
    }
    assert [len(lines) for lines in by_size.values()] == [1, 1, 0]
    assert "52,157 of the 80,000" in by_size[52_157][0]


def test_before_samples_are_made_what_is_drawn_counts():
    drawn = Mixture({"trajectories.sft.web": 79, "trajectories.eval.web": 0, "tokens.eval.web": 9}, {}, ASKED)
    assert mixture_warnings(drawn, MIX) == (
        "pool eval is empty: none of the 21 trajectories assigned to it makes a sample",
    )


def test_a_file_that_several_logs_share_counts_once(tmp_path):
    raw = Path(shutil.copytree(ROOT / "samples" / "swe" / "mini-calls", tmp_path / "raw"))
    (raw / "notes.txt").write_text("nothing")
    summary = Run(load_recipe("swe"), [str(raw)], str(tmp_path / "out")).run("normalize")
    files = {path.relative_to(raw).as_posix() for path in raw.rglob("*") if path.is_file()}
    assert sum("results_summary.json" in log.members for log in summary.plan.inputs) > 1
    assert (summary.line("files").entered, summary.line("files").kept) == (len(files), len(files) - 1)


def test_the_last_screen_adds_up_to_what_was_found_and_counts_what_was_written():
    line = Line("trajectories", 50, 6, {}, {"no_calls": 5, "contaminated": 39}, {})
    summary = Summary(
        "out",
        "mix",
        (line,),
        Plan("d", (), ()),
        domains={"mcp": (37, 1), "web": (8, 5)},
        samples={"rl.web": 2, "eval.web": 1, "sft.mcp": 1},
        drawn_tokens={"rl.web": 40, "sft.mcp": 70},
        loss_tokens={"sft.mcp": 30},
    )
    output = io.StringIO()
    show_summary(summary, RECIPE, Printer(output), is_reported=False)
    rows = [[cell.strip() for cell in row.split("│")[1:-1]] for row in output.getvalue().splitlines() if "│" in row]
    assert rows == [
        ["mcp", "37", "1", "70", "0", "0"],
        ["web", "8", "5", "0", "40", "1"],
        ["not judged", "5", "0", "", "", ""],
        ["all", "50", "6", "70", "40", "1"],
        ["under loss", "", "", "30", "", ""],
    ]


def test_a_run_tells_it_at_its_end_and_in_its_record(raw, tmp_path):
    recipe = load_recipe("terminal")
    values = recipe.model_dump(mode="json")
    values["mix"]["stages"] = {"sft": {"budget": 10_000_000}}
    values["mix"]["pools"] = {"sft": 1, "eval": 0.0001}
    recipe = type(recipe).model_validate(values)
    summary = Run(recipe, [str(raw)], str(tmp_path / "out")).run()
    output = io.StringIO()
    show_summary(summary, recipe, Printer(output), is_reported=True)
    assert "pool eval is empty: no group of trajectories was assigned to it\n" in output.getvalue()
    assert " of the 10,000,000 tokens asked for; short is terminal of component 'trajectories'\n" in output.getvalue()
    assert "pool eval is empty" in (tmp_path / "out" / "run.json").read_text()
