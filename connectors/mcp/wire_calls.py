"""A call of a session of the Model Context Protocol: its step, and the plain values as which a shelf keeps past calls.

`wire_session` finds the calls and their answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from trajmill.schemas import Action, Observation, Shelf, Step, Steps, call_text_of, json_text
from trajmill.schemas.spool import pack_observation, unpack_observation


@dataclass(slots=True)
class Call:
    """A request that is an action. `shown` is the call whose answer was there before its turn, -1 for none."""

    offset: int
    name: str
    arguments: str | None
    call_id: str
    at: int | None
    turn: int
    shown: int
    said: list[dict[str, str]]
    answer: Observation | None = None
    seconds: float | None = None


def packed(calls: Sequence[Call]) -> list[tuple[Any, ...]]:
    """The calls as plain values; see `unpacked`."""
    rows = []
    for one in calls:
        told = (one.offset, one.name, one.arguments, one.call_id, one.at, one.turn, one.shown, one.said)
        rows.append((told, None if one.answer is None else pack_observation(one.answer), one.seconds))
    return rows


def unpacked(rows: Iterable[tuple[Any, ...]]) -> list[Call]:
    """The inverse of `packed`."""
    calls = []
    for told, answer, seconds in rows:
        call = Call(*told)
        call.answer, call.seconds = None if answer is None else unpack_observation(answer), seconds
        calls.append(call)
    return calls


def shelf_of(calls: Iterable[Call]) -> Shelf[Call]:
    """The calls, of which only the last stand in memory."""
    shelf = Shelf(packed, unpacked, size)
    for call in calls:
        shelf.append(call)
    return shelf


def size(call: Call) -> int:
    """Roughly the memory of a call, in bytes."""
    said = sum(len(one["content"]) for one in call.said) if call.said else 0
    answer = 0 if call.answer is None else len(call.answer.content or "") + len(call.answer.envelope or "")
    return 1024 + len(call.arguments or "") + said + answer


def steps_of(calls: Shelf[Call] | list[Call]) -> list[Step] | Steps:
    """The steps of a session, one a call: a list where all calls are in memory, else `Steps`, as calls on a shelf."""
    held = isinstance(calls, list) or calls.held == len(calls)
    steps: list[Step] | Steps = [] if held else Steps()
    shown, seen = -1, None
    for turn, group in groupby(calls, attrgetter("turn")):
        together = list(group)
        if together[0].shown != shown:
            shown = together[0].shown
            seen = calls[shown].answer
        for index, call in enumerate(together):
            text = call_text_of(call.name, call.arguments)
            step = Step(
                action=Action(call.name, text, call.arguments, call.call_id),
                observation=seen,
                next_observation=call.answer,
                turn=turn,
                offset=call.offset,
                call_index=index,
                num_calls=len(together),
                interleaved=json_text(call.said) if call.said else None,
                started_at=call.at,
                duration_s=call.seconds,
            )
            steps.append(step)
    return steps
