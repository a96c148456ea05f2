"""SFT system prompts whose last lines ask for the prediction between tags, as those of RL and eval do.

A sample's prompt was rendered for answers under a heading. Its template has both wordings. Only the words that ask for
a heading are replaced by those that ask for tags; the rest of the prompt is not rendered again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import jinja2
from jinja2 import nodes

from trajmill.pipelines.recipe.templates import configs

_REFERENCE: Final = re.compile(r"([a-z]+/[a-z]+(?:-(?:[0-9]+|short))?)@([0-9a-f]{12})")
_FLAG: Final = "tagged"


def tag_system_prompt(system: str, reference: str, folder: Path | None = None) -> str:
    """Return the system prompt that asks for tags; unchanged if its template is missing or has no such words.

    Args:
        system: System prompt of a sample.
        reference: Reference of its template, from the sample's `template`.
        folder: Folder of the user's own templates, if the recipe names one.
    """
    words = _words(reference, folder)
    if words is None:
        return system
    tagged, plain = words
    head, match, tail = system.rpartition(plain)
    return head + tagged + tail if match else system


@cache
def _words(reference: str, folder: Path | None) -> tuple[str, str] | None:
    """Return (words that ask for tags, words that ask for a heading) in a template; None if it has neither."""
    named = _REFERENCE.fullmatch(reference)
    if named is None:
        return None
    built_in: Traversable = configs() / "templates"
    for root in (folder, built_in) if folder is not None else (built_in,):
        file = root / f"{named[1]}.md.j2"
        text = file.read_text("utf-8") if file.is_file() else ""
        if hashlib.sha256(text.encode()).hexdigest().startswith(named[2]):
            return _branches(text)
    return None


def _branches(text: str) -> tuple[str, str] | None:
    environment = jinja2.Environment(keep_trailing_newline=True)  # noqa: S701 - parsed only
    branches = None
    for node in environment.parse(text).find_all(nodes.If):
        if isinstance(node.test, nodes.Name) and node.test.name == _FLAG:
            branches = _text(node.body).rstrip("\n"), _text(node.else_).rstrip("\n")
    return branches if branches and all(branches) else None


def _text(body: Iterable[nodes.Node]) -> str:
    """Return the text of a branch; empty if the branch contains anything else."""
    parts = [part for node in body for part in (node.nodes if isinstance(node, nodes.Output) else [node])]
    if not all(isinstance(part, nodes.TemplateData) for part in parts):
        return ""
    return "".join(part.data for part in parts if isinstance(part, nodes.TemplateData))
