"""Form of calls in texts, and the positions of calls: at their marks, outside thoughts, fences and inline code."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, Final

from trajmill.connectors.conversation.calls import MessageError
from trajmill.schemas.record import record

Block = dict[str, Any]
"""Block of a message's content, in Anthropic's form."""

_SKIPPED: Final = r"|(?P<fence>^[ \t]*(?:```|~~~)[^\n]*$)|`[^`\n]+`|(?P<thought><think(?:ing)?>)"
_FENCE_END: Final = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*$", re.MULTILINE)
_THOUGHT_END: Final = re.compile(r"</think(?:ing)?>")
_NEVER: Final = re.compile(r"(?!)")


@record
class Form:
    """Form of calls in texts, and of their answers in messages of the user.

    Attributes:
        sign: Text that every text with such a call contains.
        mark: Pattern of the beginning of a call.
        read: Returns the blocks at a mark, and their end; raises `MessageError` if the call is not whole.
        head: Pattern of the beginning of an answer; it may name a call (`name`, `id`), and is the harness's.
        close: Pattern of the end of an answer; None if answers extend to the next head.
        tail: Another pattern of the end of an answer, which is the harness's.
        plain: True if a user's message without a head is an answer too when it follows a call.
        wrapped: True if an answer may be an object of name and content, or a list of them.
        declared: True if called names must be among the declared tools.
        asks: Checks whether a text of others, or the agent's own, asks for this form, which is used only then.
    """

    sign: str
    mark: re.Pattern[str]
    read: Callable[[str, re.Match[str]], tuple[list[Block], int]]
    head: re.Pattern[str] = _NEVER
    close: re.Pattern[str] | None = None
    tail: re.Pattern[str] = _NEVER
    plain: bool = False
    wrapped: bool = False
    declared: bool = False
    asks: Callable[[str, bool], bool] | None = None


def mark_of(pattern: str) -> re.Pattern[str]:
    """Compile the pattern of a mark, together with the patterns of text that contains no calls."""
    return re.compile(f"(?P<mark>{pattern}){_SKIPPED}", re.MULTILINE)


def first_mark(text: str, position: int, form: Form, names: Collection[str]) -> re.Match[str] | None:
    """Return the first mark after a position at which a call is possible; an unclosed fence or thought excludes none.

    Args:
        position: Beginning of the search; at 0, a thought that the text begins within is skipped.
        form: Form of the mark.
        names: Names of the declared tools.
    """
    if form.sign not in text:
        return None
    last_fence, last_thought = _last_ends(text)
    if not position and last_thought >= 0 and "<think" not in text[: (end := _end(_THOUGHT_END, text, 0))]:
        position = end
    while (match := form.mark.search(text, position)) is not None:
        position = match.end()
        if match["mark"] is not None and (not form.declared or match["name"] in names):
            return match
        if match["fence"] is not None and position <= last_fence:
            position = _end(_FENCE_END, text, position)
        elif match["thought"] is not None and position <= last_thought:
            position = _end(_THOUGHT_END, text, position)
    return None


@lru_cache(4)
def _last_ends(text: str) -> tuple[int, int]:
    """Return the position of the last line that may end a fence, and of the last end of a thought; -1 if none."""
    fences = (end.start() for end in _FENCE_END.finditer(text)) if "```" in text or "~~~" in text else ()
    return max(fences, default=-1), max(text.rfind("</think>"), text.rfind("</thinking>"))


def _end(closing: re.Pattern[str], text: str, position: int) -> int:
    match = closing.search(text, position)
    return len(text) if match is None else match.end()


def call_block(name: str, arguments: Any, key: str | None = None) -> Block:
    """Return the block of a call."""
    return {"type": "tool_use", "name": name, "input": arguments, "id": key}


def bad_call(wanted: str, text: str, position: int) -> MessageError:
    """Return the error of text that is no whole call."""
    return MessageError("bad_call", f"wanted {wanted}, met {text[position : position + 80]!r}")


def blocks_in(text: str, form: Form, names: Collection[str] = ()) -> list[Block]:
    """Split a text into words and calls, in order; without a mark, a single block of the whole text.

    Raises:
        MessageError: `bad_call` for an invalid call.
    """
    pieces: list[Block] = []
    begin = 0
    while (mark := first_mark(text, begin, form, names)) is not None:
        pieces.append({"type": "text", "text": text[begin : mark.start()].strip()})
        blocks, begin = form.read(text, mark)
        if form.declared and any(block["name"] not in names for block in blocks):
            raise bad_call("calls of declared tools", text, mark.start())
        pieces += blocks
    pieces.append({"type": "text", "text": text[begin:].strip() if pieces else text})
    return [block for block in pieces if block.get("text") != ""]
