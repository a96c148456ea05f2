"""Episodes of Terminus: what a prompt shows and what the harness says in it, and which responses are read."""

import json

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.conversation.terminus_texts import UnclearResponseError, recovered, response_of
from trajmill.connectors.recordings.terminus import Terminus
from trajmill.schemas import Reject, Trajectory

CONNECTOR = Terminus()
FIRST = (
    "Answer with keystrokes.\n\nTask Description:\nDo it.\n\nCurrent terminal state:\nCurrent Terminal Screen:\n$\n\n"
)


def response(*commands: dict[str, object], complete: bool = False) -> str:
    return json.dumps({"analysis": "a", "plan": "p", "commands": commands, "task_complete": complete})


def parsed(*episodes: tuple[str, str | None]) -> tuple[list[Trajectory], list[Reject]]:
    members = {}
    for number, (prompt, answer) in enumerate(episodes):
        members[f"episode-{number}/prompt.txt"] = prompt.encode()
        if answer is not None:
            members[f"episode-{number}/response.txt"] = answer.encode()
    found = list(CONNECTOR.parse(MemoryBlob("log", members)))
    return [one for one in found if isinstance(one, Trajectory)], [one for one in found if isinstance(one, Reject)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Here you are:\n" + response(), "wrapped_response"),
        ("```json\n" + response() + "\n```", "wrapped_response"),
        (response({"keystrokes": "ls\n"})[:-10], "truncated_response"),
        ("Here: " + response({"keystrokes": "ls\n"})[:-10], "truncated_response"),
        ("I am done.", "bad_response"),
        ("[1, 2]", "bad_response"),
        ('{"analysis": "x"}', "bad_response"),
        ('{"commands": ["ls"]}', "bad_response"),
        ("", "bad_response"),
        ("<response><commands><keystrokes>ls</commands></response>", "bad_response"),
    ],
)
def test_a_response_that_is_not_the_form_is_refused_with_its_reason(text: str, reason: str):
    with pytest.raises(UnclearResponseError) as caught:
        response_of(text)
    assert caught.value.reason == reason


WARNED = "Previous response had warnings:\nWARNINGS: - {}\n\nNew Terminal Output:\n$ b"


@pytest.mark.parametrize(
    ("answer", "warning", "message"),
    [
        ("Look:\n" + response({"keystrokes": "b\n"}), "Extra text detected before JSON object", "Look:"),
        (
            "```json\n" + response({"keystrokes": "b\n"}) + "\n```",
            "Extra text detected before JSON object",
            "```json\n```",
        ),
        (response({"keystrokes": "b\n"}) + " Or {this}.", "Extra text detected after JSON object", "Or {this}."),
        (response({"keystrokes": "b\n"})[:-1], "AUTO-CORRECTED: Fixed incomplete JSON", None),
        (
            "So <response><commands><keystrokes>b\n</keystrokes></commands></response>",
            "Extra text detected before <response> tag",
            "So",
        ),
    ],
)
def test_a_response_within_prose_is_read_where_the_harness_says_that_it_read_it(answer, warning, message):
    (one,), rejects = parsed((FIRST, answer), (WARNED.format(warning), response({"keystrokes": "c\n"})))
    assert rejects == []
    step = one.steps[0]
    assert json.loads(step.action.text) == [{"keystrokes": "b\n"}]
    assert step.action.message == message
    assert step.next_observation is not None
    assert step.next_observation.content == "$ b"
    assert warning in (one.steps[1].interleaved or "")


@pytest.mark.parametrize("answer", ["{" * 20000, '"{' * 20000, "\\" * 20001, "<response>" * 20000, "}" * 20000 + "{"])
def test_a_hostile_response_is_told_to_be_none_in_linear_time(answer):
    assert recovered(answer) is None


def test_a_prompt_is_told_by_its_name_and_its_words():
    assert CONNECTOR.sniff(FIRST.encode(), "x/episode-0/prompt.txt") is not None
    assert CONNECTOR.sniff(FIRST.encode(), "x/prompt.txt") is None
    assert CONNECTOR.sniff(b"Hello", "x/episode-0/prompt.txt") is None
