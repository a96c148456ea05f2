"""Task folders of AppAgent: numeric tags become nodes, dumps surround the steps that the log names."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connectors.android_logs import dump, node, outcome, read, real_folders
from trajmill.connectors.android.appagent import AppAgent, labels
from trajmill.connectors.android.view import Mark
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


@given(st.text(st.sampled_from("Action: tapextswipe(){}[]\"',0123 \n"), max_size=60))
@settings(max_examples=48, deadline=None)
def test_responses_of_any_form_raise_nothing_but_a_parse_error(response: str) -> None:
    log = json.dumps({"step": 1, "prompt": response, "image": "", "response": f"Action: {response}"}).encode()
    outcome(CONNECTOR, MemoryBlob("any", {"log_x_y.txt": log, "y_1.xml": dump(node("[0,0][9,9]", "a", **BUTTON))}))


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


def test_the_tag_and_the_node_both_stand_in_the_arguments() -> None:
    (step,) = steps("Action: tap(2)")
    assert step.action.arguments == '{"label": 2, "element": "#3"}'


def test_a_tap_on_the_tag_of_a_list_is_named_by_the_row_in_its_middle() -> None:
    rows = [
        node(f"[0,{top}][100,{end}]", name, **BUTTON)
        for name, top, end in (("a", 0, 40), ("b", 40, 80), ("c", 80, 180))
    ]
    shown = dump(node("[0,0][100,190]", inner="".join(rows), **{"class": "android.widget.ListView"}, focusable="true"))
    log = json.dumps({"step": 1, "prompt": "", "image": "", "response": "Action: tap(4)"}).encode()
    (trajectory,), _ = read(CONNECTOR, MemoryBlob("task", {"task_1.xml": shown, "log_x_task.txt": log}))
    (step,) = trajectory.steps
    assert step.observation is not None
    named = json.loads(step.action.text)["arguments"]["element"]
    touched = Tree.parse(step.observation.content or "").node(int(named[1:]))
    assert touched is not None
    assert (touched.name, json.loads(step.action.arguments or "{}")["label"]) == ("c", 4)


def test_the_agents_words_are_reasoning_and_never_an_observation() -> None:
    (step,) = steps(" Observation: I see a\nThought: b is next\nAction: tap(2)\nSummary: done")
    assert step.action.reasoning == "Observation: I see a\nThought: b is next\nSummary: done"
    assert step.observation is not None
    assert "I see a" not in (step.observation.content or "")


def test_dumps_that_are_missing_are_null_and_the_others_stay_in_place() -> None:
    found = steps("Action: tap(1)", "Action: tap(1)", "Action: FINISH", screens=2)
    assert [(step.observation is None, step.next_observation is None) for step in found] == [
        (False, False),
        (False, True),
        (True, True),
    ]


def test_views_whose_centres_are_near_get_no_tag_of_their_own() -> None:
    def mark(node: int, x: int, clickable: bool = True, focusable: bool = True) -> Mark:
        return Mark(node, (x, 0, x, 0), clickable, focusable)

    marks = [
        mark(1, 0),
        mark(2, 30),
        mark(3, 31),
        mark(4, 62),
        mark(5, 200, clickable=False),
        mark(6, 93, clickable=False),
    ]
    assert [one.node for one in labels(marks)] == [1, 3, 4, 5, 6]
    assert [one.node for one in labels([mark(1, 0, focusable=False), mark(2, 25), mark(3, 50, clickable=False)])] == [1]


def test_a_step_that_was_logged_twice_is_rejected_the_second_time() -> None:
    line = json.dumps({"step": 1, "prompt": "", "image": "", "response": "Action: tap(1)"}) + "\n"
    blob = MemoryBlob(
        "task", {"log_x_task.txt": (line * 2).encode(), "task_1.xml": dump(node("[0,0][9,9]", "a", **BUTTON))}
    )
    trajectories, rejects = read(CONNECTOR, blob)
    assert len(trajectories[0].steps) == 1
    assert [(one.reason, one.offset) for one in rejects] == [("duplicate_step", len(line))]


def test_dumps_of_another_log_in_the_folder_are_left_alone() -> None:
    line = json.dumps({"step": 1, "prompt": "", "image": "", "response": "Action: tap(1)"}).encode()
    own, other = (dump(node("[0,0][9,9]", name, **BUTTON)) for name in ("own", "other"))
    blob = MemoryBlob("task", {"log_x_task_b.txt": line, "task_a_1.xml": other, "task_b_1.xml": own})
    observation = read(CONNECTOR, blob)[0][0].steps[0].observation
    assert observation is not None
    assert '"own"' in (observation.content or "")


def test_folders_are_joined_by_their_log_and_recognized_by_its_first_line() -> None:
    paths = [
        "a/log_x_t.txt",
        "a/t_1.png",
        "a/t_1.xml",
        "a/t_1_labeled.png",
        "b/log_reflect_t.txt",
        "b/t_1.xml",
        "c/log_x.txt",
    ]
    (log,) = CONNECTOR.join(paths)
    assert (log.uri, log.anchor, sorted(log.members)) == (
        "a",
        "log_x_t.txt",
        ["log_x_t.txt", "t_1.png", "t_1.xml", "t_1_labeled.png"],
    )
    line = b'{"step": 1, "prompt": "p", "image": "i", "response": "r"}\n'
    assert CONNECTOR.sniff(line, "a/log_x_t.txt") is not None
    assert CONNECTOR.sniff(b'{"step": 1}\n', "a/log_x_t.txt") is None


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
        "Settings",
        "设置，1条通知",
        "竖屏锁定",
        "设置，1条通知",
        "自动调节屏幕亮度",
        "Chrome",
        "Settings",
    ]
    boxes = [node.bounds for node in touched[:5] if node is not None]
    assert boxes[2:] == [(0, 1203, 1080, 1365)] * 3, "the row of the flight mode, by its list's tag too"
    assert all(step.next_observation is not None for one in list(found.values())[:3] for step in one.steps)
