"""Spans of what a server of MCP answered, in the object that the answer stood in (`next_observation.envelope`).

The texts of an answer are strings of the object, with the escapes of its JSON. What a span of them covers is covered by
its escapes too, so that both mean the same characters. What stands around them is `frame` where it only holds them
together, else `new`. Words that replicates do not agree on are volatile wherever the object repeats them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from trajmill.schemas.trajectory import without_surrogates

Classed: TypeAlias = tuple[int, int, str]
"""Code points [begin, end) of a text, and their class."""

VOLATILE: Final = "volatile"
_LITERAL: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"(\s*+:)?', re.DOTALL)
_UNIT: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)
_SHOWN: Final = frozenset({"text", "toolResult"})
"""Members whose strings are texts of an answer."""

_FRAME: Final = re.compile(
    r'(?:[\s\[\]{},:"]|\b(?:content|contents|type|text|resource|isError|toolResult|structuredContent|false|null)\b)*+'
)
_BARE: Final = re.compile(r'[^\s\[\]{},:"]+')
_MISSED: Final = 8
"""Strings that no text of an answer is, after which no more are looked for."""

_MOST: Final = 256
"""Volatile texts that are looked for elsewhere in an object."""


class Literal(NamedTuple):
    """A string in JSON text: the member that it is the value of, what it says, and where that stands."""

    key: str
    value: str
    begin: int
    end: int


def in_envelope(content: str, envelope: str, spans: Sequence[Classed]) -> list[Classed]:
    """The spans of an object: all of it, in order, none over another.

    Args:
        content: the answer's text.
        envelope: JSON text of the object that it stood in.
        spans: of the content, in order, all of it.
    """
    literals = list(_literals(envelope))
    found: list[Classed] = []
    mapped: set[Literal] = set()
    for literal, at in _texts(content, literals):
        mapped.add(literal)
        places = _places(envelope, literal)
        for begin, end, label in spans:
            low, high = max(begin, at) - at, min(end, at + len(literal.value)) - at
            if low < high:
                found.append((places[low], places[high], label))
    if not mapped and content and (at := envelope.find(content)) >= 0:
        found = [(at + begin, at + end, label) for begin, end, label in spans]
    else:
        again = {content[begin:end].strip() for begin, end, label in spans if label == VOLATILE}
        found += _repeated(envelope, sorted(again - {""})[:_MOST], literals, mapped)
    return list(_filled(envelope, sorted(found)))


def _literals(text: str) -> Iterator[Literal]:
    """The strings of JSON text that are no names of members, in order."""
    key, ends = "", -1
    for one in _LITERAL.finditer(text):
        if one[2] is not None:
            key, ends = one[1], one.end()
            continue
        own = key if ends >= 0 and not text[ends : one.start()].strip() else ""
        value = one[1] if "\\" not in one[1] else without_surrogates(json.loads(f'"{one[1]}"', strict=False))
        yield Literal(own, value, *one.span(1))


def _texts(content: str, literals: Sequence[Literal]) -> Iterator[tuple[Literal, int]]:
    """The strings that a content is joined of, a line feed between each two, and where each begins in it."""
    at = missed = 0
    for one in literals:
        if one.key not in _SHOWN:
            continue
        place = at
        while place >= 0 and not _stands(content, one.value, place):
            line = content.find("\n", place)
            place = line + 1 if line >= 0 else -1
        missed += place < 0
        if place >= 0:
            yield one, place
            at = place + len(one.value) + 1
        if at > len(content) or missed > _MISSED:
            return


def _stands(content: str, value: str, at: int) -> bool:
    """Whether a content has a value there, up to the end of a line."""
    end = at + len(value)
    return content.startswith(value, at) and (end == len(content) or content[end] == "\n")


def _places(text: str, literal: Literal) -> Sequence[int]:
    """Where each character of a string begins in the JSON text, and where the last one ends."""
    if literal.end - literal.begin == len(literal.value):
        return range(literal.begin, literal.end + 1)
    return [*(one.start() for one in _UNIT.finditer(text, literal.begin, literal.end)), literal.end]


def _repeated(text: str, words: Sequence[str], literals: Sequence[Literal], mapped: set[Literal]) -> Iterator[Classed]:
    """Where words stand in an object besides the texts of its answer: in other strings, and as bare values."""
    if not words:
        return
    ordered = sorted(words, key=lambda word: (-len(word), word))
    asked = re.compile("|".join(map(_bounded, ordered)))
    end = 0
    for literal in literals:
        yield from _bare(text, end, literal.begin, words)
        end = literal.end
        if literal not in mapped and (held := list(asked.finditer(literal.value))):
            places = _places(text, literal)
            yield from ((places[one.start()], places[one.end()], VOLATILE) for one in held)
    yield from _bare(text, end, len(text), words)


def _bounded(word: str) -> str:
    """A pattern of a word that is no part of a longer one."""
    before = r"(?<!\w)" if word[0].isalnum() else ""
    return f"{before}{re.escape(word)}" + (r"(?!\w)" if word[-1].isalnum() else "")


def _bare(text: str, begin: int, end: int, words: Sequence[str]) -> Iterator[Classed]:
    """Where numbers and other bare values of a stretch are one of the words."""
    for one in _BARE.finditer(text, begin, end):
        if one[0] in words:
            yield (*one.span(), VOLATILE)


def _filled(text: str, spans: Sequence[Classed]) -> Iterator[Classed]:
    """The spans, and between them what holds them together, or only the object says."""
    done = 0
    for begin, end, label in [*spans, (len(text), len(text), "")]:
        if begin > done:
            yield done, begin, "frame" if _FRAME.fullmatch(text, done, begin) else "new"
        if end > begin:
            yield begin, end, label
        done = end
