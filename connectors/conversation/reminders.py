"""Texts that clients append to answers or put into a user's message, separated from the tool's output and the user's
words.

Reminders are in tags; the other forms are rows of `harness_text`. The format of the log's lines is not known here; see
`agents.claude_code`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trajmill.connectors.conversation import harness_text
from trajmill.connectors.conversation.harness_text import ANYONE, CLAUDE_CODE, Source, is_empty, line_behind

_TAGS: Final = "|".join(form.pattern.pattern for form in harness_text.FORMS if form.meaning == "tag")
_OPENING: Final = re.compile(f"<({_TAGS})>")
CLOSING: Final = re.compile(f"</({_TAGS})>")
_LONGEST_TAG: Final = 64

_REMINDERS: Final = 16
"""Largest number of reminders looked for at each end of a result; real results have a few at most."""

_END: Final = 256
"""Last characters in which the tag of a final reminder closes, including the white space after it."""


def apart(text: str, source: Source = ANYONE) -> tuple[str, tuple[str, ...]]:
    """Return an answer without the client's additions at its ends, and these additions in order.

    Reminders and the client's lines each begin a line. A reminder in the middle belongs to the answer. If nothing else
    would remain, the reminder is the tool's only answer (an empty file that was read). The client's words for an empty
    output are no answer.
    """
    end, notes = _lines_apart(text, len(text), source)
    body, inner = _reminders_apart(text[:end], source)
    if is_empty(body, source):
        body, inner = "", (body, *inner)
    return body, (*inner, *notes)


def _lines_apart(text: str, end: int, source: Source) -> tuple[int, tuple[str, ...]]:
    """Return the end of an answer without the lines that the client appended, and these lines in order."""
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
    """Return an answer without reminders at its ends and the client's lines before them, and these in order."""
    if CLOSING.search(text, max(len(text) - _END, 0)) is None and _OPENING.match(text) is None:
        return text, ()
    head, tail = list[str](), list[str]()
    begin, end = 0, len(text)
    for _ in range(_REMINDERS):
        stop = _without_space(text, end)
        last = CLOSING.fullmatch(text, text.rfind("<", max(stop - _LONGEST_TAG, 0), stop), stop)
        start = text.rfind(f"<{last[1]}>", 0, stop) if last is not None else -1
        if start < 0 or (start > 0 and text[start - 1] != "\n"):
            break
        tail.append(text[start:stop])
        end, lines = _lines_apart(text, start - text.count("\n", max(start - 2, 0), start), source)
        tail += reversed(lines)
    for _ in range(_REMINDERS):
        first = _OPENING.match(text, begin, end)
        closing = f"</{first[1]}>" if first is not None else ""
        stop = text.find(closing, begin, end) + len(closing)
        if first is None or stop < len(closing):
            break
        head.append(text[begin:stop])
        begin = stop + text.count("\n", stop, min(stop + 2, end))
    body = text[begin:end]
    return (body, (*head, *reversed(tail))) if body and not body.isspace() else (text, ())


def _without_space(text: str, end: int) -> int:
    """Return the end of `text[:end]` without trailing white space."""
    last = text[max(end - 64, 0) : end]
    left = last.rstrip()
    return end - len(last) + len(left) if left else len(text[:end].rstrip())


def voices(text: str, own: bool) -> Iterator[tuple[str, str]]:
    """Yield (`user` or `harness`, text) of each piece of a user message's text; an `own` one is the harness's.

    Text in the client's tags is separated from the user's words around it. Blank pieces are left out.
    """
    if own:
        if text and not text.isspace():
            yield "harness", text
        return
    start = 0
    while (match := _OPENING.search(text, start)) is not None:
        close = f"</{match[1]}>"
        stop = text.find(close, match.end())
        if stop < 0:
            break
        yield from harness_text.voices(text[start : match.start()].strip(), CLAUDE_CODE)
        start = stop + len(close)
        yield "harness", text[match.start() : start]
    yield from harness_text.voices(text[start:].strip() if start else text, CLAUDE_CODE)
