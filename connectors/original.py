"""A log's own arguments of an action, kept beside what the common vocabulary makes of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from connectors.records import object_text
from schemas import json_text

_NOT_JSON: Final = re.compile(r"\b(?:NaN|-?Infinity)\b")
_MAX_NESTING: Final = 12


def original_json(arguments: Mapping[str, Any]) -> str | None:
    """The JSON text of a log's own arguments; None if there are none, or if they nest too deeply to be arguments.

    Numbers that JSON does not have become null.
    """
    if not arguments:
        return None
    try:
        text = object_text(arguments)
    except RecursionError:
        return None
    if text.count("{") + text.count("[") > _MAX_NESTING and not _is_shallow(arguments, _MAX_NESTING):
        return None
    # The words are looked for before the pattern, which takes longer than writing the text does.
    if ("NaN" in text or "Infinity" in text) and _NOT_JSON.search(text):
        text = json_text(json.loads(text, parse_constant=lambda _: None))
    return text


def _is_shallow(value: Any, levels: int) -> bool:
    if isinstance(value, Mapping):
        return levels > 0 and all(_is_shallow(item, levels - 1) for item in value.values())
    if isinstance(value, list | tuple):
        return levels > 0 and all(_is_shallow(item, levels - 1) for item in value)
    return True
