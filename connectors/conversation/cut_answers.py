"""Answers that a harness cut without a word of its own: they stop within their form, at three dots or at a round size.

A document that is not closed was cut if it ends in dots, which no document does, or if it is as long as limits are. Of
plain text, which has no end to miss, dots tell a cut only where what stands before them is as long as limits are; else
they are the program's own, as in `Loading...`. A document may be closed around what was cut: a string in it ends in
`...[truncated]` then, or stands for the rest of an array as `... 12 more items`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from trajmill.schemas import Observation

_DOTS: Final = ("...", "…")
_LEAST: Final = 200
"""Characters from which a size is one that limits have: a multiple of 500, or a power of 2."""

_JSON: Final = re.compile(r"\s*[\[{]\s*(?:[\"'\[{]|-?\d+(?:\.\d+)?\s*,)")
_TOKENS: Final = {
    quote: re.compile(rf"{quote}(?:[^{quote}\\]|\\.)*+({quote})?|[\[{{]|[\]}}]", re.DOTALL) for quote in "\"'"
}
"""Strings, which have a group if they end, and brackets of JSON, or of what Python prints."""

_INNER: Final = re.compile(
    r'(?:\.\.\.|…) ?[\[(]?(?:truncated|\d{1,9} (?:more|items|lines|char|bytes))[^"\n]{0,60}"(?=\s*[,}\]])',
    re.I,
)
"""The end of a string that says that it, or the array around it, goes on."""

_ROOT: Final = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!doctype\s+([a-z]+)[^>]*>|<([a-z][\w:.-]*)(?:\s[^<>]*)?>)", re.I)
_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})


def with_cut(seen: Observation | None) -> Observation | None:
    """The observation, marked as cut by the harness where its content says so."""
    if seen is None or not seen.content or seen.truncation != "none" or seen.origin != "environment":
        return seen
    return replace(seen, truncation="harness") if is_cut(seen.content) else seen


def is_cut(text: str) -> bool:
    """Check if an answer ends where a harness cut it."""
    if any(dots in text for dots in _DOTS) and _JSON.match(text) and _INNER.search(text):
        return True
    body = text.rstrip()
    dots = next((dots for dots in _DOTS if body.endswith(dots)), "")
    if not dots:
        return _is_round(len(text)) and _is_open(text)
    inner = body[: -len(dots)]
    return _is_round(len(inner)) or (len(body) >= _LEAST and _is_round(len(body))) or _is_open(inner)


def _is_round(size: int) -> bool:
    return size >= _LEAST and (size % 500 == 0 or size & (size - 1) == 0)


def _is_open(text: str) -> bool:
    """Check if a document of JSON, of what Python prints, or of markup ends before it is closed."""
    if _JSON.match(text):
        return _is_open_json(text)
    root = _ROOT.match(text)
    if root is None:
        return False
    name = (root[1] or root[2]).lower()
    return name not in _VOID and not root[0].endswith("/>") and f"</{name}" not in text.lower()


def _is_open_json(text: str) -> bool:
    begin = text.lstrip().lstrip("[{ \n\t")[:1]
    depth = 0
    for token in _TOKENS["'" if begin == "'" else '"'].finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
        elif token[0] in ("]", "}"):
            depth -= 1
            if depth == 0:
                return False
        elif token[1] is None:
            return True
    return True
