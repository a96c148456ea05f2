"""Regular expressions that are compiled on first use, since few logs reach a place where all are tried."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any


class Later:
    """Proxy of a compiled pattern with all its attributes.

    Args:
        make: Function that compiles the pattern.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._made = make

    @cached_property
    def _pattern(self) -> Any:
        return self._made()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._pattern, name)
        setattr(self, name, attribute)  # so that it is asked for once, and costs nothing where a pattern is tried often
        return attribute
