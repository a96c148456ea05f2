"""Recordings of people at MiniWoB++: doubled events are one act, and a page taken before its handlers is no answer."""

import json
from typing import Any

from tests.conftest import ROOT
from tests.rows import blob_at, parsed
from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.connectors.registry import connector

WOB = connector("miniwob")
INPUT = ROOT / "tests" / "fixtures" / "miniwob" / "input"


def rows(name) -> list[Any]:
    return parsed(WOB, blob_at(INPUT / name))[0]


def test_the_recorders_own_dom_is_kept_where_the_recipe_wants_it_raw():
    data = (INPUT / "drag-box_3X2_d1.json").read_bytes()
    (trajectory,) = WOB.parse(MemoryBlob("drag-box_3X2_d1.json", data, Choices(screen="raw")))
    shown = trajectory.steps[0].observation  # type: ignore[union-attr]
    assert shown is not None
    assert json.loads(shown.content or "")["tag"] == "BODY"


def told(*events: dict[str, Any], field: str = "INPUT_text") -> list[Any]:
    """The rows of a page with one field, at 10 to 160 across and 20 to 60 down, where those events happened."""
    box = {"tag": field, "left": 10, "top": 20, "width": 150, "height": 40, "children": []}
    page = {"tag": "BODY", "left": 0, "top": 0, "width": 160, "height": 210}
    states = [
        {"time": number, "action": event, "dom": {**page, "children": [{**box, "value": str(number)}]}}
        for number, event in enumerate(({}, *events, {}))
    ]
    data = json.dumps({"utterance": "u", "rawReward": 1, "reward": 1, "states": states}).encode()
    return parsed(WOB, MemoryBlob("x_1_d1.json", data))[0]


def twice(kind: str, **event: int) -> list[dict[str, Any]]:
    return [{"type": kind, "timing": timing, **event} for timing in (1, 3)]


def calls(log_rows: list[Any]) -> list[Any]:
    return [(call["name"], call["arguments"]) for call in (json.loads(row["action"]["text"]) for row in log_rows)]


def test_a_key_that_is_held_is_one_press_and_one_that_is_pressed_again_is_two():
    down, up = twice("keydown", keyCode=8, charCode=0), twice("keyup", keyCode=8, charCode=0)
    log_rows = told(*down * 30, *up)
    assert calls(log_rows) == [("press", {"key": "Backspace", "times": 30})]
    assert 'value="1"' in log_rows[0]["observation"]["content"]
    assert f'value="{2 * 31 + 1}"' in log_rows[0]["next_observation"]["content"]
    assert calls(told(*down, *up, *down, *up)) == [("press", {"key": "Backspace"})] * 2
    tab = twice("keydown", keyCode=9, charCode=0)
    assert [arguments["key"] for _, arguments in calls(told(*down, *tab, *down))] == ["Backspace", "Tab", "Backspace"]


def test_what_scrolls_before_any_act_is_the_load_of_the_page():
    click = [*twice("mousedown", x=50, y=30), *twice("mouseup", x=50, y=30), *twice("click", x=50, y=30)]
    assert [name for name, _ in calls(told(*twice("scroll"), *click, *twice("scroll")))] == ["click", "scroll"]


def test_a_press_on_a_scrollbar_is_no_click_and_the_page_before_it_is_seen_before_the_scrolling():
    press = twice("mousedown", x=50, y=30)
    click = [*press, *twice("mouseup", x=50, y=30), *twice("click", x=50, y=30)]
    log_rows = told(*press, *twice("scroll"), *twice("scroll"), *twice("mouseup", x=50, y=90), *click)
    assert [name for name, _ in calls(log_rows)] == ["scroll", "click"]
    assert 'value="1"' in log_rows[0]["observation"]["content"]
    assert [name for name, _ in calls(told(*twice("mousedown", x=155, y=30), *click))] == ["click"]
    assert [name for name, _ in calls(told(*press, *click))] == ["click", "click"]
    assert [name for name, _ in calls(told(*press, *twice("scroll"), field="SELECT"))] == ["click", "scroll"]
    assert [name for name, _ in calls(told(*press))] == ["click"]


def test_a_card_that_was_clicked_is_a_line_throughout():
    box = {"left": 0, "top": 0, "width": 160, "height": 50, "children": []}
    words = [{**box, "tag": "DIV", "text": text, "ref": at, "top": 10 * at} for at, text in enumerate("ab", 5)]
    marked = {"recordingTarget": True}
    states = []
    for at, mark in enumerate(({}, marked, {})):
        card = {**box, "tag": "DIV", "ref": 3, "children": words, **mark}
        dom = {**box, "tag": "BODY", "ref": 1, "children": [card]}
        event = {"type": "mousedown", "timing": 1, "x": 5, "y": 3}
        states.append({"time": at, "action": event, "dom": dom})
    log = json.dumps({"utterance": "u", "rawReward": 1, "reward": 1, "states": states}).encode()
    (trajectory,) = WOB.parse(MemoryBlob("card", log))
    pages = [(step.observation.content or "").split("\n")[1:] for step in trajectory.steps]  # type: ignore[union-attr]
    first, second = 'text "a" [0,50][160,100]', 'text "b" [0,60][160,110]'
    assert pages == [["  #2 group [0,0][160,50]", f"    #3 {first}", f"    #4 {second}"]] * 3


def test_what_was_clicked_is_named_where_the_recorder_gave_its_number_twice():
    side = {"left": 0, "top": 0, "width": 160, "height": 90, "children": []}
    button = {**side, "tag": "BUTTON", "text": "Ok", "ref": 4, "height": 20}
    card = {**side, "tag": "DIV", "ref": 4, "children": [button], "recordingTarget": True}
    event = {"type": "mousedown", "timing": 1, "x": 5, "y": 80}
    dom = {**side, "tag": "BODY", "ref": 1, "children": [card]}
    log = {"utterance": "u", "rawReward": 1, "reward": 1, "states": [{"time": 1, "action": event, "dom": dom}]}
    (trajectory,) = WOB.parse(MemoryBlob("twice", json.dumps(log).encode()))
    (step,) = trajectory.steps  # type: ignore[union-attr]
    assert step.action.text == '{"name": "click", "arguments": {"element": "#2"}}'
    assert "#2 group [0,0][160,90]" in (step.observation.content or "")  # type: ignore[union-attr]
