"""Where the values that come with trajmill lie."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable


def configs() -> Traversable:
    """The folder of built-in recipes, templates and rubrics."""
    return files("trajmill") / "configs"
