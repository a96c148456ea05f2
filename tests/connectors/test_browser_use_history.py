"""Histories of browser-use: what the agent saw before and after each action, in the shapes of all versions."""

import json
from typing import Any

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector

HISTORY = connector("browser_use_history")


def state(url, **more):
    return {"url": url, "title": "", "tabs": [], **more}


def item(url, *actions, results=None, **more):
    output = {"next_goal": "go on", "action": list(actions)} if actions else None
    results = [{"extracted_content": "ok"} for _ in actions] if results is None else results
    return {"model_output": output, "result": results, "state": state(url, **more)}


def steps(*items) -> list[Any]:
    (trajectory,) = list(HISTORY.parse(MemoryBlob("h.json", json.dumps({"history": items}).encode())))
    return list(trajectory.steps)  # type: ignore[union-attr]


def test_scrolling_has_one_form_in_all_versions():
    arguments = [
        json.loads(step.action.text)["arguments"]
        for step in steps(
            item("http://a/", {"scroll_down": {"amount": 300}}),
            item("http://a/", {"scroll": {"down": False, "num_pages": 1.0, "index": 4}}),
        )
    ]
    assert arguments == [{"direction": "down", "amount": 300}, {"direction": "up", "pages": 1.0, "element": 4}]


def test_an_element_that_no_text_shows_is_named_by_what_the_log_says_of_it():
    named = {"tag_name": "input", "xpath": "html/body/input", "attributes": {"type": "text", "name": "q"}}
    spoken = {"node_name": "BUTTON", "x_path": "html/body/button", "attributes": {}, "ax_name": "Search"}
    bare = {"tag_name": "div", "xpath": "html/body/div[2]", "attributes": {"class": "x"}}
    clicks = [{"click": {"index": number}} for number in (3, 5, 9, 11)]
    all_steps = steps(item("http://a/", *clicks, interacted_element=[named, spoken, bare, None]))
    arguments = [json.loads(step.action.text)["arguments"] for step in all_steps]
    assert arguments == [
        {"target": 'input[name="q"]'},
        {"target": 'button "Search"'},
        {"target": "html/body/div[2]"},
        {"element": 11},
    ]
    assert json.loads(all_steps[0].action.arguments) == {"index": 3, "target": 'input[name="q"]'}
    shown = steps(item("http://a/", *clicks, interacted_element=[named, spoken, bare, None], items=[]))
    assert json.loads(shown[0].action.text)["arguments"] == {"element": 3}


def test_actions_are_placed_where_their_items_begin_whatever_screenshots_hold():
    pictures = ["A" * 5000, 'not base64 {"model_output": 1}', "\u00fc" * 300, ""]
    items = [item(f"http://{n}/", {"go_back": {}}, screenshot=picture) for n, picture in enumerate(pictures)]
    text = json.dumps({"history": items}).encode()
    places = [step.offset for step in steps(*items)]
    assert [json.JSONDecoder().raw_decode(text.decode(), offset)[0] for offset in places] == items
