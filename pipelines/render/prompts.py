"""System prompts: the facts of its environment that a model is given before the first turn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import xxhash

from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.recipe.templates import PromptTemplate, prompt_template
from trajmill.pipelines.render.fixed_texts import COMMANDS
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.tool_list import ALSO, BETWEEN_TOOLS, tool_list
from trajmill.quality.tokens import TokenCounter

CONTEXT: Final = ("action_space", "initial_state", "demonstrations", "simulation_instruction")
"""The texts of a transition's context that a prompt holds."""

SCREEN_PATTERN: Final = r"\[0,0\]\[(?P<width>[1-9][0-9]*),(?P<height>[1-9][0-9]*)\]"


class Shape(NamedTuple):
    """Facts of a trajectory that a prompt states besides the texts of its context.

    Attributes:
        forms: forms of its next observations.
        dialects: dialects of its next observations.
        ends: whether answers state how commands ended.
        enveloped: whether answers are MCP objects.
        screen: size of the screen, as `1080 x 2400`; empty if unknown.
        given: which texts of the context (`CONTEXT`) exist.
    """

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
    """Source of templates: the pool, the seed of the draw, and a user's own folder."""

    pool: str
    seed: int = 0
    folder: Path | None = None

    @classmethod
    def of(cls, mix: Mix, pool: str) -> Wording:
        """Return the template source of a recipe, for a pool."""
        return cls(pool, mix.seed, None if mix.templates is None else Path(mix.templates))

    def template(self, domain: str, key: str, is_short: bool = False) -> PromptTemplate:
        """Choose the template of a trajectory's prompt."""
        return prompt_template(domain, self.pool, key, self.seed, self.folder, is_short)


class Tool(NamedTuple):
    """Token counts of a declared tool, with its description and as a name only."""

    described: int
    named: int


class Extent(NamedTuple):
    """Extent of the facts that a prompt states.

    Attributes:
        is_short: whether the short template replaces the drawn one.
        tools: numbers of the described tools; the others are only named. None describes all.
    """

    tokens: int
    is_short: bool = False
    tools: tuple[int, ...] | None = None


WHOLE: Final = Extent(0)
"""Extent of a prompt that states everything; its tokens are not counted."""


def make_prompt(
    shape: Shape, context: Mapping[str, str | None], key: str, wording: Wording, view: View, extent: Extent = WHOLE
) -> Prompt:
    """Make the system prompt of a trajectory.

    Args:
        shape: shape of the trajectory, which states the texts of the context that exist.
        context: texts of `CONTEXT`, from the rows.
        key: key of the trajectory, by which the template is drawn.
        view: how the turns are shown, which the prompt explains.
    """
    drawn = wording.template(shape.domain, key, extent.is_short)
    texts = tuple(
        _tools(context[name] or "", extent.tools) if name == "action_space" else context[name] or "" for name in CONTEXT
    )
    return Prompt(_render(drawn, shape, texts, wording.pool, view), drawn.reference, shape)


def prompt_tokens(
    shape: Shape, texts: Sequence[int], key: str, wording: Wording, view: View, counter: TokenCounter
) -> int:
    """Count the tokens of a system prompt, given those of the texts of its context (`CONTEXT`).

    Other arguments are those of `make_prompt`.
    """
    fixed, uses = _count_fixed_tokens(wording.template(shape.domain, key), shape, wording.pool, view, counter)
    return fixed + sum(use * size for use, size in zip(uses, texts, strict=True))


def fit_prompt(
    shape: Shape,
    texts: Sequence[int],
    tools: Sequence[Tool],
    named: Collection[int],
    most: float,
    key: str,
    wording: Wording,
    view: View,
    counter: TokenCounter,
) -> Extent:
    """Choose the extent of a prompt that is too long in full: at most `most` tokens, or as few as possible.

    It describes the tools that the sample names and as many others as fit, chosen by hash. The rest are only named. A
    prompt that is still too long uses the short template.

    Args:
        texts: tokens of the texts of its context (`CONTEXT`).
        tools: tokens of each tool that the context declares; fewer than two are not separated.
        named: numbers of the tools that the sample calls or names.
        most: largest number of tokens of the prompt.
        key: key of the trajectory, by which template and tools are drawn.
        view: as in `make_prompt`.
    """
    between, tool_position = counter.of(BETWEEN_TOOLS), CONTEXT.index("action_space")
    described = [number for number in range(len(tools)) if number in named]
    merely_named = [number for number in range(len(tools)) if number not in named]
    for is_short in (False, True):
        template = wording.template(shape.domain, key, is_short)
        fixed, uses = _count_fixed_tokens(template, shape, wording.pool, view, counter)
        whole = fixed + sum(use * size for use, size in zip(uses, texts, strict=True))
        if whole <= most or (is_short and not merely_named):
            return Extent(whole, is_short)
        rest = whole - uses[tool_position] * texts[tool_position]
        list_tokens = sum(tools[number].described + between for number in described) + counter.of(ALSO)
        list_tokens += sum(tools[number].named for number in merely_named)
        if merely_named and (is_short or rest + uses[tool_position] * list_tokens <= most):
            break
    by_lot = sorted(
        merely_named, key=lambda number: xxhash.xxh3_64_intdigest(f"tool:{key}:{number}".encode(), wording.seed)
    )
    for number in by_lot:
        size = tools[number].described + between - tools[number].named
        if rest + uses[tool_position] * (list_tokens + size) <= most:
            described.append(number)
            list_tokens += size
    return Extent(rest + uses[tool_position] * list_tokens, is_short, tuple(sorted(described)))


def _count_fixed_tokens(
    drawn: PromptTemplate, shape: Shape, pool: str, view: View, counter: TokenCounter
) -> tuple[int, tuple[int, ...]]:
    """Count the tokens of a prompt without the texts of its context, and how often it shows each text."""
    text, uses = _fixed_text(drawn, shape, pool, view)
    return counter.of(text), uses


@lru_cache(256)
def _fixed_text(drawn: PromptTemplate, shape: Shape, pool: str, view: View) -> tuple[str, tuple[int, ...]]:
    """Return a prompt without the texts of its context, and how often it shows each text."""
    marks = tuple(f"\ue000{name}\ue001" if there else "" for name, there in zip(CONTEXT, shape.given, strict=True))
    text = _render(drawn, shape, marks, pool, view)
    uses = tuple(text.count(mark) if mark else 0 for mark in marks)
    for mark in filter(None, marks):
        text = text.replace(mark, "")
    return text, uses


_tools: Final = lru_cache(256)(tool_list)


@lru_cache(256)
def _render(drawn: PromptTemplate, shape: Shape, texts: tuple[str, ...], pool: str, view: View) -> str:
    """Render the text of a prompt. The cache is effective, since a corpus has few distinct prompts."""
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
