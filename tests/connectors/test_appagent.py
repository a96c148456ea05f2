"""Task folders of AppAgent: numeric tags become nodes, dumps surround the steps that the log names."""

import json

import pytest

from tests.connectors.android_logs import dump, node, read
from trajmill.connectors.android.appagent import AppAgent
from trajmill.connectors.connector import MemoryBlob
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
