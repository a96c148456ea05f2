"""Calls of an MCP session: their steps, and their plain values on a shelf of past calls.

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
    """A request that is an action. `shown` is the index of the last call answered before its turn, -1 for none."""

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


def pack_calls(calls: Sequence[Call]) -> list[tuple[Any, ...]]:
    """Convert the calls to plain values; see `unpack_calls`."""
    rows = []
    for call in calls:
        cells = (call.offset, call.name, call.arguments, call.call_id, call.at, call.turn, call.shown, call.said)
        rows.append((cells, None if call.answer is None else pack_observation(call.answer), call.seconds))
    return rows


def unpack_calls(rows: Iterable[tuple[Any, ...]]) -> list[Call]:
    """Invert `pack_calls`."""
    calls = []
    for cells, answer, seconds in rows:
        call = Call(*cells)
        call.answer, call.seconds = None if answer is None else unpack_observation(answer), seconds
        calls.append(call)
    return calls


def shelf_of(calls: Iterable[Call]) -> Shelf[Call]:
    """Return the calls as a shelf that keeps only the last ones in memory."""
    shelf = Shelf(pack_calls, unpack_calls, size)
    for call in calls:
        shelf.append(call)
    return shelf


def size(call: Call) -> int:
    """Estimate the memory of a call, in bytes."""
    notes_size = sum(len(note["content"]) for note in call.said) if call.said else 0
    answer = 0 if call.answer is None else len(call.answer.content or "") + len(call.answer.envelope or "")
    return 1024 + len(call.arguments or "") + notes_size + answer


def steps_of(calls: Shelf[Call] | list[Call]) -> list[Step] | Steps:
    """Return one step per call of a session: a list if all calls are in memory, else `Steps`."""
    all_held = isinstance(calls, list) or calls.held == len(calls)
    steps: list[Step] | Steps = [] if all_held else Steps()
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
