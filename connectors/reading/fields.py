"""Fields of arbitrary JSON values, returned if they have the wanted type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

OBJECT: Final = (dict, Mapping)
"""Types of JSON objects, the usual one first, since the check for an abstract class takes six times as long."""


def text_of(value: Any) -> str | None:
    """Return the value if it is a non-empty text; otherwise None."""
    return value if isinstance(value, str) and value else None


def text_in(value: Any, *path: str) -> str | None:
    """Return the text at a path of keys through nested objects; None if it is missing or empty."""
    for key in path:
        value = value.get(key) if isinstance(value, OBJECT) else None
    return text_of(value)


def str_in(value: Any, key: str) -> str | None:
    """Return the text under a key of an object, even if empty; None if there is no text."""
    text = value.get(key) if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


def object_of(value: Any) -> dict[str, Any]:
    """Return the value if it is an object; otherwise an empty object."""
    return value if isinstance(value, dict) else {}


def str_of(value: Any) -> str:
    """Return the value if it is text; otherwise an empty text."""
    return value if isinstance(value, str) else ""


INT32: Final = range(-(2**31), 2**31)
"""Integers of 32 bits, such as exit statuses."""


def whole_number_of(value: Any, allowed: range | None = None) -> int | None:
    """Return the value if it is an integer, within `allowed` if given; otherwise None.

    True and false are no integers here, though Python treats them as 1 and 0.
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and (allowed is None or value in allowed) else None


def number_of(value: Any, bound: float, least: float | None = None) -> float | None:
    """Return a number as a float, if its size is below `bound` and it is not less than `least`; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < bound:
        return None
    return float(value) if least is None or value >= least else None


def brief(value: Any, most: int = 80) -> str:
    """Return the first characters of the `repr` of a JSON value, at most `most`."""
    return repr(value)[:most]


def plain_text(value: Any) -> str:
    """Return a text unchanged and another JSON value as in `brief`, for a field where an id or a word is expected."""
    return value if isinstance(value, str) else brief(value, 200)


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Return the objects of an array; empty if the value is no array."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def key_of(value: Any) -> str | None:
    """Return an id: a non-empty text, or an integer as its digits; None for any other value."""
    if isinstance(value, str):
        return value or None
    return str(value) if type(value) is int else None


def join_paragraphs(texts: Sequence[str]) -> str | None:
    """Join the texts by empty lines; None if there are none."""
    return "\n\n".join(texts) if texts else None
