"""Entries of an event log in order: performed actions, captured screens and pauses.

JSON Lines logs (`event_log`), logs of adb commands (`adb`) and of getevent (`touch_log`) are all read into these
entries. `alignment` then finds the screens before and after each action.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from trajmill.connectors.android.action import Point

_MICROSECONDS: Final = 1_000_000


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Moment:
    """A time as logged: seconds on its own scale.

    `is_utc`: the scale is UTC since 1970; otherwise only differences are meaningful.
    """

    seconds: float
    is_utc: bool

    @property
    def microseconds(self) -> int | None:
        """Microseconds since 1970 UTC; None if the time zone is unknown."""
        return round(self.seconds * _MICROSECONDS) if self.is_utc else None


def moment_of(value: Any) -> Moment | None:
    """Parse a number (seconds or milliseconds since 1970) or an ISO 8601 text; None if the value is neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        if not 0 < value < 1e15:
            return None
        # 1e11 seconds are the year 5138 and 1e11 milliseconds 1973, so they cannot be confused.
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
        name: a word of `action.VOCABULARY`, or the log's own word.
        original: the log's own arguments.
        told: arguments for its text, except its location.
        point: the touched point, in pixels.
        end: end point of a swipe.
        target: the log's description of the element: `bounds`, `resource_id` or `text`.
        before: the dump before the action, as the log names it; None if it names none.
        after: the dump after the action, as the log names it; None if it names none.
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
    """A dump of a screen, into the named file if there is a name; `renamed_from`: the file was copied from there."""

    offset: int
    file: str | None = None
    time: Moment | None = None
    renamed_from: str | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """A failed capture: the file of the capture before this entry shows nothing, or an older screen."""

    offset: int


@dataclass(frozen=True, slots=True)
class Paused:
    """A pause of some seconds."""

    offset: int
    seconds: float
    time: Moment | None = None


@dataclass(frozen=True, slots=True)
class About:
    """Facts that the log states about the whole: task, device, agent; keys as in `Facts`."""

    offset: int
    facts: Mapping[str, str]


Entry: TypeAlias = Performed | Captured | Lost | Paused | About
