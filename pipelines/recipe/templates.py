"""Templates, rubrics and recipes of trajmill: in the checkout under `configs/`, in the wheel within `pipelines`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import jinja2


def configs() -> Traversable:
    """The folder of built-in recipes, templates and rubrics."""
    packaged = files("pipelines") / "configs"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "configs"


def template(name: str) -> jinja2.Template:
    """The template of that name; undefined names are errors, and nothing is escaped, since output is Markdown."""
    return _environment().from_string((configs() / "templates" / name).read_text("utf-8"))


@cache
def rubric(name: str) -> str:
    """The text by which a judge rates predictions, as it is asked with it."""
    return (configs() / "rubrics" / f"{name}.md").read_text("utf-8")


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True)  # noqa: S701 - Markdown
