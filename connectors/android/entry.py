"""Entries of an event log in order: performed actions, captured screens and pauses.

Logs in JSON Lines (`event_log`), of adb commands (`adb`) and of getevent (`touch_log`) are all read into these entries;
`alignment` then says which screens stood before and after each action.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from trajmill.connectors.android.action import Point

_MICROSECONDS: Final = 1_000_000


def word_set(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Moment:
    """A time as logged: seconds on its own scale.

    `is_utc`: the scale is UTC since 1970; otherwise only differences mean anything.
    """

    seconds: float
    is_utc: bool

    @property
    def microseconds(self) -> int | None:
        """Microseconds since 1970 UTC; None where the zone is not known."""
        return round(self.seconds * _MICROSECONDS) if self.is_utc else None


def moment_of(value: Any) -> Moment | None:
    """The time that a number (seconds or milliseconds since 1970) or an ISO 8601 text states; None if it is neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        if not 0 < value < 1e15:
            return None
        # 1e11 seconds are the year 5138, 1e11 milliseconds 1973: no log mixes them up.
        seconds = value / 1000 if value > 1e11 else float(value)
        return Moment(seconds, True) if 1e8 < seconds < 1e11 else None
    if not isinstance(value, str):
        return None
    text = value.strip().replace(",", ".")
    try:
        return moment_of(float(text))
    except ValueError:
        pass
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    if read.tzinfo is not None:
        return Moment(read.timestamp(), True)
    return Moment(read.replace(tzinfo=UTC).timestamp(), False)


@dataclass(frozen=True, slots=True)
class Performed:
    """An action.

    Attributes:
        offset: where its record begins.
        name: one of `action.VOCABULARY`, or the log's own word.
        original: the log's own arguments.
        told: arguments of its text other than where it happened.
        point: where it touched, in pixels.
        end: where a swipe ended.
        target: what the log says of the element: `bounds`, `resource_id` or `text`.
        before: the dump it was taken on, as the log names it; None if it names none.
        after: the dump it led to, likewise.
        time: when.
        reasoning: the agent's own.
    """

    offset: int
    name: str
    original: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    point: Point | None = None
    end: Point | None = None
    target: Mapping[str, Any] = field(default_factory=dict)
    before: str | None = None
    after: str | None = None
    time: Moment | None = None
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class Captured:
    """A screen was dumped, into a file of that name if one is named; `renamed_from`: the file was copied from there."""

    offset: int
    file: str | None = None
    time: Moment | None = None
    renamed_from: str | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The capture before this failed: its file shows nothing, or an older screen."""

    offset: int


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing was done for some seconds."""

    offset: int
    seconds: float
    time: Moment | None = None


@dataclass(frozen=True, slots=True)
class About:
    """Facts that the log states of the whole: task, device, agent; keys as in `Facts`."""

    offset: int
    facts: Mapping[str, str]


Entry: TypeAlias = Performed | Captured | Lost | Paused | About
