"""System prompts: what a model is told of its world before the first turn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.recipe.templates import PromptTemplate, prompt_template
from trajmill.pipelines.render.tool_list import tool_list
from trajmill.pipelines.render.turns import COMMANDS, Rows, View, ending, state_of

CONTEXT: Final = ("action_space", "initial_state", "demonstrations", "simulation_instruction")
"""The texts of a transition's context that a prompt holds."""

SCREEN_PATTERN: Final = r"\[0,0\]\[(?P<width>[1-9][0-9]*),(?P<height>[1-9][0-9]*)\]"
_SCREEN: Final = re.compile(SCREEN_PATTERN)
ASKING: Final = (
    "\n\nThink first if you need to. Then write what is observed next, and only that, between "
    "`<predicted_observation>` and `</predicted_observation>`."
)
"""What ends the user message that asks a model which may think for its prediction."""

OPENING: Final = "<predicted_observation>"
CLOSING: Final = "</predicted_observation>"


class Shape(NamedTuple):
    """What a prompt says of a trajectory besides the texts of its context, and which of these (`CONTEXT`) there are."""

    domain: str
    forms: tuple[str, ...]
    dialects: tuple[str, ...]
    ends: bool
    enveloped: bool
    screen: str
    given: tuple[bool, ...]


class Prompt(NamedTuple):
    """A system prompt, its template as `terminal/sft-2@` and 12 digits of the sha256, and its shape."""

    text: str
    template: str
    shape: Shape


class Wording(NamedTuple):
    """Which templates are drawn from: the pool, the seed of the draw, and a user's own folder."""

    pool: str
    seed: int = 0
    folder: Path | None = None

    @classmethod
    def of(cls, mix: Mix, pool: str) -> Wording:
        """That of a recipe, for a pool."""
        return cls(pool, mix.seed, None if mix.templates is None else Path(mix.templates))

    def template(self, domain: str, key: str) -> PromptTemplate:
        """The template that the prompt of a trajectory is made from."""
        return prompt_template(domain, self.pool, key, self.seed, self.folder)


def prompt(rows: Rows, key: str, wording: Wording, view: View) -> Prompt:
    """The system prompt of a trajectory.

    Args:
        rows: of the trajectory, or of a part of it, in order.
        key: of the trajectory; by it the template is drawn.
        wording: what is drawn from.
        view: how the turns are shown, since the prompt says so.
    """
    return shaped_prompt(shape_of(rows, view), rows[0]["context"], key, wording, view)


def shaped_prompt(shape: Shape, context: Mapping[str, str | None], key: str, wording: Wording, view: View) -> Prompt:
    """The system prompt of a trajectory of which no more is known than its shape and its context.

    Args:
        shape: of it, which says which texts of the context there are.
        context: `CONTEXT`, as rows bear it.
        key: as of `prompt`, as what follows.
        wording: what is drawn from.
        view: how the turns are shown.
    """
    drawn = wording.template(shape.domain, key)
    return Prompt(_rendered(drawn, shape, _texts(context), wording.pool, view), drawn.reference, shape)


def _texts(context: Mapping[str, str | None]) -> tuple[str, ...]:
    return tuple((_tools if name == "action_space" else str)(context[name] or "") for name in CONTEXT)


@lru_cache(256)
def fixed_text(drawn: PromptTemplate, shape: Shape, pool: str, view: View) -> tuple[str, tuple[int, ...]]:
    """A prompt without the texts of its context, and how often it shows each of them."""
    marks = tuple(f"\ue000{name}\ue001" if there else "" for name, there in zip(CONTEXT, shape.given, strict=True))
    text = _rendered(drawn, shape, marks, pool, view)
    uses = tuple(text.count(mark) if mark else 0 for mark in marks)
    for mark in filter(None, marks):
        text = text.replace(mark, "")
    return text, uses


_tools: Final = lru_cache(256)(tool_list)


@lru_cache(256)
def _rendered(drawn: PromptTemplate, shape: Shape, texts: tuple[str, ...], pool: str, view: View) -> str:
    """The text of a prompt; trajectories of a corpus have few."""
    values = {
        **dict(zip(CONTEXT, texts, strict=True)),
        "screen": shape.screen,
        "forms": list(shape.forms),
        "dialects": list(shape.dialects),
        "ends": shape.ends,
        "enveloped": shape.enveloped,
        "shows_diffs": view.edits == "diff" and shape.domain in COMMANDS,
        "keeps_messages": view.harness == "keep",
        "native": view.actions == "native",
        "tagged": pool in ("rl", "eval"),
    }
    return view.plain(drawn.template.render(**values).rstrip("\n"))


def shape_of(rows: Rows, view: View) -> Shape:
    """What the prompt of a trajectory says of it besides the texts of its context."""
    domain = rows[0]["domain"]
    visible = [row for row in rows if row["use"] != "omit"]
    shown = [row["next_observation"] for row in visible]
    forms, dialects = (tuple(sorted({one[name] for one in shown if one[name]})) for name in ("form", "dialect"))
    ends = domain in COMMANDS and any(ending(row) for row in visible)
    enveloped = view.mcp == "envelope" and any(view.text(one) is not one["content"] for one in shown)
    return Shape(domain, forms, dialects, ends, enveloped, _screen(rows), tuple(map(bool, _texts(rows[0]["context"]))))


def _screen(rows: Sequence[Mapping[str, Any]]) -> str:
    """The size of the screen by the box of the first node of the first one: `1080 x 2400`; empty if none tells it."""
    for row in rows:
        is_screen = row["next_observation"] is not None and row["next_observation"]["form"] == "screen"
        state = state_of(row, View()) if is_screen else None
        met = _SCREEN.search(state.partition("\n")[0]) if state else None
        if met is not None:
            return f"{met['width']} x {met['height']}"
    return ""
