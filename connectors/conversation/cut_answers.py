"""Answers that a harness cut without notice: they end within their form, in three dots or at a round size.

An unclosed document was cut if it ends in dots, which no document does, or if its size is a usual limit. Plain text has
no closing part. There, dots indicate a cut only if the text before them has the size of a usual limit; otherwise they
are the program's own, as in `Loading...`. A closed document may contain a cut: a string in it then ends in
`...[truncated]`, or stands for the rest of an array as `... 12 more items`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from trajmill.schemas import Observation

_DOTS: Final = ("...", "…")
_LEAST: Final = 200
"""Characters from which a multiple of 500 or a power of 2 counts as a usual limit."""

_JSON: Final = re.compile(r"\s*[\[{]\s*(?:[\"'\[{]|-?\d+(?:\.\d+)?\s*,)")
_TOKENS: Final = {
    quote: re.compile(rf"{quote}(?:[^{quote}\\]|\\.)*+({quote})?|[\[{{]|[\]}}]", re.DOTALL) for quote in "\"'"
}
"""Strings and brackets of JSON or of Python literals; a string that ends has a group."""

_INNER: Final = re.compile(
    r'(?:\.\.\.|…) ?[\[(]?(?:truncated|\d{1,9} (?:more|items|lines|char|bytes))[^"\n]{0,60}"(?=\s*[,}\]])',
    re.I,
)
"""End of a string that announces a cut in it or in the array around it."""

_ROOT: Final = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!doctype\s+([a-z]+)[^>]*>|<([a-z][\w:.-]*)(?:\s[^<>]*)?>)", re.I)
_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})


def with_cut(seen: Observation | None) -> Observation | None:
    """Return the observation, marked as cut by the harness if its content indicates a cut."""
    if seen is None or not seen.content or seen.truncation != "none" or seen.origin != "environment":
        return seen
    return replace(seen, truncation="harness") if is_cut(seen.content) else seen


def is_cut(text: str) -> bool:
    """Check whether a harness cut the answer."""
    if _JSON.match(text) and ("..." in text or "…" in text) and _INNER.search(text):
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
    """Check whether a document of JSON, Python literals or markup ends before it is closed."""
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
