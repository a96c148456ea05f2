"""Prompts for models, from the templates in `configs/templates/synthesis`, and the JSON in their answers."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any, NamedTuple

import jinja2

from trajmill.pipelines.recipe.templates import configs, template
from trajmill.synthesis.replies import Reply


def object_in(reply: Reply) -> dict[str, Any] | None:
    """Return the last complete JSON object in an answer, after any reasoning; None if there is none."""
    if reply.finish in ("refused", "length"):
        return None
    text = reply.content.rpartition("</think>")[2]
    decoder = json.JSONDecoder()
    last_object, begin = None, text.find("{")
    while begin >= 0:
        try:
            value, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            end = begin + 1
        else:
            last_object = value if isinstance(value, dict) else last_object
        begin = text.find("{", end)
    return last_object


class Asking(NamedTuple):
    """Template and the reference that rows record: `judge_scores@` and 12 digits of its sha256."""

    template: jinja2.Template
    reference: str

    def messages(self, **values: Any) -> tuple[dict[str, str], ...]:
        """Render the request, one user message."""
        return ({"role": "user", "content": self.template.render(**values).rstrip("\n")},)


@cache
def asking(name: str) -> Asking:
    """Return the template of a name, such as `judge_scores`."""
    file = f"synthesis/{name}.md.j2"
    text = (configs() / "templates" / file).read_bytes()
    return Asking(template(file), f"{name}@{hashlib.sha256(text).hexdigest()[:12]}")
