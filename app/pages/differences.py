"""Difference of two texts: lines that stay, go and come, with the words that differ in a changed line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_AROUND: Final = 2
"""Unchanged lines shown before and after a change."""

_PRODUCT: Final = 1_000_000
"""Largest product of the numbers of changed lines on both sides. Above it, lines are not aligned."""

_PAIRED: Final = 200
"""Largest number of changed lines whose words are compared."""

_LINE_CHARACTERS: Final = 2000
_LINES: Final = 2000
_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")


class Part(NamedTuple):
    """Piece of a line, and a flag that is true if the other side of the change lacks it."""

    text: str
    changed: bool


class Line(NamedTuple):
    """Line of a difference.

    Attributes:
        kind: `same`, `gone`, `new`, or `skipped` for omitted lines, whose number is the text.
    """

    kind: str
    parts: Sequence[Part]


def difference(before: str | None, after: str | None) -> list[Line]:
    """Return the lines that changed from one text to the next, with a few unchanged ones around them; empty without
    changes.
    """
    old, new = (text.removesuffix("\n").split("\n") if text else [] for text in (before, after))
    if old == new:
        return []
    lines = list(_lines(old, new))
    return lines if len(lines) <= _LINES else [*lines[:_LINES], _skipped_line(len(lines) - _LINES)]


def _lines(old: list[str], new: list[str]) -> Iterator[Line]:
    groups = list(_group_opcodes(old, new))
    done = 0
    for opcodes in groups:
        if opcodes[0][1] > done:
            yield _skipped_line(opcodes[0][1] - done)
        for tag, begin, end, begin_new, end_new in opcodes:
            if tag == "equal":
                yield from (_whole("same", line) for line in old[begin:end])
            else:
                yield from _changed_lines(old[begin:end], new[begin_new:end_new])
        done = opcodes[-1][2]
    if done < len(old):
        yield _skipped_line(len(old) - done)


def _group_opcodes(old: list[str], new: list[str]) -> Iterator[list[tuple[str, int, int, int, int]]]:
    """Yield the changes with the lines around them, as difflib's. Equal ends, which most texts have, are cut off
    first.
    """
    least = min(len(old), len(new))
    head = next((index for index in range(least) if old[index] != new[index]), least)
    tail = next((index for index in range(least - head) if old[-1 - index] != new[-1 - index]), least - head)
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(inner_old) * len(inner_new) > _PRODUCT:
        codes = [("replace", 0, len(inner_old), 0, len(inner_new))]
    else:
        codes = list(difflib.SequenceMatcher(None, inner_old, inner_new, autojunk=False).get_opcodes())
    moved = [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in codes]
    if head:
        moved.insert(0, ("equal", 0, head, 0, head))
    if tail:
        moved.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    matcher = difflib.SequenceMatcher()
    matcher.opcodes = moved  # type: ignore[attr-defined]  # what it would find anew
    yield from matcher.get_grouped_opcodes(_AROUND)


def _changed_lines(old: list[str], new: list[str]) -> Iterator[Line]:
    if len(old) != len(new) or len(old) > _PAIRED:
        yield from (_whole("gone", line, changed=False) for line in old)
        yield from (_whole("new", line, changed=False) for line in new)
        return
    pairs = [_pair(before, after) for before, after in zip(old, new, strict=True)]
    yield from (Line("gone", gone) for gone, _ in pairs)
    yield from (Line("new", come) for _, come in pairs)


def _pair(old: str, new: str) -> tuple[list[Part], list[Part]]:
    """Return both sides of a changed line in parts."""
    if len(old) > _LINE_CHARACTERS or len(new) > _LINE_CHARACTERS:
        return [Part(old, changed=False)], [Part(new, changed=False)]
    words, others = _WORD.findall(old), _WORD.findall(new)
    matcher = difflib.SequenceMatcher(None, words, others, autojunk=False)
    if matcher.ratio() < 0.4:
        return [Part(old, changed=False)], [Part(new, changed=False)]
    gone, come = [], []
    for tag, begin, end, begin_new, end_new in matcher.get_opcodes():
        if begin < end:
            gone.append(Part("".join(words[begin:end]), tag != "equal"))
        if begin_new < end_new:
            come.append(Part("".join(others[begin_new:end_new]), tag != "equal"))
    return gone, come


def _whole(kind: str, line: str, *, changed: bool = False) -> Line:
    return Line(kind, [Part(line, changed)])


def _skipped_line(count: int) -> Line:
    return Line("skipped", [Part(str(count), changed=False)])
