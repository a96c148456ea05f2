"""The base class of a recipe's sections: frozen values with strict types and no unknown names."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Section(BaseModel):
    """A section of a recipe, or a value within one. Its validator is built on first use."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


def _to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


LISTED: Final = BeforeValidator(_to_tuple)
"""Validator that lets a tuple be written as a list, since YAML has no tuples."""


def _day(value: Any) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else value


Day = Annotated[date, BeforeValidator(_day)]
"""A day, as a YAML date or as text such as `2026-03-01`."""

Share = Annotated[float, Field(ge=0, le=1)]

Domain = Literal["mcp", "search", "terminal", "swe", "web", "os", "android"]


def known(kind: str, names: tuple[str, ...], valid: Iterable[str]) -> tuple[str, ...]:
    """Check that the names are valid and return them; the recipe calls them `kind`.

    Raises:
        ValueError: a name is not valid; the message suggests the nearest valid name.
    """
    there = list(valid)
    for name in names:
        if name not in there:
            nearest = get_close_matches(name, there, 1)
            hint = f"; did you mean '{nearest[0]}'?" if nearest else f"; there are: {', '.join(there)}"
            raise ValueError(f"there is no {kind} '{name}'{hint}")
    return names
