r"""Conversations within one text, as a chat template writes them: ChatML, with its control tokens or without.

    <|im_start|>user\nHow is bed 2?<|im_end|>\n<|im_start|>assistant\n…
    user\nHow is bed 2?\nassistant\n<tool_call>…</tool_call>\nuser\n<tool_response>…</tool_response>\nassistant\n…

Dumps of rollouts hold the second form, in which only the answers of tools tell where a message begins.
"""

from __future__ import annotations

import re
from typing import Final

_MARK: Final = "<|im_start|>"
_MESSAGE: Final = re.compile(r"<\|im_start\|>(\w{1,20})\n?(.*?)(?:<\|im_end\|>\s*|(?=<\|im_start\|>)|\Z)", re.DOTALL)
_ASKED: Final = re.compile(r"\A(?:system\n(.*?)\n)?user\n(.*)\nassistant\n?\Z", re.DOTALL)
_ANSWER: Final = re.compile(
    r"(?<=</tool_call>)\s*(?:user|tool)\n(\s*<tool_response>.*?</tool_response>)\s*assistant\n?", re.DOTALL
)


def messages_in(asked: str, reply: str = "") -> list[dict[str, str]] | None:
    """Split a chat text, or a prompt and its continuation, into messages; None for any other text."""
    if _MARK in asked:
        return [{"role": role, "content": text} for role, text in _MESSAGE.findall(asked + reply) if text.strip()]
    prompt = _ASKED.match(asked) if asked.startswith(("system\n", "user\n")) else None
    if prompt is None:
        return None
    messages = [("system", prompt[1]), ("user", prompt[2])]
    pieces = _ANSWER.split(reply)
    roles = ("assistant", "tool") * len(pieces)
    messages += zip(roles, pieces, strict=False)
    return [{"role": role, "content": text} for role, text in messages if text and text.strip()]
