"""The harness's words around what the agent was shown: headings, the state of its shell, how a command ended.

Templates of SWE-agent (`OBSERVATION:`, the lines before `bash-$`) and of OpenHands (`EXECUTION RESULT of […]:`, the
lines in brackets after an output, the count of turns left). Only whole templates at a text's very ends are told; the
same words anywhere else are the environment's. What a message as a whole means is not judged here.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_HEAD: Final = re.compile(r"OBSERVATION:(?:\n|\Z)|EXECUTION RESULT of \[[\w.-]{1,100}\]:(?:\n|\Z)")
_STATE: Final = re.compile(r"(?:\A|\n)(\(Open file: [^\n]*\)\n(?:\([^\n]*\)\n){1,8}bash-\$\s*)\Z")
_REMINDER: Final = re.compile(r"(?:\A|\n)(ENVIRONMENT REMINDER: You have [^\n]*)\Z")
_ENDED: Final = re.compile(
    r"(?:\A|\n)(\[(?:The command completed with exit code|Command finished with exit code|Current working directory:|"
    r"Python [Ii]nterpreter:|Jupyter current working directory:|Jupyter Python interpreter:)[^\n]*\])\Z"
)
_CODE: Final = re.compile(r"\[(?:The command completed|Command finished) with exit code (-?\d{1,9})\b")

_HEADS: Final = ("OBSERVATION:", "EXECUTION RESULT of [")
_SHELL: Final = "bash-$"
_REMINDS: Final = "ENVIRONMENT REMINDER: You have "
_REMINDS_BARE: Final = _REMINDS.rstrip()
_ENDS: Final = ("]", _SHELL)

_TAIL: Final = 8192
"""Characters of an end that a template is looked for in."""

_LINES: Final = 8


class Dressed(NamedTuple):
    """A text without its templates, these in the order of the text, and the exit code that they tell."""

    text: str
    notes: tuple[str, ...]
    exit_code: int | None = None


def may_be_dressed(text: str) -> bool:
    """Whether there may be a template at an end of the text; without one it is what was shown."""
    end = text.rstrip()
    return end.endswith(_ENDS) or text.startswith(_HEADS) or end.find(_REMINDS_BARE, end.rfind("\n") + 1) >= 0


def undressed(text: str) -> Dressed:
    """What was shown, and the harness's words around it; one line end goes with each of them."""
    head = _HEAD.match(text)
    begin, end = head.end() if head else 0, len(text)
    tail: list[str] = []
    code: re.Match[str] | None = None
    while len(tail) < _LINES:
        start = end - _TAIL if end - begin > _TAIL else begin
        found = _last(text[start:end].rstrip("\n"))
        if found is None:
            break
        note = found[1].rstrip()
        tail.append(note)
        code = code or _CODE.match(note)
        end = start + found.start()
    if tail:
        tail.reverse()
        body = text[begin:end].rstrip("\n")
    else:
        body = text[begin:]
    known = None if code is None or not -(2**31) < (number := int(code[1])) < 2**31 or number == -1 else number
    return Dressed(body, (head[0].rstrip(), *tail) if head else tuple(tail), known)


def state_apart(text: str) -> tuple[str | None, str | None]:
    """A text, None if nothing is left of it, and the state of SWE-agent's shell that it ends in, None if in none."""
    ends = text.rstrip().endswith(_SHELL)
    found = _STATE.search(text, max(0, len(text) - _TAIL)) if ends else None
    if found is None:
        return text or None, None
    return text[: found.start()].rstrip("\n") or None, found[1].rstrip()


def _last(text: str) -> re.Match[str] | None:
    """The template that the text ends in."""
    if text.endswith("]"):
        line = text.rfind("\n")
        return _ENDED.search(text, line if line > 0 else 0)
    if text.endswith(_SHELL) or (text[-1:].isspace() and text.rstrip().endswith(_SHELL)):
        place = text.rfind("(Open file: ")
        return _STATE.search(text, place - 1 if place else 0) if place >= 0 else None
    line = text.rfind("\n") + 1
    return _REMINDER.search(text, line - 1 if line else 0) if text.rfind(_REMINDS, line) == line else None
