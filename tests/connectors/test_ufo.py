"""UFO: trees stand before the steps of their numbers, keys of all versions are read, controls are lines of trees."""

import json
from typing import Any

import pytest

from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.connectors.desktop.ufo import Ufo
from trajmill.schemas import ParseError, Reject, Trajectory

READER = Ufo()
SIDES = ("left", "top", "right", "bottom")


def control(name: str, kind: str, box: tuple[int, int, int, int], *children: dict[str, Any]) -> dict[str, Any]:
    sides = dict(zip(SIDES, box, strict=True))
    far = {key: value + 1000 for key, value in sides.items()}
    return {"name": name, "control_type": kind, "rectangle": far, "adjusted_rectangle": sides, "children": children}


def window(title: str) -> bytes:
    same = control("OK", "Button", (0, 0, 9, 9)), control("OK", "Button", (0, 20, 9, 29))
    return json.dumps(control(title, "Window", (0, 0, 99, 99), control("", "Pane", (0, 0, 99, 50), *same))).encode()


def step(number: int, **more: Any) -> dict[str, Any]:
    fields = {"step": number, "thought": "t", "status": "CONTINUE", "agent_type": "AppAgent", "control_text": ""}
    return {**fields, "action": {"function": "click_input", "args": {}, "control_text": "OK"}, **more}


def read(
    *lines: Any, raw: bool = False, trees: dict[str, bytes] | None = None, **files: bytes
) -> tuple[list[Any], list[str]]:
    log = b"\n\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines) + b"\n"
    members = {"response.log": log} | {f"ui_tree/{name}.json": data for name, data in (files | (trees or {})).items()}
    records = list(READER.parse(MemoryBlob("logs/7", members, Choices(screen="raw" if raw else "tree"))))
    steps = [entry for whole in records if isinstance(whole, Trajectory) for entry in whole.steps]
    return steps, [record.reason for record in records if isinstance(record, Reject)]


def titles(steps: list[Any]) -> list[tuple[str | None, str | None]]:
    return [(_title(entry.observation), _title(entry.next_observation)) for entry in steps]


def _title(side: Any) -> str | None:
    return side.content.split('"')[1] if side is not None else None


def test_a_host_agent_calls_functions_in_later_versions() -> None:
    call = {"function": "select_application_window", "arguments": {"id": "1", "name": "Mail"}}
    steps, rejects = read(step(0, agent_type="HostAgent", action=None, **call), step(1), step_1=window("a"))
    assert json.loads(steps[0].action.text) == {
        "name": "select_application_window",
        "arguments": {"id": "1", "name": "Mail"},
    }
    assert rejects == []


@pytest.mark.parametrize(
    ("function", "args", "name", "told"),
    [
        ("click_input", {"button": "left", "double": True}, "double_click", {}),
        ("click_on_coordinates", {"x": 0.5, "y": 0.25, "button": "right"}, "right_click", {"x": 0.5, "y": 0.25}),
        ("type_keys", {"text": "a"}, "type", {"text": "a"}),
        ("wheel_mouse_input", {"wheel_dist": -3}, "scroll", {"clicks": -3}),
        ("wait", {"seconds": 2}, "wait", {"seconds": 2}),
        ("summary", {"text": "s"}, "summary", {"text": "s"}),
    ],
)
def test_functions_are_in_the_vocabulary_of_desktops(
    function: str, args: dict[str, Any], name: str, told: dict[str, Any]
) -> None:
    for action in ({"function": function, "args": args}, [{"Function": function, "Args": args}]):
        (parsed_step,), _ = read(step(1, action=action))
        assert json.loads(parsed_step.action.text) == {"name": name, "arguments": told}
    old = {"Step": 1, "Thought": "t", "Agent": "AppAgent", "Function": function, "Args": args, "Action": "text"}
    (parsed_step,), _ = read(old)
    assert json.loads(parsed_step.action.text) == {"name": name, "arguments": told}


def test_a_raw_screen_is_the_logs_own_json_and_names_no_line() -> None:
    (parsed_step,), _ = read(step(1), raw=True, step_1=window("a"))
    assert parsed_step.observation is not None
    assert (parsed_step.observation.media_type, parsed_step.observation.content) == (
        "application/json",
        window("a").decode(),
    )
    assert json.loads(parsed_step.action.text)["arguments"] == {"target": "OK"}


def test_a_text_that_repeats_its_control_has_no_line_and_stands_for_it() -> None:
    send = control("Send", "MenuItem", (0, 0, 40, 20), control("Send", "Text", (5, 5, 30, 15)))
    tree = control("W", "Window", (0, 0, 99, 99), send, control("Send", "Button", (50, 0, 90, 20)))
    called = {"function": "click_input", "args": {}, "control_text": "Send"}
    line = step(0, action=called, control_log=[{"control_coordinates": dict(zip(SIDES, (5, 5, 30, 15), strict=True))}])
    (clicked,), _ = read(line, trees={"step_0": json.dumps(tree).encode()})
    assert [row.partition(" [")[0] for row in (clicked.observation.content or "").splitlines()] == [
        '#1 window "W"',
        '  #2 menuitem "Send"',
        '  #3 button "Send"',
    ]
    assert json.loads(clicked.action.text)["arguments"] == {"element": "#2"}


def test_a_tree_alone_is_refused_and_a_damaged_one_is_a_reject() -> None:
    for data in (window("a"), json.dumps(json.loads(window("a")), indent=2).encode()):
        assert READER.sniff(data, "step_1.json") is not None
        with pytest.raises(ParseError) as caught:
            list(READER.parse(MemoryBlob("step_1.json", data)))
        assert caught.value.reason == "no_actions"
    steps, rejects = read(step(1), step_1=window("a")[:-9])
    assert (titles(steps), rejects) == ([(None, None)], ["truncated"])
