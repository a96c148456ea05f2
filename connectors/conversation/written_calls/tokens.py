"""Calls between special tokens: of Kimi K2, and of harmony, whose messages contain thoughts and texts too."""

from __future__ import annotations

import re
from typing import Final

from trajmill.connectors.conversation.written_calls.form import Block, bad_call, call_block

_KIMI: Final = re.compile(
    r"\s*<\|tool_call_begin\|>\s*((?:functions\.)?([^\s<>|:]{1,200})(?::\d{1,6})?)\s*"
    r"<\|tool_call_argument_begin\|>(.*?)<\|tool_call_end\|>",
    re.DOTALL,
)
_KIMI_END: Final = re.compile(r"\s*(?:<\|tool_calls?_section_end\|>|\Z)")
_MESSAGE: Final = re.compile(
    r"\s*(?:<\|start\|>assistant)?((?:\s*to=\S+?)?)<\|channel\|>([^<]{0,200}(?:<\|constrain\|>[^<]{0,40})?)<\|message\|>"
)
_TO: Final = re.compile(r"\bto=(?:functions\.)?([^\s<]{1,200})")
_BODY_END: Final = re.compile(r"<\|(?:end|call|return)\|>|(?=<\|(?:start|channel)\|>)|\Z")


def section(text: str, mark: re.Match[str]) -> tuple[list[Block], int]:
    """Return the calls of a Kimi K2 section, under the ids that name their functions."""
    calls: list[Block] = []
    position = mark.start() if mark["mark"] == "<|tool_call_begin|>" else mark.end()
    while (call := _KIMI.match(text, position)) is not None:
        calls.append(call_block(call[2], call[3], call[1]))
        position = call.end()
    end = _KIMI_END.match(text, position)
    if not calls or end is None:
        raise bad_call("calls in a section that is closed", text, mark.start())
    return calls, end.end()


def channels(text: str, mark: re.Match[str]) -> tuple[list[Block], int]:
    """Return the thought, text or call in a harmony message."""
    opened = _MESSAGE.match(text, mark.start())
    if opened is None:
        raise bad_call("a message with its channel", text, mark.start())
    end = _BODY_END.search(text, opened.end())
    assert end is not None
    body, to = text[opened.end() : end.start()], _TO.search(f"{opened[1]} {opened[2]}")
    if to is not None:
        return [call_block(to[1], body)], end.end()
    if opened[2].strip() == "analysis":
        return [{"type": "thinking", "thinking": body}], end.end()
    return [{"type": "text", "text": body}], end.end()
