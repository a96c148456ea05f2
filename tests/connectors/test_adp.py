"""ADP's rows: which observation answers which action, with links and without, and who said what."""

import json

import pytest

from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.connectors.published.adp import Adp
from trajmill.schemas import ParseError, Reject, Trajectory


def text(content: str, source: str = "environment", **more: object) -> dict:
    return {"class_": "text_observation", "content": content, "source": source, **more}


def api(function: str, call_id: str | None = None, **more: object) -> dict:
    return {"class_": "api_action", "function": function, "kwargs": {}, "tool_call_id": call_id, **more}


def found(*content: dict, choices: Choices | None = None, **row: object) -> Trajectory | Reject:
    data = json.dumps({"id": "t", "content": content, "details": {}, **row}).encode() + b"\n"
    records = list(Adp().parse(MemoryBlob("std.jsonl", data, choices or Choices())))
    assert len(records) == 1
    return records[0]


def read(*content: dict, **more: object) -> Trajectory:
    trajectory = found(*content, **more)  # type: ignore[arg-type]
    assert isinstance(trajectory, Trajectory)
    return trajectory


def answers(trajectory: Trajectory) -> list[tuple[str, str | None, int]]:
    return [
        (step.action.name, step.next_observation.content if step.next_observation else None, step.turn)
        for step in trajectory.steps
    ]


def test_an_answer_that_is_told_twice_counts_once():
    answer = text("of f", tool_call_id="1")
    trajectory = read(api("f", "1"), answer, answer, api("g", "2"), text("of g", tool_call_id="2"))
    assert answers(trajectory) == [("f", "of f", 0), ("g", "of g", 1)]
    assert trajectory.steps[1].observation is not None
    assert trajectory.steps[1].observation.content == "of f"


def test_rewards_of_actions_and_of_observations_are_kept():
    trajectory = read(api("f", reward=1), text("x"), api("g"), text("y", reward=0.5))
    assert [step.reward for step in trajectory.steps] == [1.0, 0.5]


def test_a_system_text_before_the_first_action_is_the_agents_prompt():
    trajectory = read(text("Be brief.", "system"), text("Go.", "user"), api("f"), text("x", "system"))
    assert trajectory.context.agent_system == "Be brief."
    assert answers(trajectory) == [("f", "x", 0)]


def test_a_picture_that_is_elsewhere_is_no_observation():
    trajectory = read(api("f"), {"class_": "image_observation", "content": "shots/1.png", "source": "environment"})
    assert answers(trajectory) == [("f", None, 0)]


@pytest.mark.parametrize(
    ("content", "domain"),
    [
        ([api("click"), {"class_": "web_observation", "axtree": "x", "html": None, "url": None}], "web"),
        ([api("str_replace_editor"), text("x")], "swe"),
        ([{"class_": "code_action", "content": "ls", "language": "bash"}, text("x"), api("finish")], "terminal"),
        ([api("web_search"), text("x")], "search"),
        ([api("book_flight"), text("x")], "mcp"),
    ],
)
def test_the_domain_is_what_tools_and_pages_tell(content, domain):
    assert read(*content).domain == domain


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([text("Hi", "user"), {"class_": "message_action", "content": "Hello"}], "no_calls"),
        ([api("f"), {"class_": "nothing"}], "bad_element"),
        ([api("f"), 7], "bad_element"),
        ([{"class_": "code_action", "language": "bash"}], "bad_element"),
        ([api("")], "bad_message"),
    ],
)
def test_a_row_that_is_not_read_is_refused_whole(content, reason):
    data = json.dumps({"id": "t", "content": content, "details": {}}).encode()
    parsing = Adp().parse(MemoryBlob("std.jsonl", data))
    assert [next(parsing).reason] == [reason]  # type: ignore[union-attr]
    with pytest.raises(ParseError, match="no_transitions"):
        next(parsing)
