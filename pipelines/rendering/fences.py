"""Fenced blocks of Markdown, each with the language of what stands in it, and JSON set out over lines."""

from __future__ import annotations

import re
from typing import Final

from connectors.reading.values import value_or_none

_RUNS: Final = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)
_PIECES: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_STEP: Final = "  "


def fenced(text: str, language: str) -> str:
    """The text between two fences, which are longer than any that begins a line of it and so could end them."""
    longest = max((len(run) for run in _RUNS.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def block(text: str) -> str:
    """The text in a fence of its own language: `json`, set out over lines, where it is an object or an array."""
    return fenced(indented(text), "json") if is_structure(text) else fenced(text, "text")


def is_structure(text: str) -> bool:
    """Whether a text is a JSON object or array."""
    return text.lstrip()[:1] in ("{", "[") and isinstance(value_or_none(text), dict | list)


def indented(text: str) -> str:
    """A JSON text set out over lines, two blanks a level; strings and numbers stay as they are written.

    What a JSON library reads and writes again loses digits of long numbers and the way characters are written.
    """
    found: list[str] = []
    depth, before = 0, ""
    for piece in _PIECES.findall(text):
        if piece in ("}", "]"):
            depth -= 1
            found.append(piece if before in ("{", "[") else f"\n{_STEP * depth}{piece}")
        else:
            if before in ("{", "["):
                found.append(f"\n{_STEP * depth}")
            found.append(piece if piece not in (",", ":") else f",\n{_STEP * depth}" if piece == "," else ": ")
            depth += piece in ("{", "[")
        before = piece
    return "".join(found)
