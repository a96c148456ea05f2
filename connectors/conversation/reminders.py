"""What clients hang on to answers and put into a user's message, told apart from what a tool put out and a user said.

Reminders are in tags; the other forms are rows of `harness_text`. Nothing here knows a line; see `agents.claude_code`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trajmill.connectors.conversation.harness_text import ANYONE, CLAUDE_CODE, Source, is_clients, is_empty, line_behind

OPEN: Final = "<system-reminder>"
CLOSE: Final = "</system-reminder>"
_REMINDERS: Final = 16
"""Reminders looked for at each end of a result; more than a few never stand there."""

_CLOSING: Final = 256
"""Characters of an end in which a reminder at the end closes, with the white space behind it."""

_ENCLOSED: Final = re.compile("<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics)>")


def apart(text: str, source: Source = ANYONE) -> tuple[str, tuple[str, ...]]:
    """An answer without what the client hung on to its ends, and this in order.

    Reminders and the client's lines each begin a line. A reminder in the middle is the answer's own, and where nothing
    else would be left, it is the tool's only answer (an empty file that was read). What the client says of an answer
    without output is no answer.
    """
    end, notes = _lines_apart(text, len(text), source)
    body, inner = _reminders_apart(text[:end], source)
    if is_empty(body, source):
        body, inner = "", (body, *inner)
    return body, (*inner, *notes)


def _lines_apart(text: str, end: int, source: Source) -> tuple[int, tuple[str, ...]]:
    """Where an answer ends without the lines that the client added behind it, and these in order."""
    lines: list[str] = []
    for _ in range(_REMINDERS):
        stop = _without_space(text, end)
        start = line_behind(text, stop, source)
        if start < 0:
            break
        lines.append(text[start:stop])
        end = max(start - 1, 0)
    return end, tuple(reversed(lines))


def _reminders_apart(text: str, source: Source) -> tuple[str, tuple[str, ...]]:
    """An answer without the reminders at its ends, and the client's lines before them, and these in order."""
    if CLOSE not in text[-_CLOSING:] and not text.startswith(OPEN):
        return text, ()
    head, tail = list[str](), list[str]()
    begin, end = 0, len(text)
    for _ in range(_REMINDERS):
        stop = _without_space(text, end)
        start = text.rfind(OPEN, 0, stop) if text.endswith(CLOSE, 0, stop) else -1
        if start < 0 or (start > 0 and text[start - 1] != "\n"):
            break
        tail.append(text[start:stop])
        end, lines = _lines_apart(text, start - text.count("\n", max(start - 2, 0), start), source)
        tail += reversed(lines)
    for _ in range(_REMINDERS):
        stop = text.find(CLOSE, begin, end) + len(CLOSE) if text.startswith(OPEN, begin, end) else 0
        if stop < len(CLOSE):
            break
        head.append(text[begin:stop])
        begin = stop + text.count("\n", stop, min(stop + 2, end))
    body = text[begin:end]
    return (body, (*head, *reversed(tail))) if body and not body.isspace() else (text, ())


def _without_space(text: str, end: int) -> int:
    """Where `text[:end]` ends without the white space at its end."""
    last = text[max(end - 64, 0) : end]
    left = last.rstrip()
    return end - len(last) + len(left) if left else len(text[:end].rstrip())


def voices(text: str, own: bool) -> Iterator[tuple[str, str]]:
    """(`user` or `harness`, text) of each piece of a user message's text; all is the harness's if it is its `own`.

    What the client encloses in tags is told apart from what the user wrote around it. Blank pieces are left out.
    """
    if own:
        if text and not text.isspace():
            yield "harness", text
        return
    start = 0
    while (match := _ENCLOSED.search(text, start)) is not None:
        close = f"</{match[1]}>"
        stop = text.find(close, match.end())
        if stop < 0:
            break
        yield from _voice(text[start : match.start()].strip())
        start = stop + len(close)
        yield "harness", text[match.start() : start]
    yield from _voice(text[start:].strip() if start else text)


def _voice(text: str) -> Iterator[tuple[str, str]]:
    if text and not text.isspace():
        yield ("harness" if is_clients(text, CLAUDE_CODE) else "user"), text
