"""Where a scrubbed text holds placeholders: what nobody's environment said, and no model should learn to say.

Placeholders tell themselves apart (see `placeholders`), so they are found without the key that they were made with, in
texts of which scrubbing counted replacements. Those of secrets under `MASKED_UNDER` characters are not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from trajmill.quality.scrubbing.placeholders import MASKED_UNDER, core_of, is_certified

_RUN: Final = re.compile(rf"[^\s\"'`<>(){{}}\[\],;|]{{{MASKED_UNDER},}}")
_PIECE: Final = re.compile(rf"[^/@&?:=]{{{MASKED_UNDER},}}")
_BEGIN: Final = re.compile(r"[^A-Za-z0-9]+(?=[A-Za-z0-9])")
_TYPE: Final = 4
"""Letters that some issuers begin keys with and set nothing after: `AKIA`, `AIza`."""

_BEGINS: Final = 12
"""Places within a word at which a placeholder may begin: `Bearer:`, `--token=` and `sk-ant-api03-` stand before it."""

_NAMES: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:user\d{4,}(?:(?:@|%40)[a-z]+\.(?:example(?:\.com)?|test|zz))?"
    r"|host(?:\d{4,}|\d+\.example))(?![A-Za-z0-9])"
    r"|(?<![\d.])(?:192\.0\.2\.\d|198\.18\.\d{1,3}\.\d{1,3}|100\.(?:1[01]\d|12[0-7])\.\d{3}\.\d{3})(?![\d.])"
)


def replaced_spans(text: str) -> list[tuple[int, int]]:
    """The placeholders of a text as [begin, end) of its characters, in order and disjoint."""
    found = [match.span() for match in _NAMES.finditer(text)]
    for run in _RUN.finditer(text):
        told = _placeholder(text, *run.span())
        pieces = [told] if told else [_placeholder(text, *one.span()) for one in _PIECE.finditer(text, *run.span())]
        found += [piece for piece in pieces if piece is not None]
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(found):
        if not spans or begin >= spans[-1][1]:
            spans.append((begin, end))
        elif end > spans[-1][1]:
            spans[-1] = spans[-1][0], end
    return spans


def _placeholder(text: str, begin: int, end: int) -> tuple[int, int] | None:
    """The placeholder that a word ends with, from the first place at which one begins."""
    for start in islice(_starts(text, begin, end), _BEGINS):
        core = core_of(text[start:end].encode("utf-8", "surrogatepass"))
        if len(core) < MASKED_UNDER:
            return None
        if len(set(core)) > 2 and is_certified(core):
            return start, end
    return None


def _starts(text: str, begin: int, end: int) -> Iterator[int]:
    yield begin
    yield begin + _TYPE
    for match in _BEGIN.finditer(text, begin, end):
        yield match.end()
