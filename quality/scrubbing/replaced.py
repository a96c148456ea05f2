"""Spans of placeholders in scrubbed texts, which no environment produced and no model should learn to produce.

Placeholders are recognizable (see `placeholders`), so they are found without their key, in texts with replacements
counted by scrubbing. Those of secrets under `MASKED_UNDER` characters are not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Final

from trajmill.quality.scrubbing.issuers import BY_BEGINNING
from trajmill.quality.scrubbing.placeholders import MASKED_UNDER, certifies_itself, core_of

_RUN: Final = re.compile(rf"[^\s\"'`<>(){{}}\[\],;|]{{{MASKED_UNDER},}}")
_PIECE: Final = re.compile(rf"[^/@&?:=]{{{MASKED_UNDER},}}")
_ESCAPE: Final = re.compile(r"[\\%&\x1b]")
_SEPARATORS: Final = re.compile(r"[^A-Za-z0-9]+")
_BEGIN: Final = re.compile(r"[^A-Za-z0-9]+(?=[A-Za-z0-9])")
_ISSUER: Final = re.compile(
    "|".join(sorted((form.stays.decode() for form in BY_BEGINNING if form.stays), key=len)[::-1])
)
"""Beginnings of keys of known issuers, which scrubbing keeps: `AKIA`, `AIza`, `github_pat_`."""

_BEGINS: Final = 12
"""Positions in a word at which a placeholder may begin, as after `Bearer:`, `--token=` and `sk-ant-api03-`."""

_REMEMBERED_CHARS: Final = 256
"""Longest word, in characters, that is cached."""

_NAMES: Final = [
    re.compile(pattern)  # each begins with what `re` finds fastest, a literal
    for pattern in (
        r"user(?<![A-Za-z0-9]user)\d{4,}(?:(?:@|%40)[a-z]+\.(?:example(?:\.com)?|test|zz))?(?![A-Za-z0-9])",
        r"host(?<![A-Za-z0-9]host)(?:\d{4,}|\d+\.example)(?![A-Za-z0-9])",
        r"1(?<![\d.]1)(?:92\.0\.2\.\d|98\.18\.\d{1,3}\.\d{1,3}|00\.(?:1[01]\d|12[0-7])\.\d{3}\.\d{3})(?![\d.])",
    )
]


def placeholder_spans(text: str) -> list[tuple[int, int]]:
    """Return the placeholders of a text as [begin, end) in characters, in order and disjoint."""
    candidates = [match.span() for pattern in _NAMES for match in pattern.finditer(text)]
    for run in _RUN.finditer(text):
        word = run[0]
        spans_in = _spans_in if len(word) <= _REMEMBERED_CHARS else _spans_in.__wrapped__
        for begin, end in spans_in(word):
            candidates.append((run.start() + begin, run.start() + end))
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(candidates):
        if not spans or begin >= spans[-1][1]:
            spans.append((begin, end))
        elif end > spans[-1][1]:
            spans[-1] = spans[-1][0], end
    return spans


@lru_cache(1 << 16)  # words recur: most of a screen or a listing stood in the one before
def _spans_in(word: str) -> list[tuple[int, int]]:
    """Return the placeholder with which a word ends, or else those with which its pieces end."""
    if (start := _begin_of_placeholder(word)) is not None:
        return [(start, len(word))]
    if word.isalnum():
        return []
    pieces = (piece for piece in _PIECE.finditer(word) if len(piece[0]) < len(word))
    starts = ((piece, _begin_of_placeholder(piece[0])) for piece in pieces)
    return [(piece.start() + start, piece.end()) for piece, start in starts if start is not None]


def _begin_of_placeholder(word: str) -> int | None:
    """Return the first position in a word from which on it is a placeholder; None if there is none."""
    if word.isalnum() and word.isascii() and not _ISSUER.match(word):
        return 0 if certifies_itself(word) and len(set(word)) > 2 else None
    is_plain = word.isascii() and not _ESCAPE.search(word)
    for start in islice(_starts(word), _BEGINS):
        tail = word[start:]
        core = _SEPARATORS.sub("", tail) if is_plain else core_of(tail.encode("utf-8", "surrogatepass"))
        if len(core) < MASKED_UNDER:
            return None
        if certifies_itself(core) and len(set(core)) > 2:
            return start
    return None


def _starts(word: str) -> Iterator[int]:
    yield 0
    if (issuer := _ISSUER.match(word)) is not None:
        yield issuer.end()
    for match in _BEGIN.finditer(word):
        yield match.end()
