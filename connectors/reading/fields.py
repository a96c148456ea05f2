"""Fields of JSON values that may hold anything: what they hold if it is of the wanted kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final


def text_of(value: Any) -> str | None:
    """The value if it is text and not empty."""
    return value if isinstance(value, str) and value else None


def text_in(value: Any, *path: str) -> str | None:
    """The text at a path of keys through nested objects; None where there is none, or an empty one."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return text_of(value)


def str_in(value: Any, key: str) -> str | None:
    """The text under a key of an object, also an empty one; None where there is none."""
    text = value.get(key) if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


def object_of(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def str_of(value: Any) -> str:
    """The value if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


INT32: Final = range(-(2**31), 2**31)
"""Whole numbers of 32 bits, such as exit statuses."""


def whole_number_of(value: Any, allowed: range | None = None) -> int | None:
    """The value if it is a whole number, and one of those allowed if some are given.

    True and false are none, though Python takes them for 1 and 0.
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and (allowed is None or value in allowed) else None


def brief(value: Any, most: int = 80) -> str:
    """Return the beginning of `repr` of a JSON value, at most so many characters of it."""
    return repr(value)[:most]


def plain_text(value: Any) -> str:
    """A text as it is, and any other JSON value as `brief` shows it: what stands where an id or a word is wanted."""
    return value if isinstance(value, str) else brief(value, 200)


def objects_of(value: Any) -> list[dict[str, Any]]:
    """The objects of an array; none of what is no array."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def key_of(value: Any) -> str | None:
    """The id of something: a text, or a number as its digits; None for anything else."""
    if isinstance(value, str):
        return value or None
    return str(value) if type(value) is int else None


def join_paragraphs(texts: Sequence[str]) -> str | None:
    """The texts with an empty line between; None if there are none."""
    return "\n\n".join(texts) if texts else None
