"""JSON text of values that are carried on: of a bounded depth, and with null for numbers that JSON does not have."""

from __future__ import annotations

from typing import Any, Final

import orjson

from trajmill.connectors.reading.values import JsonError, check_size, json_value, nesting
from trajmill.schemas import json_text

CARRIED_DEPTH: Final = 128
"""Levels of arrays and objects in what is carried on as JSON text: whoever reads it downstream reads so many."""


def is_shallow(value: Any, levels: int = CARRIED_DEPTH) -> bool:
    """Check if arrays and objects are nested in a JSON value at most so many levels deep."""
    return nesting(value) <= levels


def shallow_json(value: Any, levels: int = CARRIED_DEPTH) -> str | None:
    """A JSON value as text; None if it is nested more than so many levels deep."""
    try:
        text = json_text(value)
    except RecursionError:
        return None
    return text if is_shallow_text(text, value, levels) else None


def is_shallow_text(text: str, value: Any, levels: int = CARRIED_DEPTH) -> bool:
    """Check if arrays and objects are nested at most so many levels deep in a value of which this is the JSON text."""
    return text.count("{") + text.count("[") <= levels or is_shallow(value, levels)


def bound_depth(value: Any, levels: int = CARRIED_DEPTH) -> Any:
    """`value` with what is nested more than so many levels deep replaced by null."""
    if isinstance(value, dict):
        return {key: bound_depth(item, levels - 1) for key, item in value.items()} if levels > 0 else None
    if isinstance(value, list):
        return [bound_depth(item, levels - 1) for item in value] if levels > 0 else None
    return value


def is_json(text: str) -> bool:
    """Check if the text is a JSON array or object; its ends are looked at first, since most texts are not."""
    if text[:1] not in ("{", "[") or text[-1:] not in ("}", "]"):
        return False
    try:
        check_size(text)
        orjson.loads(text)
    except ValueError:
        return False
    return True


def parse_if_json(value: Any) -> Any:
    """The value; if it is JSON text of an object or an array, as columns of tables hold it, what the text says."""
    text = value.strip() if isinstance(value, str) else ""
    if text[:1] not in ("{", "[") or text[-1:] not in ("}", "]"):
        return value
    try:
        return json_value(text)
    except JsonError:
        return value
