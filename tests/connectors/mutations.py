"""Logs in which one JSON value was replaced by one of another type: how a hostile or future writer may differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

Path = tuple[str | int, ...]


def nested(depth: int) -> list[Any]:
    """Arrays within each other."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


STRANGERS: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    2**31,
    10**25,
    1.5,
    1e308,
    "",
    "x",
    "\0",
    "\ud800",
    "99999-99-99T99:99:99Z",
    "9" * 5000,
    [],
    [None],
    ["x"],
    [[]],
    [{}],
    {},
    {"": None},
    {"x": {"x": "x"}},
    nested(900),
    {"x": nested(900)},
)
"""What takes the place of a value: every JSON type, and the extremes of each."""


def documents(data: bytes) -> list[Any] | None:
    """The JSON values of a member: of one document or of its lines (those that are JSON); None if it holds none."""
    try:
        return [json.loads(data)]
    except (ValueError, RecursionError):
        values = []
    for line in data.splitlines():
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return values if any(isinstance(value, dict | list) for value in values) else None


def written(values: list[Any]) -> bytes:
    """The values as one document or as JSON Lines, lone surrogates as escapes."""
    return b"\n".join(json.dumps(value).encode() for value in values) + b"\n"


def places(value: Any, at: Path = ()) -> Iterator[Path]:
    """The path of every value below `value`, itself included."""
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*at, key))


def replaced(value: Any, at: Path, stranger: Any) -> Any:
    """`value` with `stranger` at the path; what is not on the path is shared."""
    if not at:
        return stranger
    copy = value.copy()
    copy[at[0]] = replaced(value[at[0]], at[1:], stranger)
    return copy
