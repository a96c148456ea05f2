"""Conversations of WebVoyager: which page each action was taken on, and what the harness said in place of one."""

import json

import pytest

from tests.conftest import ROOT
from tests.rows import blob_at, parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector
from trajmill.connectors.web.webvoyager import read_action

VOYAGER = connector("webvoyager")
RUN = ROOT / "tests" / "fixtures" / "webvoyager" / "input" / "taskTides--0"


@pytest.mark.parametrize(
    ("command", "name", "arguments"),
    [
        ("Click [12]", "click", {"element": 12}),
        ("Click 12", "click", {"element": 12}),
        ("Type [3]; old quay", "fill", {"element": 3, "text": "old quay", "enter": True}),
        ("Type [3]; [old quay]", "fill", {"element": 3, "text": "old quay", "enter": True}),
        ("**Click [4]**", "click", {"element": 4}),
        ("Scroll [WINDOW]; up", "scroll", {"direction": "up"}),
        ("Scroll [5]; [down]", "scroll", {"direction": "down", "element": 5}),
        ("Wait", "wait", {"seconds": 5}),
        ("GoBack", "go_back", {}),
        ("Google", "goto", {"url": "https://www.google.com/"}),
        ("ANSWER; [At noon.]", "task_complete", {"text": "At noon."}),
    ],
)
def test_every_action_is_read_with_and_without_brackets(command, name, arguments):
    action = read_action(f"Thought: so be it\n\nAction: {command}")
    assert action is not None
    assert json.loads(action.text) == {"name": name, "arguments": arguments}
    assert action.reasoning == "so be it"


def test_of_an_imagined_course_the_first_action_is_what_was_done():
    action = read_action("Thought: a\nAction: Type [2]; tea\n\nObservation: A page\n\nThought: b\nAction: Click [9]")
    assert action is not None
    told = {"element": 2, "text": "tea", "enter": True}
    assert (json.loads(action.text), action.reasoning) == ({"name": "fill", "arguments": told}, "a")


def test_what_calls_nothing_is_no_action():
    assert read_action("Thought: hm\n\nAction: Dance") is None
    assert read_action("I cannot do this.") is None


def test_pages_are_known_by_their_screenshots_where_their_texts_were_omitted():
    rows, _ = parsed(VOYAGER, blob_at(RUN))
    names = [[one["name"] for one in row["observation"]["attachments"]] if row["observation"] else None for row in rows]
    assert names == [["screenshot1.png"], ["screenshot2.png"], [], ["screenshot4.png"], []]
    assert [row["observation"]["content"] is None for row in rows] == [True, True, False, False, False]


def test_an_action_that_could_not_be_done_is_answered_by_the_harness():
    rows, _ = parsed(VOYAGER, blob_at(RUN))
    assert rows[1]["next_observation"]["origin"] == "harness"
    assert rows[1]["next_observation"]["is_error"] is True
    assert rows[2]["next_observation"]["origin"] == "environment"


def test_the_requests_of_the_harness_are_no_part_of_the_page():
    rows, _ = parsed(VOYAGER, blob_at(RUN))
    assert rows[3]["observation"]["content"] == '[0]: <button> "Menu";\t[3]: "Tomorrow";'
    assert json.loads(rows[3]["interleaved"])[0]["role"] == "harness"
    assert rows[3]["action"]["reasoning"] == "There it is. Action: is next."


def test_the_answer_is_followed_by_no_page():
    rows, _ = parsed(VOYAGER, blob_at(RUN))
    assert (rows[-1]["action"]["name"], rows[-1]["next_observation"]) == ("task_complete", None)


def test_messages_of_other_agents_are_left_to_others():
    other = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": "Hi"}]
    assert VOYAGER.sniff(json.dumps(other).encode(), "messages.json") is None
    assert list(VOYAGER.join(["a/interact_messages.json", "b/screenshot1.png"])) == []
    assert MemoryBlob("x", b"").members == ("",)
