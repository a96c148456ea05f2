"""A call of a session of the Model Context Protocol and its plain form, in which calls that are long past are laid off.

It pairs nothing and knows no message; see `wire_session`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from schemas import Observation
from schemas.spool import pack_observation, unpack_observation


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


def size(call: Call) -> int:
    """Roughly the memory of a call, in bytes."""
    said = sum(len(one["content"]) for one in call.said) if call.said else 0
    return 1024 + len(call.arguments or "") + said + len((call.answer and call.answer.content) or "")
