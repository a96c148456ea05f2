r"""A result of the Model Context Protocol as Python prints it: its texts, whether it failed, and whether it is cut.

    meta=None content=[TextContent(type='text', text='4 degrees', annotations=None)] isError=False
    CallToolResult(content=[TextContent(type='text', text='4 degrees')], structured_content=None, is_error=False)

Agents that hand the result object itself to the model show it so. It is cut where a harness kept only its beginning. A
result that holds more than texts is left as it is. Nothing of it is run.
"""

from __future__ import annotations

import ast
import re
from typing import Final, NamedTuple

_BEGIN: Final = re.compile(
    r"\s*(?:CallToolResult\()?(?:_?meta=(?:None|\{[^{}]{0,4096}\}),? )?content=\[(?=\]|TextContent\()"
)
_BLOCK: Final = re.compile(
    r"TextContent\(type='text', text=('(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")"
    r"(?:, [a-zA-Z_]+=(?:None|\{[^{}]*+\}))*+\)(?:, )?",
    re.DOTALL,
)
_OPEN: Final = re.compile(r"TextContent\(type='text', text=(['\"])")
_END: Final = re.compile(
    r"\](?:,? (?:structuredC|structured_c)ontent=.*)?,? (?:isE|is_e)rror=(True|False)(?:,? \w+='\w*')?\)?\s*\Z",
    re.DOTALL,
)
_HALF: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:x.?|u.{0,3}|U.{0,7})?\Z")
"""Escape that the cut splits."""


class Printed(NamedTuple):
    """Contents of a printed result; `failed` is null if the text ends before it."""

    text: str
    failed: bool | None
    cut: bool


def parse_printed(text: str) -> Printed | None:
    """Parse a printed result; None for any other text."""
    begin = _BEGIN.match(text) if "content=[" in text[:8192] else None
    if begin is None:
        return None
    position, texts = begin.end(), []
    while block := _BLOCK.match(text, position):
        texts.append(_value(block[1]))
        position = block.end()
    if end := _END.match(text, position):
        return Printed("\n".join(texts), end[1] == "True", False)
    rest = _OPEN.match(text, position)
    if rest is not None:
        texts.append(_value(rest[1] + _HALF.sub(r"\1", text[rest.end() :]) + rest[1]))
    elif "(" in text[position : text.find("=", position)]:
        return None  # a block of another kind
    return Printed("\n".join(texts), None, True)


def _value(literal: str) -> str:
    """Return the value of a string literal; if it is invalid, the literal without its quotes."""
    try:
        return str(ast.literal_eval(literal))
    except (ValueError, SyntaxError):
        return literal[1:-1]
