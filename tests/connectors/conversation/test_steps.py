"""Rules that formats of agent sessions share."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.steps import mark_dangling
from trajmill.connectors.conversation.turns import Call, Part, Result, Said
from trajmill.schemas import Action, Observation, Step


def test_a_step_that_is_cut_keeps_all_that_it_held() -> None:
    held: dict[str, Any] = {field.name: number for number, field in enumerate(fields(Step))}
    held |= {"observation": Observation("a"), "next_observation": None, "terminated": None, "truncated": None}
    step = Step(**{**held, "action": Action("bash", "ls"), "num_calls": 1})
    steps = [step]
    mark_dangling(steps)
    assert steps == [replace(step, truncated=True)]


def test_what_stands_after_a_turn_without_any_answer_is_not_known() -> None:
    called: list[Part] = [Call("a", "{}", "1", 0), Result("1", None, "A", 1), Call("b", "{}", "2", 2)]
    steps = list(conversation([*called, Said("harness", "Lost."), Call("c", "{}", "3", 3)]).steps)
    assert [step.observation and step.observation.content for step in steps] == [None, "A", None]


def test_what_stands_after_parallel_calls_is_the_last_answer_of_them() -> None:
    called: list[Part] = [Call("a", "{}", "1", 0), Call("b", "{}", "2", 1), Result("1", None, "A", 2)]
    steps = list(conversation([*called, Call("c", "{}", "3", 3)]).steps)
    assert [step.observation and step.observation.content for step in steps] == [None, None, "A"]
