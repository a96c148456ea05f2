"""The desktop samples are read as what was done when they were recorded, and show what came of it."""

import json
import tomllib
from functools import cache
from typing import Any, Final, Literal

import pytest

from tests.conftest import ROOT
from trajmill.connectors.desktop import action as act
from trajmill.connectors.desktop.osworld import OSWorld
from trajmill.connectors.screens.tree import Tree
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Normalize, Recipe
from trajmill.schemas import COMPLETE, WAIT, Reject, Trajectory

SAMPLES: Final = ROOT / "samples" / "os"
RUNS: Final[list[dict[str, Any]]] = tomllib.loads((ROOT / "samples" / "makers" / "os_tasks.toml").read_text("utf-8"))[
    "run"
]
NAMES: Final = {
    "click": act.CLICK, "double_click": act.DOUBLE_CLICK, "right_click": act.RIGHT_CLICK, "move": act.MOVE,
    "drag": act.DRAG, "scroll": act.SCROLL, "type": act.TYPE, "press": act.PRESS, "hotkey": act.HOTKEY, "wait": WAIT,
    "done": COMPLETE, "fail": act.FAIL,
}  # fmt: skip


def folder_of(run: dict[str, Any]) -> str:
    space, agent = run.get("space", "pyautogui"), run.get("agent", "scripted-a")
    return f"{space}/a11y_tree/{agent}/{run['app']}/{run['task']}"


def name_of(run: dict[str, Any]) -> str:
    return folder_of(run).replace("/", "-")


def steps_of(run: dict[str, Any]) -> list[tuple[str, list[str], bool]]:
    """(what was done, what must come of it, whether the tree was read at once) of each step."""
    lines = [line.strip() for line in run["steps"].splitlines() if line.strip()]
    parts = [line.removeprefix("!").partition(" -> ") for line in lines]
    return [
        (done.strip(), [part.strip() for part in effects.split(" | ") if part.strip()], line.startswith("!"))
        for line, (done, _, effects) in zip(lines, parts, strict=True)
    ]


@cache
def read(screen: Literal["tree", "raw"]) -> tuple[dict[str, Trajectory], list[Reject]]:
    recipe = Recipe(name="os", source="os", normalize=Normalize(screen=screen))
    plan = make_plan(recipe, [str(SAMPLES)])
    assert not plan.unrecognized
    trajectories, rejects = {}, []
    for log in plan.inputs:
        assert log.connector == OSWorld.name
        for result, _ in read_input(log, recipe):
            if isinstance(result, Reject):
                rejects.append(result)
            else:
                trajectories[log.uri] = result
    return trajectories, rejects


def test_the_folder_is_small_and_everything_in_it_is_read() -> None:
    files = [path for path in SAMPLES.rglob("*") if path.is_file()]
    assert len(files) < 500
    assert sum(path.stat().st_size for path in files) < 1_000_000
    trajectories, rejects = read("tree")
    assert rejects == []
    assert set(trajectories) == {folder_of(run) for run in RUNS} | {
        folder_of({**run, "agent": run["copy_agent"]}) for run in RUNS if "copy_agent" in run
    }


@pytest.mark.parametrize("run", RUNS, ids=name_of)
def test_a_trajectory_holds_what_was_done(run: dict[str, Any]) -> None:
    trajectory = read("tree")[0][folder_of(run)]
    wanted = steps_of(run)
    assert len(trajectory.steps) == len(wanted)
    assert trajectory.task.instruction == run["instruction"]
    assert trajectory.outcome is not None
    assert trajectory.outcome.score == float(run.get("result", "1.0"))
    for step, (done, _, hasty) in zip(trajectory.steps, wanted, strict=True):
        verbs = [part.partition(" ")[0] for part in done.split("; ")]
        assert step.action.name == (act.SEQUENCE if len(verbs) > 1 else NAMES[verbs[0]])
        arguments = json.loads(step.action.text)["arguments"]
        calls = arguments["calls"] if len(verbs) > 1 else [{"name": step.action.name, "arguments": arguments}]
        assert [call["name"] for call in calls] == [NAMES[verb] for verb in verbs]
        for call, part in zip(calls, done.split("; "), strict=True):
            verb, _, rest = part.partition(" ")
            if verb == "type":
                assert call["arguments"] == {"text": rest}
            elif verb == "press":
                assert call["arguments"] == {"key": rest}
            elif verb == "hotkey":
                assert call["arguments"] == {"keys": rest.split()}
        assert step.next_observation is not None
        assert step.next_observation.truncation == ("recorder" if hasty else "none")


@pytest.mark.parametrize("run", RUNS, ids=name_of)
def test_a_pointing_action_names_the_widget_that_was_meant(run: dict[str, Any]) -> None:
    trajectory = read("tree")[0][folder_of(run)]
    for step, (done, _, _) in zip(trajectory.steps, steps_of(run), strict=True):
        verb, _, rest = done.partition("; ")[0].partition(" ")
        target = (
            (rest.partition(" to ")[0] if verb == "drag" else rest)
            .partition("%")[0]
            .partition("#")[0]
            .rpartition(":")[2]
        )
        if verb not in ("click", "double_click", "right_click", "drag", "move") or target.startswith("@"):
            continue
        arguments = json.loads(step.action.text)["arguments"]
        first = arguments["calls"][0]["arguments"] if "calls" in arguments else arguments
        if "element" not in first:
            assert run["space"] == "computer_13"
            continue
        assert step.observation is not None
        node = Tree.parse(step.observation.content or "").node(int(first["element"][1:]))
        assert node is not None
        assert node.name == target


@pytest.mark.parametrize("run", RUNS, ids=name_of)
def test_what_came_of_each_step_is_on_its_next_screen(run: dict[str, Any]) -> None:
    trajectory = read("tree")[0][folder_of(run)]
    for step, (done, wanted, _) in zip(trajectory.steps, steps_of(run), strict=True):
        assert step.observation is not None
        assert step.next_observation is not None
        before, after = step.observation.content or "", step.next_observation.content or ""
        for effect in wanted:
            if effect == "=":
                assert after == before, done
            elif effect.startswith("+"):
                assert after.count(effect[1:]) > before.count(effect[1:]), (done, effect)
            else:
                assert after.count(effect[1:]) < before.count(effect[1:]), (done, effect)
