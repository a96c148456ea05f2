"""Task folders of AppAgent: numeric tags become nodes, dumps surround the steps that the log names."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.connectors.android_logs import dump, node, read, real_folders
from trajmill.connectors.android.appagent import AppAgent
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.screens.tree import Tree
from trajmill.schemas import Step

CONNECTOR = AppAgent()
BUTTON = {"class": "android.widget.Button", "clickable": "true", "focusable": "true"}


def steps(*responses: object, screens: int = 9) -> list[Step]:
    """The steps of a log with these responses, beside that many screens of two buttons and a list."""
    shown = dump(
        node("[0,0][100,50]", "a", **BUTTON),
        node("[0,50][100,100]", "b", **BUTTON),
        node("[0,100][100,200]", **{"class": "android.widget.ListView", "focusable": "true", "scrollable": "true"}),
    )
    lines = [{"step": place, "prompt": "", "image": "", "response": one} for place, one in enumerate(responses, 1)]
    members = {f"task_{place}.xml": shown for place in range(1, screens + 1)}
    log = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return list(read(CONNECTOR, MemoryBlob("task", {**members, "log_x_task.txt": log}))[0][0].steps)


@pytest.mark.parametrize(
    ("response", "name", "arguments"),
    [
        ("Action: tap(1)", "click", {"element": "#2"}),
        ("Action: tap(2)\nFunction: tap(1)", "click", {"element": "#2"}),
        ("Action: Touch the list.\nFunction: tap(3)", "click", {"element": "#4"}),
        ("Action: tap(4)", "click", {"label": 4}),
        ("Action: tap(0)", "click", {"label": 0}),
        ("Action: long_press(2)", "long_press", {"element": "#3"}),
        ('Action: swipe(3, "up", "long")', "swipe", {"element": "#4", "direction": "up", "distance": "long"}),
        ("Action: swipe(3, 'down', 'short')", "swipe", {"element": "#4", "direction": "down", "distance": "short"}),
        ('Action: text("a, \\"b\\" (c)")', "input_text", {"text": 'a, \\"b\\" (c)'}),
        ('Action: tap(7, "top-left")', "click", {"area": 7, "subarea": "top-left"}),
        (
            'Action: swipe(1, "left", 2, "right")',
            "swipe",
            {"start_area": 1, "start_subarea": "left", "end_area": 2, "end_subarea": "right"},
        ),
        ("Action: grid()", "grid", {}),
        ("Action: back()", "press", {"key": "back"}),
        ("Action: FINISH", "task_complete", {}),
        ({"choices": [{"message": {"content": "Action: tap(2)"}}]}, "click", {"element": "#3"}),
        ({"Observation": "two buttons", "Action": "tap(2)"}, "click", {"element": "#3"}),
    ],
)
def test_a_call_becomes_an_action_of_the_vocabulary(response: object, name: str, arguments: dict[str, object]) -> None:
    (step,) = steps(response)
    assert json.loads(step.action.text) == {"name": name, "arguments": arguments}


def test_a_step_that_was_logged_twice_is_rejected_the_second_time() -> None:
    line = json.dumps({"step": 1, "prompt": "", "image": "", "response": "Action: tap(1)"}) + "\n"
    blob = MemoryBlob(
        "task", {"log_x_task.txt": (line * 2).encode(), "task_1.xml": dump(node("[0,0][9,9]", "a", **BUTTON))}
    )
    trajectories, rejects = read(CONNECTOR, blob)
    assert len(trajectories[0].steps) == 1
    assert [(one.reason, one.offset) for one in rejects] == [("duplicate_step", len(line))]


@pytest.mark.corpus
def test_real_tasks_have_the_transitions_that_their_files_allow(record_property: Callable[[str, object], None]) -> None:
    blobs = real_folders("appagent_task", "log_*.txt", record_property)
    found = {blob.uri: read(CONNECTOR, blob)[0][0] for blob in blobs}
    assert [len(one.steps) for one in found.values()] == [5, 7, 3, 1, 6, 5]
    touched = [
        Tree.parse(step.observation.content or "").node(int(told["element"][1:]))
        for one in found.values()
        for step in one.steps
        if step.observation is not None and "element" in (told := json.loads(step.action.text)["arguments"])
    ]
    assert all(touched)
    assert [node.name for node in touched if node is not None and node.role in ("text", "switch")] == [
        "Settings", "设置，1条通知", "竖屏锁定", "设置，1条通知", "自动调节屏幕亮度", "Chrome", "Settings",
    ]  # fmt: skip
    boxes = [node.bounds for node in touched[:5] if node is not None]
    assert boxes[2:] == [(0, 1203, 1080, 1365)] * 3, "the row of the flight mode, by its list's tag too"
    assert all(step.next_observation is not None for one in list(found.values())[:3] for step in one.steps)
