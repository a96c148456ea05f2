"""Comparison of a request's history with an earlier conversation: both as marks, compared by content.

Clients rewrite a history: with their own ids for calls without one, members of arguments in another order, texts in
other blocks, without signatures. It is the same conversation nevertheless. Parts that the API itself ran within an
answer (`hosted`), and tool searches, are rewritten in yet another form or left out, so differing ones are skipped.
Thoughts and system prompts are not compared, since clients need not repeat them unchanged. Ids of calls take precedence
over words: the text before a call may be missing or different if the call has the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from trajmill.connectors.conversation.turns import Call, Part, Result, Said, Text
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.values import json_value

_TOOL_SEARCH: Final = ("tool_search", "search_tools")
"""Prefixes of the names of tool searches."""


class Mark(NamedTuple):
    """Features of a part that have to be equal.

    Attributes:
        kind: `said`, `text`, `call` or `result`.
        sign: Equal for equal parts; parts with different signs may still match in another form.
        hosted: True if a history may contain the part in another form, or not at all.
    """

    kind: str
    sign: tuple[str, ...]
    hosted: bool
    place: int
    call_id: str | None = None


class Shared(NamedTuple):
    """Shared beginning of a history and a conversation.

    Attributes:
        known: Number of shared marks of the conversation.
        told: Number of shared marks of the history.
        calls: Positions of equal calls, in the conversation and in the history.
    """

    known: int
    told: int
    calls: tuple[tuple[int, int], ...] = ()


def marks(parts: Sequence[Part], begin: int = 0) -> list[Mark]:
    """Return the marks of parts, the first of which is at position `begin`."""
    part_marks: list[Mark] = []
    searches: set[str | None] = set()
    for position, part in enumerate(parts, begin):
        if isinstance(part, Said):
            part_marks.append(
                Mark(
                    "said",
                    (part.text.strip(), *(attachment.sha256 for attachment in part.attachments)),
                    False,
                    position,
                )
            )
        elif isinstance(part, Text):
            part_marks.append(Mark("text", (part.text.strip(),), False, position))
        elif isinstance(part, Call):
            hosted = part.hosted or part.name.startswith(_TOOL_SEARCH)
            searches |= {part.call_id} if hosted else set()
            part_marks.append(Mark("call", (part.name, canonical(part.arguments)), hosted, position, part.call_id))
        elif isinstance(part, Result):
            hosted = part.hosted or (part.call_id is not None and part.call_id in searches)
            part_marks.append(Mark("result", ((part.content or "").strip(),), hosted, position))
    return part_marks


def shared(known: Sequence[Mark], history: Sequence[Mark]) -> Shared:
    """Compare a history with the conversation `known`, which is shared as a whole if none of its marks remains."""
    position = history_position = 0
    ends = 0, 0
    calls: list[tuple[int, int]] = []
    while position < len(known) and history_position < len(history):
        ours, theirs = known[position], history[history_position]
        same = (1, 1) if ours[:2] == theirs[:2] else _alike(known, position, history, history_position)
        if same is None and (texts := _before_same_id(known, position, history, history_position)) is not None:
            position, history_position = position + texts[0], history_position + texts[1]
            ours, theirs, same = known[position], history[history_position], (1, 1)
        if same is not None:
            if ours.kind == "call":
                calls.append((ours.place, theirs.place))
            position, history_position = position + same[0], history_position + same[1]
            ends = position, history_position
        elif ours.hosted:
            position += 1
        elif theirs.hosted:
            history_position += 1
        else:
            break
    return Shared(*((position, history_position) if position == len(known) else ends), tuple(calls))


def _alike(
    known: Sequence[Mark], position: int, history: Sequence[Mark], history_position: int
) -> tuple[int, int] | None:
    """Count the marks of each side that match from there on in another form; None if they differ."""
    ours, theirs = known[position], history[history_position]
    if ours.kind != theirs.kind:
        return None
    if ours.kind == "call":
        return (1, 1) if ours.hosted and theirs.hosted else None
    if ours.kind == "result":
        first, second = ours.sign[0], theirs.sign[0]
        same = remove_blanks(first) == remove_blanks(second) or _normalize_json(first) == _normalize_json(second)
        return (1, 1) if same or ours.hosted or theirs.hosted else None
    return _in_pieces(known, position, history, history_position)


def _before_same_id(
    known: Sequence[Mark], position: int, history: Sequence[Mark], history_position: int
) -> tuple[int, int] | None:
    """Count the texts on either side before a call with the same id on both; None if no such call follows."""
    ours = next((at for at in range(position, len(known)) if known[at].kind != "text"), None)
    theirs = next((at for at in range(history_position, len(history)) if history[at].kind != "text"), None)
    if ours is None or theirs is None:
        return None
    call_id = known[ours].call_id
    return (
        (ours - position, theirs - history_position)
        if call_id is not None and call_id == history[theirs].call_id
        else None
    )


def _in_pieces(
    known: Sequence[Mark], position: int, history: Sequence[Mark], history_position: int
) -> tuple[int, int] | None:
    """Compare texts as in `_alike`, where one side may split a text into several blocks."""
    kind, sides, begins = known[position].kind, (known, history), (position, history_position)
    texts, counts = ["", ""], [0, 0]
    while not counts[0] or texts[0] != texts[1]:
        short = int(len(texts[0]) > len(texts[1]))
        at = begins[short] + counts[short]
        if at == len(sides[short]) or not texts[1 - short].startswith(texts[short]):
            return None
        mark = sides[short][at]
        if mark.kind != kind or len(mark.sign) > 1:
            return None
        texts[short] += remove_blanks(mark.sign[0])
        counts[short] += 1
    return counts[0], counts[1]


def remove_blanks(text: str) -> str:
    """The text without blanks, since joining its blocks may put some in."""
    return "".join(text.split())


@lru_cache(8192)
def canonical(arguments: str | None) -> str:
    """Return arguments as JSON text with sorted members, so that order and spacing do not matter, or other text."""
    return _normalize_json(arguments or "{}")


def _normalize_json(text: str) -> str:
    """Return JSON text with sorted members; other text unchanged."""
    try:
        return _sort_members(json_value(text))
    except ValueError:
        return text


def _sort_members(value: Any, levels: int = 32) -> str:
    if isinstance(value, dict) and levels:
        inner = (f"{key!r}:{_sort_members(value[key], levels - 1)}" for key in sorted(value))
        return "{" + ",".join(inner) + "}"
    if isinstance(value, list) and levels:
        return "[" + ",".join(_sort_members(element, levels - 1) for element in value) + "]"
    if isinstance(value, float) and value.is_integer():  # as writers without integers put them
        value = int(value)
    return shallow_json(value) or ""
