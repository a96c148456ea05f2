"""UFO: trees stand before the steps of their numbers, keys of all versions are read, controls are lines of trees."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.connectors.desktop.ufo import Ufo
from trajmill.schemas import ParseError, Reject, Trajectory

READER = Ufo()


def control(name: str, kind: str, box: tuple[int, int, int, int], *children: dict[str, Any]) -> dict[str, Any]:
    sides = dict(zip(("left", "top", "right", "bottom"), box, strict=True))
    far = {key: value + 1000 for key, value in sides.items()}
    return {"name": name, "control_type": kind, "rectangle": far, "adjusted_rectangle": sides, "children": children}


def window(title: str) -> bytes:
    same = control("OK", "Button", (0, 0, 9, 9)), control("OK", "Button", (0, 20, 9, 29))
    return json.dumps(control(title, "Window", (0, 0, 99, 99), control("", "Pane", (0, 0, 99, 50), *same))).encode()


def step(number: int, **more: Any) -> dict[str, Any]:
    told = {"step": number, "thought": "t", "status": "CONTINUE", "agent_type": "AppAgent", "control_text": ""}
    return {**told, "action": {"function": "click_input", "args": {}, "control_text": "OK"}, **more}


def read(
    *lines: Any, raw: bool = False, trees: dict[str, bytes] | None = None, **files: bytes
) -> tuple[list[Any], list[str]]:
    log = b"\n\n".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines) + b"\n"
    members = {"response.log": log} | {f"ui_tree/{name}.json": data for name, data in (files | (trees or {})).items()}
    found = list(READER.parse(MemoryBlob("logs/7", members, Choices(screen="raw" if raw else "tree"))))
    steps = [one for whole in found if isinstance(whole, Trajectory) for one in whole.steps]
    return steps, [one.reason for one in found if isinstance(one, Reject)]


def titles(steps: list[Any]) -> list[tuple[str | None, str | None]]:
    return [(_title(one.observation), _title(one.next_observation)) for one in steps]


def _title(side: Any) -> str | None:
    return side.content.split('"')[1] if side is not None else None


def test_a_tree_stands_before_the_step_of_its_number_and_after_the_one_before() -> None:
    trees = {"step_8": window("a"), "step_9": window("b"), "step_10": window("c")}
    steps, rejects = read(step(8), step(9), step(10), trees=trees)
    assert titles(steps) == [("a", "b"), ("b", "c"), ("c", None)]
    assert rejects == []
    steps, _ = read(step(1), step(2), step(3), step_1=window("a"), step_3=window("c"), ui_tree_final=window("z"))
    assert titles(steps) == [("a", None), (None, "c"), ("c", "z")]


def test_where_lines_are_missing_the_tree_of_the_next_number_shows_what_a_step_led_to() -> None:
    trees = {f"step_{number}": window(str(number)) for number in (1, 2, 4, 6)}
    steps, _ = read(step(1), step(4), step(6), trees=trees)
    assert titles(steps) == [("1", "2"), ("4", None), ("6", None)]


def test_a_host_agent_calls_functions_in_later_versions() -> None:
    told = {"function": "select_application_window", "arguments": {"id": "1", "name": "Mail"}}
    steps, rejects = read(step(0, agent_type="HostAgent", action=None, **told), step(1), step_1=window("a"))
    assert json.loads(steps[0].action.text) == {
        "name": "select_application_window",
        "arguments": {"id": "1", "name": "Mail"},
    }
    assert rejects == []


@pytest.mark.parametrize("drawn", ["radix-:r1:", "mui-123", "8b1f2c3d-0a1b-4c5d-8e9f-001122334455"])
def test_an_automation_id_that_is_drawn_afresh_is_left_out(drawn: str) -> None:
    root = json.loads(window("a"))
    for ident, shown in ((drawn, ""), ("save", " id=save")):
        root["children"][0]["children"][0]["automation_id"] = ident
        steps, _ = read(step(1), trees={"step_1": json.dumps(root).encode(), "step_2": window("b")})
        assert f'#2 button "OK"{shown} [0,0][9,9]' in steps[0].observation.content


def test_after_a_line_that_cannot_be_read_nothing_is_known_of_the_step_before() -> None:
    steps, rejects = read(step(1), b'{"step": 2,', step(3), step_1=window("a"), step_2=window("b"), step_3=window("c"))
    assert titles(steps) == [("a", None), ("c", None)]
    assert rejects == ["bad_json"]


def test_the_window_at_the_end_shows_what_the_last_act_led_to() -> None:
    done = {"step": 2, "agent_type": "HostAgent", "status": "FINISH", "control_text": "", "thought": "d"}
    steps, _ = read(step(1), done, step_1=window("a"), ui_tree_final=window("z"))
    assert titles(steps) == [("a", "z"), (None, None)]
    assert [one.terminated for one in steps] == [None, True]


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ({"control_coordinates": {"left": 0, "top": 20, "right": 9, "bottom": 29}}, {"element": "#3"}),
        ({"control_coordinates": {"left": 0, "top": 0, "right": 9, "bottom": 9}}, {"element": "#2"}),
        ({}, {"target": "OK"}),
        (None, {"target": "OK"}),
    ],
)
def test_a_control_is_the_line_of_its_box_and_not_any_one_of_its_name(log: Any, told: dict[str, Any]) -> None:
    (one,), _ = read(step(1, control_log=log), step_1=window("a"))
    assert json.loads(one.action.text) == {"name": "click", "arguments": told}


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
        (one,), _ = read(step(1, action=action))
        assert json.loads(one.action.text) == {"name": name, "arguments": told}
    old = {"Step": 1, "Thought": "t", "Agent": "AppAgent", "Function": function, "Args": args, "Action": "text"}
    (one,), _ = read(old)
    assert json.loads(one.action.text) == {"name": name, "arguments": told}


def test_a_raw_screen_is_the_logs_own_json_and_names_no_line() -> None:
    (one,), _ = read(step(1), raw=True, step_1=window("a"))
    assert one.observation is not None
    assert (one.observation.media_type, one.observation.content) == ("application/json", window("a").decode())
    assert json.loads(one.action.text)["arguments"] == {"target": "OK"}


def test_a_tree_alone_is_refused_and_a_damaged_one_is_a_reject() -> None:
    for data in (window("a"), json.dumps(json.loads(window("a")), indent=2).encode()):
        assert READER.sniff(data, "step_1.json") is not None
        with pytest.raises(ParseError) as caught:
            list(READER.parse(MemoryBlob("step_1.json", data)))
        assert caught.value.reason == "no_actions"
    steps, rejects = read(step(1), step_1=window("a")[:-9])
    assert (titles(steps), rejects) == ([(None, None)], ["truncated"])
