"""The screencast of a trace: which frame of it was the last that a page had shown at some time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from trajmill.connectors.reading.fields import str_of
from trajmill.connectors.web.playwright_trace.events import number_of
from trajmill.schemas import Attachment


class Screencast:
    """The frames by page, as far as they were told.

    Args:
        picture: a frame by the name of its file, as of `Part`.
    """

    def __init__(self, picture: Callable[[str], Attachment | None]) -> None:
        self._picture = picture
        self._read: dict[str, Attachment | None] = {}
        self._frames: dict[str, list[tuple[float, str]]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Takes in a record of a frame: its page, its time in milliseconds of the trace's clock, and its file."""
        at, name = number_of(event.get("timestamp")), str_of(event.get("sha1"))
        if at is None or not name:
            return
        frames = self._frames.setdefault(str_of(event.get("pageId")), [])
        frames.insert(bisect_right(frames, at, key=itemgetter(0)), (at, name))

    def last(self, page: str, at: float | None) -> Attachment | None:
        """The last frame of a page up to that time; None if there is none, or the time is not known.

        Raises:
            ParseError: it cannot be read; told once.
        """
        frames = self._frames.get(page, [])
        count = 0 if at is None else bisect_right(frames, at, key=itemgetter(0))
        if not count:
            return None
        name = frames[count - 1][1]
        if name not in self._read:
            self._read[name] = None
            self._read[name] = self._picture(name)
        return self._read[name]
