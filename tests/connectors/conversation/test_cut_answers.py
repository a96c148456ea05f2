"""Answers that a harness cut without saying so, and those that only look like it."""

import json

import pytest

from trajmill.connectors.conversation.cut_answers import is_cut, with_cut
from trajmill.schemas import Observation

ROWS = json.dumps([{"id": number, "name": f"bed {number}"} for number in range(400)])
PAGE = "<html>\n<body>\n" + "<p>Water the tulips.</p>\n" * 300 + "</body>\n</html>"


@pytest.mark.parametrize(
    "text",
    [
        '{"beds": [{"id": 1, "soil": "dry and sandy...',
        '{"beds": [{"id": 1}, {"id": 2...\n',
        '[{"id": 1}, {"id"…',
        "{'beds': ['one', 'two...",
        "[12, 13, 14...",
        '{"soil": "dry and sa...[truncated]", "id": 1}',
        '{"soil": "dry and sandy… (120 chars omitted)"}',
        '[{"id": 1}, "... 12 more items"]',
        ROWS[:1000],
        ROWS[:4096],
        ROWS[:997] + "...",
        ROWS[:2000] + "...",
        PAGE[:3000],
        "<!DOCTYPE html>" + PAGE[:985],
        '<?xml version="1.0"?>\n<beds><bed>1</bed><be...',
        ("The tulips need water. " * 50)[:500] + "...",
    ],
)
def test_what_stops_within_its_form_or_in_dots_at_a_round_size_was_cut(text):
    assert is_cut(text)


@pytest.mark.parametrize(
    "text",
    [
        "Loading...", "[INFO] Building the garden...", "[1/3] Fetching packages...",
        "[ 50%] Building CXX object lamp.o...", "[=====>      ] 12 of 40...", "Well, I do not know…", "...", "",
        '{"status": "Loading..."}',
        '{"status": "... 12 more items are loaded soon. Please wait until the gardener has watered all of the beds."}',
        'He said "...[truncated]", and went.', "{...", ROWS, ROWS[:1001], ROWS[:1100],
        ("The tulips need water. " * 50)[:700] + "...", "a" * 1000, PAGE, "<br>Loading...", "<p>Loading</p>...",
        json.dumps({"text": "x" * (1000 - len('{"text": ""}'))}),
    ],
)  # fmt: skip
def test_what_is_whole_or_ends_in_dots_of_its_own_was_not(text):
    assert not is_cut(text)


def test_only_what_the_environment_said_is_marked_and_a_mark_of_the_log_stays():
    cut = '{"beds": [1, 2...'
    assert with_cut(Observation(cut)) == Observation(cut, truncation="harness")
    for seen in (Observation(cut, truncation="recorder"), Observation(cut, origin="user"), Observation(None)):
        assert with_cut(seen) is seen
