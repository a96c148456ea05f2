"""Fenced Markdown blocks with the language of their content, and indentation of JSON."""

from __future__ import annotations

import re
from typing import Final

import orjson

from trajmill.connectors.reading.values import value_or_none
from trajmill.schemas import json_text

_RUNS: Final = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)
_PIECES: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_STEP: Final = "  "
_EXPONENT: Final = re.compile(r"e[+-][0-9]")


def put_in_fence(text: str, language: str) -> str:
    """Put the text between two fences that are longer than any fence at the start of one of its lines."""
    longest = max(map(len, _RUNS.findall(text)), default=2) if "```" in text else 2
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def block(text: str, language: str = "text") -> str:
    """Put the text in a fence of its language: `json`, indented, for an object or an array."""
    quick = _indent_plain(text)
    if quick is not None:
        return put_in_fence(quick, "json")
    return put_in_fence(indent_json(text), "json") if is_structure(text) else put_in_fence(text, language)


def _indent_plain(text: str) -> str | None:
    """Indent an object or array that is written as `json_text` writes it; return None for other texts.

    This takes a fifth of the time of `indent_json`.

    orjson writes exponents in its own way, so a text that may hold one is left to `indent_json`.
    """
    if text[:1] not in ("{", "["):
        return None
    if ("e-" in text or "e+" in text) and _EXPONENT.search(text):
        return None
    try:
        value = orjson.loads(text)
        pretty = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):  # the latter of what is nested deeply, too
        return None
    return pretty if json_text(value) == text else None


def is_structure(text: str) -> bool:
    """Return True if a text is a JSON object or array."""
    return text.lstrip()[:1] in ("{", "[") and isinstance(value_or_none(text), dict | list)


def indent_json(text: str) -> str:
    """Indent a JSON text by two blanks per level. Strings and numbers stay exactly as written.

    Parsing and serializing would lose digits of long numbers and the escapes of characters.
    """
    pieces: list[str] = []
    depth, before = 0, ""
    for piece in _PIECES.findall(text):
        if piece in ("}", "]"):
            depth -= 1
            pieces.append(piece if before in ("{", "[") else f"\n{_STEP * depth}{piece}")
        else:
            if before in ("{", "["):
                pieces.append(f"\n{_STEP * depth}")
            pieces.append(piece if piece not in (",", ":") else f",\n{_STEP * depth}" if piece == "," else ": ")
            depth += piece in ("{", "[")
        before = piece
    return "".join(pieces)
