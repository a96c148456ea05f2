"""The SWE samples are read as what was done in the boxes when they were recorded, and as the tests judged it."""

import json
import re
from collections import Counter
from functools import cache
from typing import Final

import pytest

from samples.makers.record_predictions import EVALUATIONS, MODEL, PREDICTIONS
from samples.makers.record_swe import EVALUATION, WITH_FOLDERS, trajectory_path
from samples.makers.swe_box import FOLDER
from samples.makers.swe_forms import LIMIT, SUBMIT
from samples.makers.swe_judge import passing
from samples.makers.swe_script import MINI_AGENTS, OWNER, TEXT_AGENTS, Call, Run, runs, tasks
from tests.conftest import ROOT
from tests.samples.reading import read_samples
from trajmill.schemas import MESSAGE, Reject, Step, Trajectory

SAMPLES: Final = ROOT / "samples" / "swe"
RUNS, COPIES = runs()
TASKS: Final = tasks()
HANDED_IN: Final = [run for run in RUNS if run.ends == "patch"]
SUMMARIES: Final = {"mini-calls": "results_summary.json", "swe-text": "results.json"}


def name_of(run: Run) -> str:
    return f"{run.agent}-{run.task}"


@cache
def read() -> tuple[dict[tuple[str, str], Trajectory], list[Reject], Counter[str]]:
    """(trajectories by log and native id, rejects, inputs by connector)."""
    logs, connectors, rejects = read_samples("swe", SAMPLES)
    trajectories = {(uri, trajectory.native_id): trajectory for uri, trajectory in logs}
    return trajectories, rejects, Counter(connectors.values())


def trajectory(run: Run) -> Trajectory:
    """The trajectory of a run, whose log is the file of its own."""
    task = TASKS[run.task]
    return read()[0][trajectory_path(run, task, run.agent), task.instance]


def patches(agent: str) -> dict[str, str]:
    """Instance → patch, of an agent's predictions."""
    if agent == "swe-text":
        rows = [json.loads(line) for line in (SAMPLES / agent / "all_preds.jsonl").read_text("utf-8").splitlines()]
    else:
        rows = list(json.loads((SAMPLES / agent / "preds.json").read_text("utf-8")).values())
    return {row["instance_id"]: row["model_patch"] for row in rows}


def test_the_folder_is_small_and_everything_in_it_is_read():
    assert sum(path.stat().st_size for path in SAMPLES.rglob("*") if path.is_file()) < 1_000_000
    trajectories, rejects, connectors = read()
    unanswered = [entry for entry in HANDED_IN if entry.agent not in WITH_FOLDERS]
    assert Counter(reject.reason for reject in rejects) == {"no_observation": len(unanswered) + 1}
    judged = sum(run.agent in WITH_FOLDERS for run in HANDED_IN) + len(at_once()) - 1
    assert connectors == {
        "mini_swe_agent": sum(run.agent in MINI_AGENTS for run in RUNS) + len(COPIES),
        "sweagent": sum(run.agent not in MINI_AGENTS for run in RUNS),
        "swebench_eval": judged,
        "swebench_predictions": len({entry.agent for entry in unanswered}) + 1,
    }
    assert len(trajectories) == len(RUNS) + len(COPIES) + judged


def at_once() -> list[dict[str, str]]:
    """The predictions of the model that answers an issue at once."""
    return [json.loads(line) for line in (SAMPLES / PREDICTIONS).read_text("utf-8").splitlines()]


def test_a_patch_stands_between_the_issue_with_its_files_and_what_the_tests_said():
    *judged, left = at_once()
    for row in judged:
        instance = row["instance_id"]
        log = read()[0][f"{EVALUATIONS}/{instance}", instance]
        (step,) = log.steps
        assert log.agent.model == MODEL
        assert json.loads(step.action.arguments or "") == {"patch": row["model_patch"]}
        task = next(task for task in TASKS.values() if task.instance == instance)
        shown = (step.observation and step.observation.content) or ""
        assert shown.startswith(task.issue.strip())
        assert re.findall(r"^\[start of (.*)\]$", shown, re.MULTILINE) == re.findall(
            r"^\+\+\+ b/(.*)$", row["model_patch"], re.MULTILINE
        )
        output = (step.next_observation and step.next_observation.content) or ""
        folder = SAMPLES / EVALUATIONS / instance
        if (folder / "test_output.txt").exists():
            assert output in (folder / "test_output.txt").read_text("utf-8")
            assert passing(output)
        else:
            report = json.loads((folder / "report.json").read_text("utf-8"))
            assert json.loads(output) == report[instance]["tests_status"]
    unanswered = left["instance_id"]
    assert (f"{EVALUATIONS}/{unanswered}", unanswered) not in read()[0]


