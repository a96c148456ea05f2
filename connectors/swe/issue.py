"""The issue that a patch should solve, and the files that it touches, from prompts and trajectories of agents.

Only text between the marks of a known prompt is used: `<issue>`, `<pr_description>` and similar tags, and in the
prompts of SWE-bench's own inference the files of `<code>`, each between `[start of PATH]` and `[end of PATH]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from trajmill.connectors.connector import Blob
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import object_of, text_in
from trajmill.connectors.reading.large.outline import ARRAY, Shape
from trajmill.connectors.swe.answer import content_of
from trajmill.schemas import ParseError

_TAGS: Final = ("issue", "pr_description", "issue_description", "problem_statement")
_ISSUE: Final = "ISSUE:\n"
_THEN: Final = "\n\nINSTRUCTIONS:"
_TOUCHED: Final = re.compile(r"^(?:---|\+\+\+) (?:[ab]/)?([^\t\r\n]+)", re.MULTILINE)
_SHAPES: Final[list[Shape]] = [[], {"messages": [], "history": [], "trajectory": []}]
_FIRST_MESSAGES: Final = 8


def issue_in(text: str) -> str | None:
    """Return the issue in a prompt; None if the prompt marks none."""
    for tag in _TAGS:
        if (inside := _between(text, f"<{tag}>", f"</{tag}>")) is not None:
            return inside.strip() or None
    begin = text.find(_ISSUE)
    if begin < 0:
        return None
    end = text.find(_THEN, begin)
    return text[begin + len(_ISSUE) : end].strip() or None if end >= 0 else None


def paths_touched(patch: str) -> list[str]:
    """Return the paths that a patch names, in its order."""
    return [path for path in dict.fromkeys(_TOUCHED.findall(patch)) if path != "/dev/null"]


def state_in(text: str, patch: str) -> str | None:
    """Return the issue of a prompt and those of its files that a patch touches, in the form of the prompt."""
    issue = issue_in(text)
    code = _code_in(text)
    files: list[str] = []
    for path in paths_touched(patch):
        first, last = f"[start of {path}]\n", f"[end of {path}]"
        content = _between(code, first, last)
        files += [] if content is None else [f"{first}{content}{last}"]
    return "\n\n".join([*([] if issue is None else [issue]), *files]) or None


def _code_in(text: str) -> str:
    """Return the files of a prompt; the files and the issue may contain the same marks."""
    begin = max(text.find("</issue>\n<code>\n"), text.find("<code>") if "<issue>" not in text else -1)
    return text[begin : text.rfind("</code>")] if begin >= 0 else ""


def issue_of_trajectory(blob: Blob, member: str) -> str | None:
    """Return the issue in the first messages of a trajectory of mini-swe-agent or SWE-agent; None if there is none.

    An unreadable trajectory states none here; it is an input of its own and is rejected there.
    """
    try:
        value, _ = json_document(blob, member, _SHAPES)
    except ParseError:
        return None
    document = object_of(value)
    messages = next(
        (
            candidate
            for candidate in (value, document.get("messages"), document.get("history"))
            if isinstance(candidate, ARRAY)
        ),
        (),
    )
    return _first_issue(messages)


def _first_issue(messages: Sequence[Any]) -> str | None:
    for _, entry in zip(range(_FIRST_MESSAGES), messages, strict=False):
        message = object_of(entry)
        if text_in(message, "role") == "user" and message.get("is_demo") is not True:
            issue = issue_in(content_of(message.get("content")).text or "")
            if issue is not None:
                return issue
    return None


def _between(text: str, first: str, last: str) -> str | None:
    begin = text.find(first)
    end = text.find(last, begin + len(first)) if begin >= 0 else -1
    return text[begin + len(first) : end] if end >= 0 else None
