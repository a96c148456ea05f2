"""Actions as samples show them: the call, an edit as a diff, or the grammar that a domain's agents write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from trajmill.pipelines.render.edits import Edits, edit_of
from trajmill.pipelines.render.fences import block, fenced
from trajmill.pipelines.render.native_actions import native_action

Grammar: TypeAlias = Literal["call", "native"]

_LANGUAGES: Final[Mapping[str, str]] = {"os": "python"}
"""Domain → what its actions are written in where they are no calls."""


def shown_action(domain: str, text: str, edits: Edits = "call", grammar: Grammar = "call") -> str:
    """An action in its fences.

    Args:
        domain: of the transition.
        text: of the action.
        edits: `diff` shows an edit of a file as the call without what the diff below it says.
        grammar: `native` shows what the agents of the domain write, where the action can be said in it.
    """
    edit = edit_of(text) if edits == "diff" else None
    if edit is not None:
        return f"{block(edit.call)}\n{fenced(edit.diff.removesuffix(chr(10)), 'diff')}"
    native = native_action(domain, text) if grammar == "native" else None
    if native is not None:
        return block(native.text) if native.language == "json" else fenced(native.text, native.language)
    return block(text, _LANGUAGES.get(domain, "text"))
