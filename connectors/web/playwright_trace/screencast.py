"""The screencast of a trace: the last frame that a page had shown at a given time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from trajmill.connectors.reading.fields import str_of
from trajmill.connectors.web.playwright_trace.events import time_of
from trajmill.schemas import Attachment


class Screencast:
    """The screencast frames by page.

    Args:
        picture: returns a frame by the name of its file, as in `Part`.
    """

    def __init__(self, picture: Callable[[str], Attachment | None]) -> None:
        self._picture = picture
        self._read: dict[str, Attachment | None] = {}
        self._frames: dict[str, list[tuple[float, str]]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Add a record of a frame: its page, its time in milliseconds of the trace's clock, and its file."""
        at, name = time_of(event.get("timestamp")), str_of(event.get("sha1"))
        if at is None or not name:
            return
        frames = self._frames.setdefault(str_of(event.get("pageId")), [])
        frames.insert(bisect_right(frames, at, key=itemgetter(0)), (at, name))

    def last(self, page: str, at: float | None) -> Attachment | None:
        """Return the last frame of a page up to that time; None if there is none, or if the time is unknown.

        Raises:
            ParseError: the frame cannot be read; raised once per frame.
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
