"""Steps of logs that hold screens and actions: turns, what the harness said, and what a log tells only later."""

from __future__ import annotations

from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import Observation

PAGE, NEXT = Observation("a page"), Observation("the next page")


def test_a_log_without_an_action_has_no_step_and_no_ending() -> None:
    moves = Moves()
    moves.say("Nobody acts.")
    moves.end(terminated=True)
    assert moves.steps == []
    assert not moves.is_seen
