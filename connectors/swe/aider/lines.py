"""Blocks of an Aider chat history: the user's input, Aider's output, and the model's replies.

The rules follow how `aider/io.py` writes the file. A line of the user or of Aider ends in exactly two spaces, and each
block except a further line of Aider's begins after a blank line. A `####` heading or a `>` quote of the model does
neither and stays in its reply. Aider prefixes only the first line of an output of several lines, which continues up to
the line that ends in two spaces. Interrupted replies leave fences open. Within an open fence, a line counts as the
user's only after two blank lines, which follow a reply, since code can hold a similar line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from trajmill.connectors.connector import Blob
from trajmill.connectors.reading.lines import lines
from trajmill.connectors.reading.values import readable
from trajmill.schemas import ParseError

_HEADER: Final = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_OWN: Final = re.compile(
    r"> (?:Tokens: |Cost: |Applied edit to |Commit [0-9a-f]{7} |\^C|Did not apply edit|Unexpected error: |Retrying in )"
)
_FENCE: Final = re.compile(r"\s{0,3}(?:```|~~~)")


@dataclass(slots=True)
class Block:
    """Lines of one voice: `user`, `tool` (Aider) or `reply` (the model); `offset` is that of the first line."""

    voice: str
    offset: int
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The block's text without prefixes and without blank lines around it."""
        return "\n".join(self.texts).strip("\n")


@dataclass(slots=True)
class Session:
    """The blocks between two starts of Aider; `started` is the local time, None before the first start."""

    started: str | None
    offset: int
    blocks: list[Block] = field(default_factory=list)


def sessions(blob: Blob) -> Iterator[Session]:
    """Yield the sessions of a chat history in order.

    Raises:
        ParseError: `line_too_long`.
    """
    reader = _Reader()
    with blob.open("") as stream:
        for line in lines(stream):
            if line.data is None:
                raise ParseError(blob.uri, line.offset, "line_too_long", "a line of more than 256 MB")
            if (finished := reader.take(readable(line.data), line.offset)) is not None:
                yield finished
    yield reader.session


class _Reader:
    """Collector of lines into blocks, one session after the other."""

    def __init__(self) -> None:
        self.session = Session(None, 0)
        self._blanks = 1
        self._fenced = False
        self._open = False
        self._voice = ""
        self._texts: list[str] = []

    def take(self, text: str, offset: int) -> Session | None:
        """Process a line; return the finished session if the line starts a new one."""
        header = _HEADER.fullmatch(text) if text.startswith("# aider") else None
        if header is not None:
            finished, self.session = self.session, Session(header[1], offset)
            self._voice, self._fenced, self._open, self._blanks = "", False, False, 0
            return finished
        blank = not text or text.isspace()
        sign = text[:1]
        if self._open:
            closes = text.endswith("  ") and text[:-2] != "" and not text[:-2].endswith(" ")
            self._add("tool", text.removesuffix("  ") if closes else text, offset)
            self._open = not closes
        elif sign == "#" and text.startswith("####") and text.endswith("  ") and self._is_user():
            self._add("user", text[4:-2].removeprefix(" "), offset, self._voice != "user" or self._blanks > 0)
        elif sign == ">" and self._is_tool(text):
            self._add("tool", text[1:].removesuffix("  ").removeprefix(" "), offset)
            self._open = not text.endswith("  ")
        elif blank:
            if self._voice == "reply":
                self._texts.append(text)
        elif self._voice == "tool" and not self._blanks:
            self._texts.append(text)
        else:
            self._fenced ^= _FENCE.match(text) is not None
            self._add("reply", text, offset)
        self._blanks = self._blanks + 1 if blank else 0
        return None

    def _is_user(self) -> bool:
        if self._voice == "user" and not self._blanks:
            return True
        return self._blanks > (1 if self._fenced and self._voice == "reply" else 0)

    def _is_tool(self, text: str) -> bool:
        ends_in_blanks = text.endswith("  ")
        if self._voice != "reply":
            return ends_in_blanks or not self._blanks or _OWN.match(text) is not None
        return self._blanks > 0 and (ends_in_blanks or _OWN.match(text) is not None)

    def _add(self, voice: str, text: str, offset: int, anew: bool = False) -> None:
        if anew or voice != self._voice or not self.session.blocks:
            block = Block(voice, offset)
            self.session.blocks.append(block)
            self._texts = block.texts
            self._voice = voice
            if voice != "reply":
                self._fenced = False
        self._texts.append(text)
