"""The base of a recipe's parts: frozen values of the very types that they are declared with, and no other names."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Values(BaseModel):
    """A part of a recipe."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


LISTED: Final = BeforeValidator(_listed)
"""Lets a tuple be written as a list, which is all that YAML has."""
