"""The words in which models are asked: the templates in `configs/templates/synthesis`."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, NamedTuple

import jinja2

from trajmill.pipelines.recipe.config_files import configs
from trajmill.pipelines.recipe.templates import template


class Asking(NamedTuple):
    """A template, and by what rows name it: `judge_scores@` and 12 digits of its sha256."""

    template: jinja2.Template
    reference: str

    def messages(self, **values: Any) -> tuple[dict[str, str], ...]:
        """The request of one user message that it makes of values."""
        return ({"role": "user", "content": self.template.render(**values).rstrip("\n")},)


@cache
def asking(name: str) -> Asking:
    """The template of that name, such as `judge_scores`."""
    file = f"synthesis/{name}.md.j2"
    text = (configs() / "templates" / file).read_bytes()
    return Asking(template(file), f"{name}@{hashlib.sha256(text).hexdigest()[:12]}")
