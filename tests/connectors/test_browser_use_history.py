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
    (one,) = list(HISTORY.parse(MemoryBlob("h.json", json.dumps({"history": items}).encode())))
    return list(one.steps)  # type: ignore[union-attr]


def test_the_next_observation_is_the_next_state_with_the_results_under_it():
    first, last = steps(item("http://a/", {"go_back": {}}), item("http://b/", {"wait": {"seconds": 1}}, results=[]))
    assert first.observation.uri == "http://a/"
    assert first.next_observation is last.observation
    assert last.observation.content.endswith("Action result: ok")
    assert last.next_observation is None


def test_elements_are_written_as_the_agent_saw_them():
    items = [
        {"index": 0, "text": "Low", "is_text_only": True, "depth": 1},
        {"index": 7, "text": "<a></a>", "is_text_only": False, "depth": 2},
    ]
    (step,) = steps(item("http://a/", {"click_element": {"index": 7}}, items=items))
    assert step.observation.content.split("\n")[-2:] == ["_[:]\tLow", "7[:]\t\t<a></a>"]
    assert json.loads(step.action.text) == {"name": "click", "arguments": {"element": 7}}
    assert json.loads(step.action.arguments) == {"index": 7}


def test_a_state_without_its_elements_is_cut_by_the_recorder():
    (step,) = steps(item("http://a/", {"go_back": {}}))
    assert step.observation.truncation == "recorder"


def test_actions_that_were_not_done_are_followed_by_nothing():
    two = [{"extracted_content": "typed"}, {"extracted_content": "clicked"}]
    first = item(
        "http://a/", {"input": {"index": 1, "text": "x"}}, {"click": {"index": 2}}, {"go_back": {}}, results=two
    )
    typed, clicked, skipped, _ = steps(first, item("http://b/", {"wait": {"seconds": 1}}))
    assert [step.call_index for step in (typed, clicked, skipped)] == [0, 1, 2]
    assert typed.next_observation.content == "Action result: typed"
    assert clicked.next_observation.uri == "http://b/"
    assert skipped.next_observation is None


def test_what_the_agent_says_when_done_is_no_observation():
    done = [{"is_done": True, "success": False, "extracted_content": "I give up"}]
    (one,) = list(
        HISTORY.parse(
            MemoryBlob(
                "h",
                json.dumps({"history": [item("http://a/", {"done": {"text": "I give up"}}, results=done)]}).encode(),
            )
        )
    )
    assert one.steps[0].action.name == "task_complete"  # type: ignore[union-attr]
    assert one.steps[0].next_observation is None  # type: ignore[union-attr]
    assert one.outcome.resolved is False  # type: ignore[union-attr]


def test_a_failed_answer_is_told_before_the_next_action():
    failed = item("http://a/", results=[{"error": "no valid answer"}])
    (step,) = steps(failed, item("http://a/", {"go_back": {}}))
    assert json.loads(step.interleaved) == [{"role": "harness", "content": "no valid answer"}]
    assert "no valid answer" not in step.observation.content


def test_scrolling_has_one_form_in_all_versions():
    told = [
        json.loads(step.action.text)["arguments"]
        for step in steps(
            item("http://a/", {"scroll_down": {"amount": 300}}),
            item("http://a/", {"scroll": {"down": False, "num_pages": 1.0, "index": 4}}),
        )
    ]
    assert told == [{"direction": "down", "amount": 300}, {"direction": "up", "pages": 1.0, "element": 4}]


def test_an_element_that_no_text_shows_is_named_by_what_the_log_says_of_it():
    named = {"tag_name": "input", "xpath": "html/body/input", "attributes": {"type": "text", "name": "q"}}
    spoken = {"node_name": "BUTTON", "x_path": "html/body/button", "attributes": {}, "ax_name": "Search"}
    bare = {"tag_name": "div", "xpath": "html/body/div[2]", "attributes": {"class": "x"}}
    clicks = [{"click": {"index": number}} for number in (3, 5, 9, 11)]
    found = steps(item("http://a/", *clicks, interacted_element=[named, spoken, bare, None]))
    told = [json.loads(step.action.text)["arguments"] for step in found]
    assert told == [
        {"target": 'input[name="q"]'},
        {"target": 'button "Search"'},
        {"target": "html/body/div[2]"},
        {"element": 11},
    ]
    assert json.loads(found[0].action.arguments) == {"index": 3, "target": 'input[name="q"]'}
    shown = steps(item("http://a/", *clicks, interacted_element=[named, spoken, bare, None], items=[]))
    assert json.loads(shown[0].action.text)["arguments"] == {"element": 3}


def test_actions_are_placed_where_their_items_begin_whatever_screenshots_hold():
    pictures = ["A" * 5000, 'not base64 {"model_output": 1}', "\u00fc" * 300, ""]
    items = [item(f"http://{n}/", {"go_back": {}}, screenshot=one) for n, one in enumerate(pictures)]
    text = json.dumps({"history": items}).encode()
    places = [step.offset for step in steps(*items)]
    assert [json.JSONDecoder().raw_decode(text.decode(), place)[0] for place in places] == items


def test_places_are_not_told_where_items_begin_otherwise():
    first, last = item("http://a/", {"go_back": {}}), item("http://b/", {"go_back": {}})
    turned = dict(reversed(last.items()))
    assert [step.offset for step in steps(first, turned)] == [0, 0]
    within = item("http://b/", {"go_back": {}}, items=[{"model_output": 1}])
    assert [step.offset for step in steps(first, within)] == [0, 0]
