"""Conversations of which the log itself says which answer is whose."""

from __future__ import annotations

import pytest

from trajmill.connectors.conversation.told import Told, answered
from trajmill.connectors.conversation.turns import Call
from trajmill.schemas import Observation, Step


def said(text: str) -> Call:
    return Call("message", f'{{"content": "{text}"}}', None, 0)


def shown(step: Step) -> str | None:
    return step.observation.content if step.observation else None


def test_what_was_said_to_nobody_goes_with_the_next_turn():
    told = Told(held=True)
    told.turn([answered(said("First."), None, 1)])
    told.turn([answered(said("Then."), None, 2)])
    told.turn([answered(Call("ls", "{}", None, 0, message="Now."), Observation("a"), 3)])
    (only,) = told.steps()
    assert (only.action.name, only.action.message, only.offset) == ("ls", "First.\n\nThen.\n\nNow.", 3)


def test_what_was_answered_or_followed_by_words_of_others_is_a_step():
    told = Told(held=True)
    told.turn([answered(said("Hm."), Observation("No action found.", origin="harness"), 1)])
    told.turn([answered(said("Well."), None, 2)])
    told.say("harness", "Go on.")
    told.turn([answered(Call("ls", "{}", None, 0), Observation("a"), 3)])
    first, second, third = told.steps()
    assert first.next_observation is not None
    assert first.next_observation.origin == "harness"
    assert second.next_observation is None, "the log says which answer is whose, and these words are none"
    assert third.interleaved == '[{"role": "harness", "content": "Go on."}]'


@pytest.mark.parametrize("held", [True, False])
def test_what_stands_before_is_what_was_shown_last_unless_the_log_says_otherwise(held):
    told = Told(held=held)
    told.show(Observation("start"))
    told.turn([answered(Call("a", None, None, 0), Observation("A"), 1)])
    told.turn([answered(Call("b", None, None, 0), None, 2)])
    told.turn([answered(Call("c", None, None, 0), None, 3)])
    told.show(None)
    told.turn([answered(Call("d", None, None, 0), None, 4)])
    assert [shown(step) for step in told.steps()] == ["start", "A", None, None]


def test_the_ending_is_that_of_the_last_step():
    told = Told(held=True)
    told.turn([answered(Call("a", None, None, 0), None, 1), answered(Call("b", None, None, 0), None, 1)])
    told.end(None, True)
    first, last = told.steps()
    assert (first.truncated, last.truncated, last.call_index, last.num_calls) == (None, True, 1, 2)
