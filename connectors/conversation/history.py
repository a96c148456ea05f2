"""Whether the history of a request is the conversation of before: both as marks, compared by what was said.

Clients write a history anew: with ids of their own for calls that had none, members of arguments in another order,
texts in other blocks, without signatures. None of that makes it another conversation. What the API itself ran within an
answer (`hosted`), and searches for tools, they write in yet another form or not at all; so such parts are passed over
where the two differ. Thoughts and system prompts are not compared, since no client has to repeat them as they were.
Ids of calls decide before words do: what the agent said before a call may be left out or written otherwise if the call
has its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from trajmill.connectors.conversation.turns import Call, Part, Result, Said, Text
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.values import json_value

_TOOL_SEARCH: Final = ("tool_search", "search_tools")
"""How names of searches for tools begin."""


class Mark(NamedTuple):
    """What of a part has to be the same.

    Attributes:
        kind: `said`, `text`, `call` or `result`.
        sign: equal where the parts are; where it is not, they may still say the same in another form.
        hosted: whether a history may hold it otherwise, or not.
        place: of the part among those of its conversation.
        call_id: of a call.
    """

    kind: str
    sign: tuple[str, ...]
    hosted: bool
    place: int
    call_id: str | None = None


class Shared(NamedTuple):
    """How far a history and a conversation are the same.

    Attributes:
        known: marks of the conversation up to there.
        told: marks of the history up to there.
        calls: places of calls that are the same, in the conversation and in the history.
    """

    known: int
    told: int
    calls: tuple[tuple[int, int], ...] = ()


def marks(parts: Sequence[Part], begin: int = 0) -> list[Mark]:
    """The marks of parts of which the first stands at `begin`."""
    found: list[Mark] = []
    searches: set[str | None] = set()
    for place, part in enumerate(parts, begin):
        if isinstance(part, Said):
            found.append(Mark("said", (part.text.strip(), *(one.sha256 for one in part.attachments)), False, place))
        elif isinstance(part, Text):
            found.append(Mark("text", (part.text.strip(),), False, place))
        elif isinstance(part, Call):
            hosted = part.hosted or part.name.startswith(_TOOL_SEARCH)
            searches |= {part.call_id} if hosted else set()
            found.append(Mark("call", (part.name, canonical(part.arguments)), hosted, place, part.call_id))
        elif isinstance(part, Result):
            hosted = part.hosted or (part.call_id is not None and part.call_id in searches)
            found.append(Mark("result", ((part.content or "").strip(),), hosted, place))
    return found


def shared(known: Sequence[Mark], told: Sequence[Mark]) -> Shared:
    """How far the history `told` is the conversation `known`; all of that, if no mark of `known` is left."""
    place = other = 0
    ends = 0, 0
    calls: list[tuple[int, int]] = []
    while place < len(known) and other < len(told):
        ours, theirs = known[place], told[other]
        same = (1, 1) if ours[:2] == theirs[:2] else _alike(known, place, told, other)
        if same is None and (texts := _before_same_id(known, place, told, other)) is not None:
            place, other = place + texts[0], other + texts[1]
            ours, theirs, same = known[place], told[other], (1, 1)
        if same is not None:
            if ours.kind == "call":
                calls.append((ours.place, theirs.place))
            place, other = place + same[0], other + same[1]
            ends = place, other
        elif ours.hosted:
            place += 1
        elif theirs.hosted:
            other += 1
        else:
            break
    return Shared(*((place, other) if place == len(known) else ends), tuple(calls))


def _alike(known: Sequence[Mark], place: int, told: Sequence[Mark], other: int) -> tuple[int, int] | None:
    """How many marks of each say the same from there on in another form, None if they differ."""
    ours, theirs = known[place], told[other]
    if ours.kind != theirs.kind:
        return None
    if ours.kind == "call":
        return (1, 1) if ours.hosted and theirs.hosted else None
    if ours.kind == "result":
        first, second = ours.sign[0], theirs.sign[0]
        same = _squeezed(first) == _squeezed(second) or _written(first) == _written(second)
        return (1, 1) if same or ours.hosted or theirs.hosted else None
    return _in_pieces(known, place, told, other)


def _before_same_id(known: Sequence[Mark], place: int, told: Sequence[Mark], other: int) -> tuple[int, int] | None:
    """Count the texts on either side before a call that has the same id on both; None if no such call follows."""
    ours = next((at for at in range(place, len(known)) if known[at].kind != "text"), None)
    theirs = next((at for at in range(other, len(told)) if told[at].kind != "text"), None)
    if ours is None or theirs is None:
        return None
    call_id = known[ours].call_id
    return (ours - place, theirs - other) if call_id is not None and call_id == told[theirs].call_id else None


def _in_pieces(known: Sequence[Mark], place: int, told: Sequence[Mark], other: int) -> tuple[int, int] | None:
    """As `_alike`, of texts that may be one block here and several there."""
    kind, sides, begins = known[place].kind, (known, told), (place, other)
    texts, counts = ["", ""], [0, 0]
    while not counts[0] or texts[0] != texts[1]:
        short = int(len(texts[0]) > len(texts[1]))
        at = begins[short] + counts[short]
        if at == len(sides[short]) or not texts[1 - short].startswith(texts[short]):
            return None
        mark = sides[short][at]
        if mark.kind != kind or len(mark.sign) > 1:
            return None
        texts[short] += _squeezed(mark.sign[0])
        counts[short] += 1
    return counts[0], counts[1]


def _squeezed(text: str) -> str:
    """The text without blanks, since joining its blocks may put some in."""
    return "".join(text.split())


@lru_cache(8192)
def canonical(arguments: str | None) -> str:
    """Arguments as JSON text with sorted members, so that another order or spacing is the same; else as they are."""
    return _written(arguments or "{}")


def _written(text: str) -> str:
    """JSON text with sorted members; what is no JSON as it is."""
    try:
        return _sorted(json_value(text))
    except ValueError:
        return text


def _sorted(value: Any, levels: int = 32) -> str:
    if isinstance(value, dict) and levels:
        inner = (f"{key!r}:{_sorted(value[key], levels - 1)}" for key in sorted(value))
        return "{" + ",".join(inner) + "}"
    if isinstance(value, list) and levels:
        return "[" + ",".join(_sorted(one, levels - 1) for one in value) + "]"
    if isinstance(value, float) and value.is_integer():  # as writers without integers put them
        value = int(value)
    return shallow_json(value) or ""
