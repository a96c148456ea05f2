"""System prompts: what a model is told of its world before the first turn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pipelines.recipe.recipe import Mix
from pipelines.recipe.templates import prompt_template
from pipelines.rendering.tool_list import tool_list
from pipelines.rendering.turns import Rows, View, ending, state_of

_CONTEXT: Final = ("initial_state", "demonstrations", "simulation_instruction")
_SCREEN: Final = re.compile(r"\[0,0\]\[([1-9][0-9]*),([1-9][0-9]*)\]")
_COMMANDS: Final = frozenset({"terminal", "swe"})
"""Domains whose actions are commands."""

ASKING: Final = (
    "\n\nThink first if you need to. Then write what is observed next, and only that, between "
    "`<predicted_observation>` and `</predicted_observation>`."
)
"""What ends the user message that asks a model which may think for its prediction."""

OPENING: Final = "<predicted_observation>"
CLOSING: Final = "</predicted_observation>"


class Prompt(NamedTuple):
    """A system prompt, and the template that it was made from, as `terminal/sft-2@` and 12 digits of its sha256."""

    text: str
    template: str


class Wording(NamedTuple):
    """Which templates are drawn from: the pool, the seed of the draw, and a user's own folder."""

    pool: str
    seed: int = 0
    folder: Path | None = None

    @classmethod
    def of(cls, mix: Mix, pool: str) -> Wording:
        """That of a recipe, for a pool."""
        return cls(pool, mix.seed, None if mix.templates is None else Path(mix.templates))


def prompt(rows: Rows, key: str, wording: Wording, view: View) -> Prompt:
    """The system prompt of a trajectory.

    Args:
        rows: of the trajectory, or of a part of it, in order.
        key: of the trajectory; by it the template is drawn.
        wording: what is drawn from.
        view: how the turns are shown, since the prompt says so.
    """
    domain = rows[0]["domain"]
    drawn = prompt_template(domain, wording.pool, key, wording.seed, wording.folder)
    text = drawn.template.render(**_known(rows, wording.pool, view)).rstrip("\n")
    return Prompt(text, drawn.reference)


def _known(rows: Rows, pool: str, view: View) -> dict[str, Any]:
    """The values of the variables of templates."""
    first = rows[0]
    shown = [row["next_observation"] for row in rows if row["use"] != "omit"]
    context: Mapping[str, str | None] = first["context"]
    return {
        "action_space": tool_list(context["action_space"]) if context["action_space"] else "",
        **{name: context[name] or "" for name in _CONTEXT},
        "screen": _screen(rows),
        "forms": sorted({one["form"] for one in shown if one["form"]}),
        "dialects": sorted({one["dialect"] for one in shown if one["dialect"]}),
        "ends": first["domain"] in _COMMANDS and any(ending(row) for row in rows if row["use"] != "omit"),
        "shows_diffs": view.edits == "diff" and first["domain"] in _COMMANDS,
        "keeps_messages": view.harness == "keep",
        "native": view.actions == "native",
        "tagged": pool in ("rl", "eval"),
    }


def _screen(rows: Sequence[Mapping[str, Any]]) -> str:
    """The size of the screen by the box of the first node of the first one: `1080 x 2400`; empty if none tells it."""
    for row in rows:
        is_screen = row["next_observation"] is not None and row["next_observation"]["form"] == "screen"
        state = state_of(row) if is_screen else None
        met = _SCREEN.search(state.partition("\n")[0]) if state else None
        if met is not None:
            return f"{met[1]} x {met[2]}"
    return ""
