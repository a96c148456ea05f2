"""Python literals in texts; no code is run."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

_LITERAL: Final = 65536
"""Longest Python literal that is parsed; time and memory grow much faster than its length."""


def literal_value(text: str) -> Any:
    """Return the value of a Python literal; None if it is invalid, too long or too deep."""
    if len(text) > _LITERAL or max(text.count(sign) for sign in "([{-+") > 2000 or _depth(text) > 64:
        return None
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _depth(text: str) -> int:
    """Count the levels of brackets in the text, including those in its strings."""
    deepest = level = 0
    for bracket in re.findall(r"[(\[{]|[)\]}]", text):
        level += 1 if bracket in "([{" else -1
        deepest = max(deepest, level)
    return deepest
