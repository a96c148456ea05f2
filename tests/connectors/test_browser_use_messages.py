"""Message dumps of browser-use: the page is taken out of its message, and answers are read in both of their forms."""

import json

import pytest

from tests.conftest import ROOT
from tests.rows import blob_at, parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector
from trajmill.schemas import ParseError

MESSAGES = connector("browser_use_messages")
DUMP = ROOT / "tests" / "fixtures" / "browser_use_messages" / "input" / "messages.json"


def test_the_page_alone_is_the_observation():
    rows, _ = parsed(MESSAGES, blob_at(DUMP))
    assert rows[0]["observation"]["content"].startswith("<page_info>0.0 above")
    assert "Order a tea" not in rows[0]["observation"]["content"]
    assert rows[0]["task"]["instruction"] == "Order a tea at the mole."
    assert [one["role"] for one in rows[0]["observation"]["attachments"]] == ["screenshot"]


def test_calls_of_one_answer_are_one_turn_and_the_last_is_followed_by_the_page():
    rows, _ = parsed(MESSAGES, blob_at(DUMP))
    assert [(row["turn"], row["call_index"], row["num_calls"]) for row in rows] == [(0, 0, 2), (0, 1, 2), (1, 0, 1)]
    assert rows[0]["next_observation"] is None
    assert rows[1]["next_observation"]["content"].endswith("*[9]<p />\n\tThank you, Ada")
    assert rows[2]["observation"] == rows[1]["next_observation"]


def test_an_answer_within_a_tool_call_is_read():
    rows, _ = parsed(MESSAGES, blob_at(DUMP))
    assert json.loads(rows[2]["action"]["text"]) == {
        "name": "task_complete",
        "arguments": {"text": "Ordered.", "success": True},
    }


def test_a_request_without_its_answer_is_refused():
    document = json.loads(DUMP.read_bytes())
    document["messages"] = document["messages"][:2]
    with pytest.raises(ParseError) as caught:
        list(MESSAGES.parse(MemoryBlob("m", json.dumps(document).encode())))
    assert caught.value.reason == "no_actions"


def test_chat_messages_of_others_are_left_to_others():
    assert (
        MESSAGES.sniff(b'{"messages": [{"role": "user", "content": "automate browser tasks"}]}', "messages.json")
        is None
    )
