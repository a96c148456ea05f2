"""Long texts of a Claude Code log out of memory: entries stay, since a line may hang on any other, texts go to a file.

What stands in for a text is a string that tells equal texts from others, so the tree is made of stand-ins as it is of
texts; `near` gives the text itself. A log of less than `schemas.spool.HELD_BYTES` keeps its texts.
"""

from __future__ import annotations

import hashlib
from typing import Final

from connectors.terminal.claude_lines import Call, Entry, Part, Result
from schemas import Spool, spool

_LONG: Final = 256
"""Texts of more characters go to the file."""


class Far(str):
    """A stand-in: the digest of a text that stands in a file."""

    __slots__ = ("place", "spool")
    place: int
    spool: Spool


def near(text: str) -> str:
    """The text, if need be from the file."""
    return str(text.spool.get(text.place)) if isinstance(text, Far) else text


def near_result(result: Result | None) -> Result | None:
    """The result with its texts."""
    if result is None or not isinstance(result.content, Far):
        return result
    return result._replace(content=near(result.content))


class FarTexts:
    """The entries of a log in their order, their long texts in a file once the log is long."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._spool: Spool | None = None
        self._last: str | None = None

    def add(self, entry: Entry) -> None:
        """Takes in the next entry."""
        if self._spool is None and entry.offset > spool.HELD_BYTES:
            self._spool = Spool()
            self.entries = list(map(self._far, self.entries))
        self.entries.append(entry if self._spool is None else self._far(entry))

    def _far(self, entry: Entry) -> Entry:
        last = self._last
        self._last = entry.uuid
        return entry._replace(
            parent=last if entry.parent == last else entry.parent,  # one object, since they are most of what is kept
            parts=tuple(map(self._far_part, entry.parts)),
            said=tuple(one._replace(text=self._text(one.text)) for one in entry.said),
            results=tuple(map(self._far_result, entry.results)),
        )

    def _far_part(self, part: Part) -> Part:
        if isinstance(part, Call):
            return part._replace(arguments=None if part.arguments is None else self._text(part.arguments))
        return part[0], self._text(part[1])

    def _far_result(self, result: Result) -> Result:
        return result._replace(content=None if result.content is None else self._text(result.content))

    def _text(self, text: str) -> str:
        if len(text) <= _LONG or self._spool is None:
            return text
        stand_in = Far(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest())
        stand_in.place, stand_in.spool = self._spool.put(text), self._spool
        return stand_in
