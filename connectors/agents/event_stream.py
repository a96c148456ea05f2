"""Event streams of a client, one JSON event per line, with the sessions of a file one after the other.

The formats give the events their meaning; see `codex_exec` and `gemini_stream`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from trajmill.connectors.connector import Blob
from trajmill.connectors.conversation.items import Items
from trajmill.connectors.reading.documents import head_object
from trajmill.connectors.reading.fields import brief
from trajmill.connectors.reading.lines import json_lines
from trajmill.schemas import ParseError, Reject, Trajectory

_NAME_CHARS: Final = 80


class EventSession(ABC):
    """One session, read event by event.

    Attributes:
        errors: parse errors since they were last taken.
    """

    def __init__(self, uri: str) -> None:
        self.errors: list[ParseError] = []
        self.items = Items()
        self._uri = uri
        self._unknown: set[str] = set()

    @abstractmethod
    def ends_before(self, event: Any) -> bool:
        """Return True if the event begins another session."""

    @abstractmethod
    def event(self, offset: int, event: dict[str, Any]) -> None:
        """Process one event, which begins at that offset."""

    @abstractmethod
    def trajectory(self) -> Trajectory | None:
        """Return the session's trajectory; None if it has no call."""

    def _report(self, offset: int, reason: str, detail: str) -> None:
        self.errors.append(ParseError(self._uri, offset, reason, detail))

    def _unknown_type(self, offset: int, kind: Any, subject: str) -> None:
        """Report an unknown type, once per type."""
        name = f"{subject} of type {brief(kind, _NAME_CHARS)}"
        if name not in self._unknown:
            self._unknown.add(name)
            self._report(offset, "unknown_type", f"{name}; further ones in this log are not told")


@lru_cache(8)
def head_events(head: bytes, lines: int) -> tuple[tuple[int, dict[str, Any]], ...]:
    """Return (line number from 1, event) of the first lines of a log's head that are JSON objects.

    The events are cached for several formats and must not be changed.
    """
    events = enumerate(map(head_object, head.split(b"\n", lines)[:lines]), 1)
    return tuple((number, event) for number, event in events if event is not None)


def read_sessions(blob: Blob, connector: str, session: Callable[[str], EventSession]) -> Iterator[Trajectory | Reject]:
    """Yield the trajectories of the sessions in a log, in order, and a reject for each line or event that is invalid.

    Args:
        connector: name of the connector that reads it.
        session: creates a session from the log's URI.

    Raises:
        ParseError: no session has a call (`no_transitions`).
    """
    reading = session(blob.uri)
    empty = True
    end = 0
    for offset, event in json_lines(blob):
        if isinstance(event, ParseError):
            yield Reject.of(event, "record", connector)
            continue
        if reading.ends_before(event):
            if (trajectory := reading.trajectory()) is not None:
                empty = False
                yield trajectory
            reading = session(blob.uri)
        reading.items.grow(offset - end)
        end = offset
        if isinstance(event, dict):
            reading.event(offset, event)
        else:
            detail = f"wanted a JSON object, met {type(event).__name__}"
            reading.errors.append(ParseError(blob.uri, offset, "not_an_object", detail))
        for error in reading.errors:
            yield Reject.of(error, "record", connector)
        reading.errors.clear()
    if (trajectory := reading.trajectory()) is not None:
        empty = False
        yield trajectory
    if empty:
        raise ParseError(blob.uri, -1, "no_transitions", "no event of the stream is a call")
