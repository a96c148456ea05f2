"""Spans of placeholders in scrubbed texts, which no environment produced and no model should learn to produce.

Placeholders are recognizable (see `placeholders`), so they are found without their key, in texts with replacements
counted by scrubbing. Those of secrets under `MASKED_UNDER` characters are not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, islice
from typing import Final

from trajmill.quality.scrubbing.issuers import BY_BEGINNING
from trajmill.quality.scrubbing.placeholders import MASKED_UNDER, certifies_itself, core_of, may_certify_itself

_BLANK: Final = r"\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
r"""The characters of `\s`. A set of characters alone takes less time than one with a class."""

_BETWEEN: Final = rf"{_BLANK}\"'`<>(){{}}\[\],;|"
_RUN: Final = re.compile(rf"[{_BETWEEN}]([^{_BETWEEN}]{{{MASKED_UNDER},}})")
"""Pattern of a word behind the character that ends another, so that no end of a short word is tried as a word."""

_PIECE: Final = re.compile(rf"[^/@&?:=]{{{MASKED_UNDER},}}")
_ESCAPE: Final = re.compile(r"[\\%&\x1b]")
_SEPARATED: Final = bytes(byte if chr(byte).isalnum() and byte < 128 else ord(" ") for byte in range(256))
"""Table with blanks for all but letters and digits in ASCII."""

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
    spans_of: dict[str, list[tuple[int, int]]] = {}
    for word in set(_RUN.findall(f" {text}")):
        spans_in = _spans_in if len(word) <= _REMEMBERED_CHARS else _spans_in.__wrapped__
        if spans_in_word := spans_in(word):
            spans_of[word] = spans_in_word
    for run in _RUN.finditer(f" {text}") if spans_of else ():
        candidates += [(run.start() + begin, run.start() + end) for begin, end in spans_of.get(run[1], ())]
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
    if word.isascii() and not _ESCAPE.search(word) and not _may_hold_placeholder(word):
        return []
    if (start := _begin_of_placeholder(word)) is not None:
        return [(start, len(word))]
    pieces = (piece for piece in _PIECE.finditer(word) if len(piece[0]) < len(word))
    starts = ((piece, _begin_of_placeholder(piece[0])) for piece in pieces)
    return [(piece.start() + start, piece.end()) for piece, start in starts if start is not None]


def _may_hold_placeholder(word: str) -> bool:
    """Return False if neither a word of ASCII without escapes nor one of its pieces ends with a placeholder.

    The letters and digits of a tail are a tail of those of the word, and two of them rule out nearly all words.
    """
    for piece in (word, *(piece for piece in _PIECE.findall(word) if len(piece) < len(word))):
        parts = piece.encode().translate(_SEPARATED).split()
        begins = [0, *accumulate(map(len, parts[: _BEGINS - 1]))]
        if (issuer := _ISSUER.match(piece)) is not None:
            begins.append(sum(map(len, issuer[0].encode().translate(_SEPARATED).split())))
        if may_certify_itself(b"".join(parts), begins):
            return True
    return False


def _begin_of_placeholder(word: str) -> int | None:
    """Return the first position in a word from which on it is a placeholder; None if there is none."""
    for start in islice(_starts(word), _BEGINS):
        core = core_of(word[start:].encode("utf-8", "surrogatepass"))
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
