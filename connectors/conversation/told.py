"""Conversation built turn by turn from a log that assigns answers to calls itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from trajmill.connectors.conversation.items import Items
from trajmill.connectors.conversation.steps import course
from trajmill.connectors.conversation.turns import Call, Gap, Item, Said, Time, Turn, text_of_message
from trajmill.schemas import Action, Observation, Step, Steps

_CALL_BYTES: Final = 1024


def answered(
    call: Call,
    shown: Observation | None,
    offset: int,
    *,
    exit_code: int | None = None,
    at: Time = None,
    seconds: float | None = None,
    member: str = "",
) -> Call:
    """Return the call with its result and the place of its record."""
    call.shown, call.offset, call.exit_code, call.at, call.seconds = shown, offset, exit_code, at, seconds
    call.member = member
    return call


def call_of(action: Action) -> Call:
    """Convert a complete action to a call."""
    call = Call(action.name, action.arguments, action.call_id, 0, text=action.text)
    call.message, call.reasoning = action.message, action.reasoning
    return call


class Told:
    """Collector of the turns of a trajectory.

    Attributes:
        last: Last action.

    Args:
        in_memory: True if the log is held in memory, so that its steps, which share its texts, may be too.
    """

    def __init__(self, *, in_memory: bool = False) -> None:
        self.acted = 0
        self.last: Call | None = None
        self._items: list[Item] | Items = [] if in_memory else Items()
        self._ending: tuple[bool | None, bool | None] | None = None

    def say(self, role: str, text: str | None) -> None:
        """Add a text by `user` or `harness` between turns that answers none; an empty text is ignored."""
        if text:
            self._items.append(Said(role, text, answers=False))

    def turn(self, calls: Sequence[Call], sampled: str | None = None) -> None:
        """Adds a turn of one or more parallel actions, in call order, and what the model sampled for it."""
        if not calls:
            return
        first = calls[0]
        turn = Turn(first.offset, first.member, first.at, sampled=sampled)
        text = text_of_message(first) if len(calls) == 1 and first.shown is None else None
        if text is not None:  # said to nobody: it goes with the turn after it, if nothing stands between
            turn.texts, turn.thoughts = [text], [first.reasoning] if first.reasoning else []
        else:
            turn.calls = list(calls)
        self._items.append(turn)
        self.acted += len(calls)
        self.last = calls[-1]
        if isinstance(self._items, Items):
            self._items.grow(sum(map(_size, calls)))

    def show(self, seen: Observation | None) -> None:
        """Set the observation before the next action if it differs from the last result; None if it is unknown."""
        self._items.append(Gap() if seen is None else seen)

    def end(self, terminated: bool | None, truncated: bool | None) -> None:
        """Set how the last step ended the episode."""
        self._ending = terminated, truncated

    def steps(self) -> list[Step] | Steps:
        """Return the steps of the collected turns."""
        steps = course(self._items, instructed=True).steps
        if self._ending is not None and steps:
            terminated, truncated = self._ending
            steps[-1] = replace(steps[-1], terminated=terminated, truncated=truncated)
        return steps


def _size(call: Call) -> int:
    shown = (call.shown and call.shown.content) or ""
    return (
        _CALL_BYTES + 2 * len(call.arguments or "") + len(call.message or "") + len(call.reasoning or "") + len(shown)
    )
