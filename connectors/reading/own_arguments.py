"""A log's own arguments of an action: parsed from JSON text, and kept beside their form in the common vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.values import object_or_none

_LEVELS: Final = 12
"""Largest nesting of arrays and objects in the arguments of an action."""


def own_arguments(arguments: Mapping[str, Any]) -> str | None:
    """Return the JSON text of a log's own arguments; None if there are none or their nesting is too deep."""
    return shallow_json(arguments, _LEVELS) if arguments else None


def arguments_in(text: str) -> dict[str, Any]:
    """Return the arguments in a JSON text, none if empty; a text that is no object is the argument `input`."""
    value = object_or_none(text) if text else {}
    return {"input": text} if value is None else value
