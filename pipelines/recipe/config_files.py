"""Where the values that come with trajmill lie."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def configs() -> Traversable:
    """The folder of built-in recipes, templates and rubrics."""
    packaged = files("pipelines") / "configs"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "configs"
