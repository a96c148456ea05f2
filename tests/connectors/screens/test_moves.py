"""Steps of logs that hold screens and actions: turns, what the harness said, and what a log tells only later."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import Action, Observation, Step, Steps, call_text, json_text

CLICK = Action("click", "click(1)")
PAGE, NEXT = Observation("a page"), Observation("the next page")


def told(moves: Moves) -> list[tuple[int, int, int]]:
    return [(step.turn, step.call_index, step.num_calls) for step in moves.steps]


def test_each_action_is_a_turn_of_its_own() -> None:
    moves = Moves()
    for offset in (0, 40, 90):
        moves.add(CLICK, PAGE, NEXT, offset)
    assert told(moves) == [(0, 0, 1), (1, 0, 1), (2, 0, 1)]
    assert [step.offset for step in moves.steps] == [0, 40, 90]


@given(st.lists(st.integers(1, 5), max_size=8))
def test_parallel_calls_share_a_turn_and_are_numbered_within_it(turns: list[int]) -> None:
    moves = Moves()
    for calls in turns:
        for _ in range(calls):
            moves.add(CLICK, None, None, 0, calls=calls)
    assert told(moves) == [(turn, index, calls) for turn, calls in enumerate(turns) for index in range(calls)]


def test_what_is_said_of_an_action_stands_in_its_step() -> None:
    moves = Moves()
    facts: dict[str, Any] = {"reward": 0.5, "terminated": False, "truncated": True, "exit_code": 3}
    moves.add(CLICK, PAGE, NEXT, 7, "log.json", **facts, at=1_700_000_000_000_000, seconds=1.5)
    (step,) = moves.steps
    assert (step.action, step.observation, step.next_observation) == (CLICK, PAGE, NEXT)
    assert (step.offset, step.member) == (7, "log.json")
    assert {name: getattr(step, name) for name in facts} == facts
    assert (step.started_at, step.duration_s) == (1_700_000_000_000_000, 1.5)


def test_texts_of_the_harness_go_with_the_turn_after_them_and_only_with_its_first_call() -> None:
    moves = Moves()
    moves.add(CLICK, None, None, 0)
    moves.say("It failed.")
    moves.say("")
    moves.say(None)
    moves.say("It failed again.")
    moves.add(CLICK, None, None, 1, calls=2)
    moves.say("Too late for this turn.")
    moves.add(CLICK, None, None, 2, calls=2)
    moves.add(CLICK, None, None, 3)
    both = '[{"role": "harness", "content": "It failed."}, {"role": "harness", "content": "It failed again."}]'
    late = '[{"role": "harness", "content": "Too late for this turn."}]'
    assert [step.interleaved for step in moves.steps] == [None, both, None, late]


def test_a_screen_that_is_shown_later_is_what_the_last_action_led_to() -> None:
    moves = Moves()
    moves.add(CLICK, PAGE, None, 0)
    moves.add(CLICK, None, None, 1)
    moves.reach(NEXT)
    assert [step.next_observation for step in moves.steps] == [None, NEXT]


def test_the_ending_changes_nothing_else_of_the_last_step_and_no_other_step() -> None:
    moves = Moves()
    for offset in (0, 1):
        moves.say("A note.")
        moves.add(CLICK, PAGE, NEXT, offset, "log", exit_code=1, at=5, seconds=2.0)
    first, last = moves.steps
    moves.end(reward=1.0, terminated=True, truncated=False)
    assert moves.steps[0] == first
    changed = {one.name for one in fields(Step) if getattr(moves.steps[1], one.name) != getattr(last, one.name)}
    assert changed == {"reward", "terminated", "truncated"}
    assert (moves.steps[1].reward, moves.steps[1].terminated, moves.steps[1].truncated) == (1.0, True, False)


def test_a_log_without_an_action_has_no_step_and_no_ending() -> None:
    moves = Moves()
    moves.say("Nobody acts.")
    moves.end(terminated=True)
    assert moves.steps == []
    assert not moves.is_seen


def test_it_is_known_whether_any_screen_stands_before_or_after_an_action() -> None:
    moves = Moves()
    moves.add(CLICK, None, None, 0)
    assert (moves.is_seen, moves.is_followed) == (False, False)
    moves.add(CLICK, PAGE, None, 1)
    assert (moves.is_seen, moves.is_followed) == (True, False)
    moves.reach(NEXT)
    assert (moves.is_seen, moves.is_followed) == (True, True)


def test_steps_of_a_log_that_is_not_held_are_the_same_and_need_not_stand_in_memory() -> None:
    held, spilled = Moves(), Moves(held=False)
    for moves in (held, spilled):
        moves.add(CLICK, PAGE, None, 0)
        moves.reach(NEXT)
        moves.end(terminated=True)
    assert isinstance(spilled.steps, Steps)
    assert list(spilled.steps) == held.steps


def tree(*lines: str) -> Observation:
    text = "\n".join(f"{'  ' * (place > 1)}#{place} {line}" for place, line in enumerate(lines, 1))
    return Observation(text, form="screen", dialect="uitree/1")


def clicked(**arguments: object) -> Action:
    return Action("click", call_text("click", arguments), json_text(arguments))


def test_elements_keep_their_numbers_and_actions_name_them_by_these() -> None:
    first, second = tree("window", 'button "Buy"'), tree("window", 'text "1 left"', 'button "Buy"')
    moves = Moves()
    moves.add(clicked(element="#2"), first, second, 0)
    moves.add(clicked(element="#3", onto="#2", text='"element": "#3"'), second, None, 1)
    moves.add(clicked(element="#3", target={"element": "e7"}), None, second, 2)
    one, two, three = moves.steps
    assert one.next_observation == two.observation == three.next_observation
    assert (two.observation and two.observation.content) == '#1 window\n  #3 text "1 left"\n  #2 button "Buy"'
    assert json.loads(one.action.text)["arguments"] == {"element": "#2"}
    told = {"element": "#2", "onto": "#3", "text": '"element": "#3"'}
    assert json.loads(two.action.text)["arguments"] == json.loads(two.action.arguments or "") == told
    assert json.loads(three.action.text)["arguments"]["element"] == "#3", "no screen was shown that it could name"


def test_a_source_s_own_ids_and_screens_of_other_forms_stay_as_they_are() -> None:
    shown = Observation("[a4] button 'OK'\n#2 text", form="screen", dialect="browsergym-axtree")
    moves = Moves()
    moves.add(clicked(element="#2"), shown, shown, 0)
    (step,) = moves.steps
    assert (step.observation, step.next_observation, step.action) == (shown, shown, clicked(element="#2"))


def test_what_is_led_to_later_has_the_numbers_of_what_was_shown_before() -> None:
    moves = Moves()
    moves.add(clicked(element="#2"), tree("window", 'button "Buy"'), None, 0)
    moves.reach(tree("window", 'text "Sold"', 'button "Buy"'))
    (step,) = moves.steps
    assert (step.next_observation and step.next_observation.content) == (
        '#1 window\n  #3 text "Sold"\n  #2 button "Buy"'
    )
