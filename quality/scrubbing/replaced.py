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
from trajmill.quality.scrubbing.placeholders import MASKED_UNDER, core_of, is_certified

_RUN: Final = re.compile(rf"[^\s\"'`<>(){{}}\[\],;|]{{{MASKED_UNDER},}}")
_PIECE: Final = re.compile(rf"[^/@&?:=]{{{MASKED_UNDER},}}")
_BEGIN: Final = re.compile(r"[^A-Za-z0-9]+(?=[A-Za-z0-9])")
_ISSUER: Final = re.compile(
    "|".join(sorted((form.stays.decode() for form in BY_BEGINNING if form.stays), key=len)[::-1])
)
"""Beginnings of keys of known issuers, which scrubbing keeps: `AKIA`, `AIza`, `github_pat_`."""

_BEGINS: Final = 12
"""Positions in a word at which a placeholder may begin, as after `Bearer:`, `--token=` and `sk-ant-api03-`."""

_REMEMBERED_CHARS: Final = 256
"""Longest word, in characters, that is cached."""

_NAMES: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:user\d{4,}(?:(?:@|%40)[a-z]+\.(?:example(?:\.com)?|test|zz))?"
    r"|host(?:\d{4,}|\d+\.example))(?![A-Za-z0-9])"
    r"|(?<![\d.])(?:192\.0\.2\.\d|198\.18\.\d{1,3}\.\d{1,3}|100\.(?:1[01]\d|12[0-7])\.\d{3}\.\d{3})(?![\d.])"
)


def placeholder_spans(text: str) -> list[tuple[int, int]]:
    """Return the placeholders of a text as [begin, end) in characters, in order and disjoint."""
    candidates = [match.span() for match in _NAMES.finditer(text)]
    for run in _RUN.finditer(text):
        if (start := _placeholder_in(run[0])) is not None:
            candidates.append((run.start() + start, run.end()))
            continue
        candidates += [
            (run.start() + piece.start() + start, run.start() + piece.end())
            for piece in _PIECE.finditer(run[0])
            if len(piece[0]) < len(run[0]) and (start := _placeholder_in(piece[0])) is not None
        ]
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(candidates):
        if not spans or begin >= spans[-1][1]:
            spans.append((begin, end))
        elif end > spans[-1][1]:
            spans[-1] = spans[-1][0], end
    return spans


def _placeholder_in(word: str) -> int | None:
    """Return the first position in a word from which on it is a placeholder; None if there is none."""
    return _place(word) if len(word) <= _REMEMBERED_CHARS else _place.__wrapped__(word)


@lru_cache(1 << 16)  # words recur: most of a screen or a listing stood in the one before
def _place(word: str) -> int | None:
    is_core = word.isascii() and word.isalnum()
    for start in islice(_starts(word), _BEGINS):
        core = word[start:] if is_core else core_of(word[start:].encode("utf-8", "surrogatepass"))
        if len(core) < MASKED_UNDER:
            return None
        if len(set(core)) > 2 and is_certified(core):
            return start
    return None


def _starts(word: str) -> Iterator[int]:
    yield 0
    if (issuer := _ISSUER.match(word)) is not None:
        yield issuer.end()
    for match in _BEGIN.finditer(word):
        yield match.end()
