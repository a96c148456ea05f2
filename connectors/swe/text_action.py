"""The action in an agent's text: a fenced block, or XML in the form of function calls.

The forms are those of two parsers of SWE-agent (`thought_action` and `xml_function_calling` of
sweagent/tools/parsing.py). The text around the action is the agent's message. An example within a longer text can look
like an action; as in SWE-agent, the last closed fenced block counts.
"""

from __future__ import annotations

import re
from typing import Final

from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.written_calls import tags
from trajmill.schemas.record import record

# Ticks at the beginning of a line. A pattern that begins with `^` is tried at every character, this one only at ticks.
_FENCE: Final = re.compile(r"```(?<![^\n]```)(\S*)[ \t]*$", re.MULTILINE)
_FUNCTION: Final = re.compile(r"<function=[A-Za-z0-9_.-]{1,64}>")


@record
class Written:
    """An action as written in a text: a tool with its arguments, and the text around it.

    A fenced block is a line of shell: `name` is None and `arguments` holds it as `command`.
    """

    name: str | None
    arguments: dict[str, str]
    around: str


def last_fence(text: str) -> Written | None:
    """Return the last closed fenced block of a text whose fences are not nested; None if there is none."""
    opened: list[re.Match[str]] = []
    last: tuple[re.Match[str], re.Match[str]] | None = None
    for fence in _FENCE.finditer(text):
        if opened and not fence[1]:
            start = opened.pop()
            if not opened:
                last = start, fence
        else:
            opened.append(fence)
    if last is None:
        return None
    (begin, inside), (end, outside) = last[0].span(), last[1].span()
    return Written(None, {"command": text[min(inside + 1, end) : end]}, _around(text[:begin], text[outside:]))


def function(text: str) -> Written | None:
    """Return the last complete function in tags of a text, with its parameters; None if there is none."""
    begins = list(_FUNCTION.finditer(text))
    if not begins:
        return None
    try:
        [call], end = tags.function(text, begins[-1])
    except MessageError:
        return None
    return Written(call["name"], call["input"], _around(text[: begins[-1].start()], text[end:]))


def _around(before: str, after: str) -> str:
    before, after = before.strip(), after.strip()
    return f"{before}\n{after}" if before and after else before or after
