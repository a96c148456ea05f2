"""JSON text of values in trajectories: of bounded depth, and with null for numbers that JSON lacks."""

from __future__ import annotations

from typing import Any, Final

import orjson

from trajmill.connectors.reading.values import JsonError, check_size, json_value, nesting
from trajmill.schemas import json_text

CARRIED_DEPTH: Final = 128
"""Largest nesting of arrays and objects in JSON text of trajectories; every later reader can handle it."""


def is_shallow(value: Any, levels: int = CARRIED_DEPTH) -> bool:
    """Check whether the nesting of a JSON value has at most `levels` levels."""
    return nesting(value) <= levels


def shallow_json(value: Any, levels: int = CARRIED_DEPTH) -> str | None:
    """Return a JSON value as text; None if its nesting has more than `levels` levels."""
    try:
        text = json_text(value)
    except RecursionError:
        return None
    return text if is_shallow_text(text, value, levels) else None


def is_shallow_text(text: str, value: Any, levels: int = CARRIED_DEPTH) -> bool:
    """Check whether the nesting of a value with this JSON text has at most `levels` levels."""
    return text.count("{") + text.count("[") <= levels or is_shallow(value, levels)


def bound_depth(value: Any, levels: int = CARRIED_DEPTH) -> Any:
    """Return `value` with arrays and objects deeper than `levels` replaced by null."""
    if isinstance(value, dict):
        return {key: bound_depth(item, levels - 1) for key, item in value.items()} if levels > 0 else None
    if isinstance(value, list):
        return [bound_depth(item, levels - 1) for item in value] if levels > 0 else None
    return value


def is_json(text: str) -> bool:
    """Check whether the text is a JSON array or object; its ends are checked first, since most texts are not."""
    if text[:1] not in ("{", "[") or text[-1:] not in ("}", "]"):
        return False
    try:
        check_size(text)
        orjson.loads(text)
    except ValueError:
        return False
    return True


def parse_if_json(value: Any) -> Any:
    """Return the value; if it is JSON text of an object or an array, as in columns of tables, its parsed value."""
    text = value.strip() if isinstance(value, str) else ""
    if text[:1] not in ("{", "[") or text[-1:] not in ("}", "]"):
        return value
    try:
        return json_value(text)
    except JsonError:
        return value