@pytest.mark.parametrize("agent", WITH_FOLDERS)
def test_a_patch_of_an_agent_is_met_by_the_issue_that_its_trajectory_states(agent):
    for run in (entry for entry in HANDED_IN if entry.agent == agent):
        task = TASKS[run.task]
        (step,) = read()[0][f"{agent}/{EVALUATION}/{agent}/{task.instance}", task.instance].steps
        assert step.observation is not None
        assert step.observation.content == task.issue.strip()


def checked(step: Step, run: Run, call: Call) -> None:
    """Holds a row to a command and to what must come of it."""
    if run.agent in TEXT_AGENTS or call.name == "bash":
        assert (step.action.name, json.loads(step.action.arguments or "")) == ("bash", {"command": call.line})
    else:
        assert (step.action.name, json.loads(step.action.arguments or "")) == (call.name, call.arguments)
    assert step.next_observation is not None
    shown = step.next_observation.content or ""
    assert [part for part in call.told if part not in shown] == []
    if run.agent not in MINI_AGENTS:
        assert step.next_observation.uri in (FOLDER, "/tmp")
        assert not call.empty or shown == ""
        return
    assert step.exit_code == (call.code if call.code is not None else None)
    if call.code is None:
        assert step.timed_out is True
        return
    assert "<returncode>" not in shown
    assert not call.empty or shown == ""
    assert (step.next_observation.truncation == "harness") == (len(shown) > LIMIT)


@pytest.mark.parametrize("run", RUNS, ids=name_of)
def test_a_trajectory_holds_what_was_done_and_what_came_of_it(run):
    log = trajectory(run)
    steps = list(log.steps)
    assert log.task.id == TASKS[run.task].instance
    assert TASKS[run.task].issue in (log.task.instruction or "")
    assert log.environment.id == f"{OWNER}/{TASKS[run.task].repository}"
    for turn, move in enumerate(run.moves):
        if not move.calls:
            step = steps.pop(0)
            assert step.action.name == MESSAGE
            assert json.loads(step.action.arguments or "") == {"content": move.said}
            assert step.next_observation is not None
            assert step.next_observation.origin == "harness"
            assert f"found {move.said.count('```bash')} actions" in (step.next_observation.content or "")
        for index, call in enumerate(move.calls):
            step = steps.pop(0)
            assert (step.turn, step.call_index, step.num_calls) == (turn, index, len(move.calls))
            checked(step, run, call)
            words = (step.action.message or "") + (step.action.reasoning or "")
            assert (move.said in words) == (index == 0)
    if run.ends == "patch":
        handed = steps.pop(0)
        assert handed.terminated is True
        if run.agent in MINI_AGENTS:
            assert json.loads(handed.action.arguments or "") == {"command": SUBMIT}
        else:
            assert "submit" in handed.action.text
        assert handed.next_observation is not None
        assert handed.next_observation.content == patches(run.agent)[TASKS[run.task].instance]
    assert steps == []
    if run.ends == "limit":
        assert log.steps[-1].truncated is True


@pytest.mark.parametrize("run", RUNS, ids=name_of)
def test_the_outcome_is_what_the_tests_said(run):
    outcome = trajectory(run).outcome
    if run.ends != "patch":
        assert outcome is None
        return
    assert outcome is not None
    assert outcome.resolved == run.resolved
    instance = TASKS[run.task].instance
    if run.agent in WITH_FOLDERS:
        folder = f"{run.agent}/{EVALUATION}/{run.agent}/{instance}"
        (step,) = read()[0][folder, instance].steps
        assert json.loads(step.action.arguments or "") == {"patch": patches(run.agent)[instance]}
        assert step.next_observation is not None
        passed = passing(step.next_observation.content or "")
        assert all(passed.values()) == run.resolved
        report = json.loads((SAMPLES / folder / "report.json").read_text("utf-8"))[instance]
        assert report["resolved"] == run.resolved
        assert report["tests_status"]["FAIL_TO_PASS"] != {"success": [], "failure": []}
    else:
        assert (SAMPLES / run.agent / SUMMARIES[run.agent]).is_file()
