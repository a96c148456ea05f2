"""Recordings of people at MiniWoB++: doubled events are one act, and a page taken before its handlers is no answer."""

import json
from itertools import pairwise
from typing import Any

from connectors.connector import Choices, MemoryBlob
from connectors.registry import connector
from tests.conftest import ROOT
from tests.rows import blob_at, parsed

WOB = connector("miniwob")
INPUT = ROOT / "tests" / "fixtures" / "miniwob" / "input"


def rows(name) -> list[Any]:
    return parsed(WOB, blob_at(INPUT / name))[0]


def test_doubled_events_of_mouse_and_keys_are_one_act_each():
    told = [json.loads(row["action"]["text"]) for row in rows("enter-text_3X1_d1.json")]
    assert told == [
        {"name": "click", "arguments": {"element": "#3"}},
        {"name": "type", "arguments": {"element": "#3", "text": "Ad"}},
        {"name": "press", "arguments": {"element": "#3", "key": "Backspace"}},
        {"name": "scroll", "arguments": {}},
        {"name": "click", "arguments": {"element": "#4"}},
    ]


def test_each_page_is_what_the_next_act_found():
    found = rows("enter-text_3X1_d1.json")
    for row, later in pairwise(found):
        assert row["next_observation"]["content"] == later["observation"]["content"]
    assert 'textbox value="Ad"' in found[1]["next_observation"]["content"]
    assert 'text "Sent"' in found[-1]["next_observation"]["content"]


def test_a_last_click_recorded_only_before_its_handlers_is_followed_by_nothing():
    assert rows("drag-box_3X2_d1.json")[-1]["next_observation"] is None


def test_a_mouse_that_goes_up_elsewhere_without_a_click_is_a_drag():
    first = rows("drag-box_3X2_d1.json")[0]
    assert json.loads(first["action"]["text"]) == {"name": "drag", "arguments": {"element": "#3", "to": [90, 150]}}


def test_a_task_is_solved_by_its_raw_reward_and_the_last_act_has_the_reward():
    found = rows("drag-box_3X2_d1.json")
    assert [row["outcome"]["resolved"] for row in found] == [True, True]
    assert [row["reward"] is None for row in found] == [True, False]
    assert found[0]["task"]["id"] == "drag-box"
    assert rows("enter-text_3X1_d1.json")[0]["outcome"]["resolved"] is False


def test_the_recorders_own_dom_is_kept_where_the_recipe_wants_it_raw():
    data = (INPUT / "drag-box_3X2_d1.json").read_bytes()
    (one,) = WOB.parse(MemoryBlob("drag-box_3X2_d1.json", data, Choices(screen="raw")))
    shown = one.steps[0].observation  # type: ignore[union-attr]
    assert shown is not None
    assert json.loads(shown.content or "")["tag"] == "BODY"
