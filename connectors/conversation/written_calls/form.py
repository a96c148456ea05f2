"""A form of calls in texts, and where in a text they stand: at its marks, outside thoughts, fences and inline code."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, Final

from trajmill.connectors.conversation.calls import MessageError
from trajmill.schemas.record import record

Block = dict[str, Any]
"""A block of a message's content, in Anthropic's words."""

_SKIPPED: Final = r"|(?P<fence>^[ \t]*(?:```|~~~)[^\n]*$)|`[^`\n]+`|(?P<thought><think(?:ing)?>)"
_FENCE_END: Final = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*$", re.MULTILINE)
_THOUGHT_END: Final = re.compile(r"</think(?:ing)?>")
_NEVER: Final = re.compile(r"(?!)")


@record
class Form:
    """A form of calls in texts, and of their answers in messages of the user.

    Attributes:
        sign: stands in every text with such a call.
        mark: begins a call.
        read: what stands at a mark, as blocks, and where it ends; raises `MessageError` where it is no whole call.
        head: begins an answer; it may name a call (`name`, `id`), and is the harness's.
        close: ends an answer; None where answers go on to the next head.
        tail: ends an answer too, and is the harness's.
        plain: whether a message of the user without a head is an answer too, if it follows a call.
        wrapped: whether an answer may be an object of name and content, or a list of them.
        declared: whether names of calls must be among the declared tools.
        asks: tells that a text of others, or the agent's own, asks for this form, which is read only then.
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
    """The pattern of a mark, and beside it those of what calls do not stand in."""
    return re.compile(f"(?P<mark>{pattern}){_SKIPPED}", re.MULTILINE)


def first_mark(text: str, position: int, form: Form, names: Collection[str]) -> re.Match[str] | None:
    """The first mark behind a place that stands where calls stand; a fence or thought that is not closed is none.

    Args:
        text: of the agent.
        position: where it is searched from; behind a thought that the text begins within, where it is 0.
        form: of the mark.
        names: of the declared tools.
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
    """Return where the last line that may end a fence stands, and the last end of a thought; -1 where there is none."""
    fences = (end.start() for end in _FENCE_END.finditer(text)) if "```" in text or "~~~" in text else ()
    return max(fences, default=-1), max(text.rfind("</think>"), text.rfind("</thinking>"))


def _end(closing: re.Pattern[str], text: str, position: int) -> int:
    match = closing.search(text, position)
    return len(text) if match is None else match.end()


def call_block(name: str, arguments: Any, key: str | None = None) -> Block:
    """The block of a call."""
    return {"type": "tool_use", "name": name, "input": arguments, "id": key}


def bad_call(wanted: str, text: str, position: int) -> MessageError:
    """The error that what stands at a place of a text is no whole call."""
    return MessageError("bad_call", f"wanted {wanted}, met {text[position : position + 80]!r}")


def blocks_in(text: str, form: Form, names: Collection[str] = ()) -> list[Block]:
    """Split a text into words and calls, in its order; one block of the whole text where no mark stands in it.

    Raises:
        MessageError: `bad_call` of what begins as a call and is none.
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
