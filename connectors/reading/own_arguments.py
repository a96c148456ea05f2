"""A log's own arguments of an action: read of JSON text, and kept beside what the common vocabulary makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.values import object_or_none

_LEVELS: Final = 12
"""Levels of arrays and objects that arguments of an action have at most."""


def own_arguments(arguments: Mapping[str, Any]) -> str | None:
    """The JSON text of a log's own arguments; None if there are none, or if they nest too deeply to be arguments."""
    return shallow_json(arguments, _LEVELS) if arguments else None


def arguments_in(text: str) -> dict[str, Any]:
    """The arguments that a text of JSON holds, none if it is empty; what is no object stands under `input`."""
    value = object_or_none(text) if text else {}
    return {"input": text} if value is None else value
