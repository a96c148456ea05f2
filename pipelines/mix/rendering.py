"""Rendering: a judged trajectory as the texts that models are trained on. Pure; nothing here reads or writes.

The world-model view of Qwen-AgentWorld (arXiv 2606.24597, §2): a system prompt of what is known beforehand, then turns,
where the user turn is the action and the assistant turn is the observation. What the agent thought, said or was asked
to do is not shown: a world does not know it. What the harness and the user said between turns is shown where the recipe
keeps it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, Final, Literal, TypeAlias

import jinja2

from pipelines.mix.edits import edit_of
from pipelines.recipe.templates import template

MARKER: Final = "**Environment Observation:**\n"
Harness: TypeAlias = Literal["strip", "keep"]
Edits: TypeAlias = Literal["call", "diff"]
_HEADINGS: Final[Mapping[str, str]] = {"harness": "**Harness Message:**", "user": "**User Message:**"}
_FENCES: Final = re.compile(r"`{3,}")

TITLES: Final[Mapping[str, str]] = {
    "mcp": "MCP tool servers",
    "search": "a web search engine",
    "terminal": "a terminal",
    "swe": "a software repository and its tools",
    "web": "a web browser",
    "os": "a desktop operating system",
    "android": "an Android device",
}


_COMMANDS: Final = frozenset({"terminal", "swe"})
"""Domains whose actions are commands."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One rendered turn: what the user message and the assistant message say, and whether the loss stands on it.

    `step` is the trajectory's step of the turn's first call; `scrubbed` says whether placeholders stand in its rows.
    """

    step: int
    user: str
    assistant: str
    loss: bool
    observation: str
    exit_code: int | None
    scrubbed: bool


@dataclass(frozen=True, slots=True)
class Rendered:
    """A whole trajectory in the world-model view; turns without a row to show are left out."""

    system: str
    turns: tuple[Turn, ...]


def _fenced(text: str, language: str = "json") -> str:
    longest = max((len(run) for run in _FENCES.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _action(text: str, edits: Edits) -> str:
    """An action as it is shown: its text, or where it is an edit the call without what the diff below it says."""
    edit = edit_of(text) if edits == "diff" else None
    return (
        _fenced(text) if edit is None else f"{_fenced(edit.call)}\n{_fenced(edit.diff.removesuffix(chr(10)), 'diff')}"
    )


@cache
def _system() -> jinja2.Template:
    return template("world_model.md.j2")


def system_prompt(row: Mapping[str, Any], harness: Harness = "strip", edits: Edits = "call") -> str:
    """The system prompt of a trajectory, from its first row's domain and context, and how turns are shown."""
    text = _system().render(
        world=TITLES[row["domain"]],
        keeps_messages=harness == "keep",
        ends=row["domain"] in _COMMANDS,
        shows_diffs=edits == "diff" and row["domain"] in _COMMANDS,
        **{name: row["context"][name] for name in _CONTEXT},
    )
    return text.rstrip("\n")


_CONTEXT: Final = ("action_space", "initial_state", "demonstrations", "simulation_instruction")


def _numbered(texts: Sequence[str], word: str) -> str:
    if len(texts) == 1:
        return texts[0]
    return "\n\n".join(f"**{word} {number}:**\n{text}" for number, text in enumerate(texts, 1))


def _said(interleaved: str | None) -> str:
    """What the harness and the user said, each under its heading; empty if neither said anything."""
    told = json.loads(interleaved) if interleaved else ()
    return "".join(f"{_HEADINGS[one['role']]}\n{one['content']}\n" for one in told if one["role"] in _HEADINGS)


def ending(row: Mapping[str, Any]) -> str:
    """How what an action started ended, as the line below its output: its exit code, or that its time ran out."""
    if row["timed_out"]:
        return "[timed out]"
    return "" if row["exit_code"] is None else f"[exit code {row['exit_code']}]"


def _answer(row: Mapping[str, Any]) -> str:
    """What a model is to predict: the next observation, and below it how what the action started ended."""
    content: str = row["next_observation"]["content"]
    told = ending(row)
    return f"{content}\n{told}" if told and content else content or told


def _limits(rows: Sequence[Mapping[str, Any]]) -> str:
    """The seconds that the calls were given, under a heading; empty where none is known."""
    known = [row["time_limit_s"] for row in rows]
    if all(limit is None for limit in known):
        return ""
    if len(set(known)) == 1:
        return f"**Time Limit:**\n{known[0]:g} s\n"
    return "**Time Limit:**\n" + ", ".join("none known" if one is None else f"{one:g} s" for one in known) + "\n"


def _bears_loss(row: Mapping[str, Any], harness: Harness) -> bool:
    made = harness == "keep" and row["next_observation"]["origin"] == "harness"
    return row["use"] == "target" and not made


def _turn(
    number: int,
    rows: Sequence[Mapping[str, Any]],
    shown: str | None,
    said: str = "",
    harness: Harness = "strip",
    edits: Edits = "call",
) -> Turn:
    before = rows[0]["observation"]
    state = before["content"] if before else None
    head = f"### Turn {number}\n"
    if state is not None and state != shown:
        head += f"**Current State:**\n{state}\n"
    actions = _numbered([_action(row["action"]["text"], edits) for row in rows], "Call")
    observations = [_answer(row) for row in rows]
    observation = _numbered(observations, "Result")
    return Turn(
        step=rows[0]["step"],
        user=f"{head}{said}{_limits(rows)}**Action:**\n{actions}",
        assistant=MARKER + observation,
        loss=all(_bears_loss(row, harness) for row in rows),
        observation=observation,
        exit_code=rows[0]["exit_code"] if len(rows) == 1 else None,
        scrubbed=any(row["scrubbed"] for row in rows),
    )


def render(rows: Sequence[Mapping[str, Any]], harness: Harness = "strip", edits: Edits = "call") -> Rendered:
    """The world-model view of one trajectory.

    The state before an action is shown where it is not what the turn before ended with. Rows that are omitted, or whose
    next observation holds no text, are not shown; the loss stands on a turn if every row of it is a target.

    Args:
        rows: all rows of a trajectory (or of one segment) in order, as Python values, each with its `use`.
        harness: `strip` leaves out what was said between turns; `keep` shows what the harness and the user said in the
            user turn, between the state and the action, and takes the loss off observations that the harness made.
            What was said before a turn that is not shown is not shown either.
        edits: `call` shows an edit of a file as the call that it is; `diff` as a unified diff below the call, where
            that tells both the old text and the new.
    """
    turns: list[Turn] = []
    shown: str | None = None
    for _, group in groupby(rows, key=lambda row: row["turn"]):
        calls = list(group)
        visible = [row for row in calls if row["use"] != "omit"]
        if visible:
            said = "".join(_said(row["interleaved"]) for row in calls) if harness == "keep" else ""
            turns.append(_turn(len(turns) + 1, visible, shown, said, harness, edits))
            shown = visible[-1]["next_observation"]["content"]
    return Rendered(system_prompt(rows[0], harness, edits), tuple(turns))


def messages(rendered: Rendered, until: int | None = None) -> list[dict[str, Any]]:
    """The chat messages, each with `role`, `content` and `loss` (null but on assistant messages).

    Args:
        rendered: the trajectory.
        until: number of turns to take; the last of them without its assistant message. None takes all, whole.
    """
    found: list[dict[str, Any]] = [{"role": "system", "content": rendered.system, "loss": None}]
    for turn in rendered.turns[:until]:
        found.append({"role": "user", "content": turn.user, "loss": None})
        found.append({"role": "assistant", "content": turn.assistant, "loss": turn.loss})
    return found if until is None else found[:-1]


def document(rendered: Rendered) -> str:
    """The whole trajectory as one text, for continued pre-training."""
    return "\n\n".join([rendered.system, *(f"{turn.user}\n\n{turn.assistant}" for turn in rendered.turns)]) + "\n"


def targets(rendered: Rendered) -> list[int]:
    """Positions of the turns that the loss stands on."""
    return [position for position, turn in enumerate(rendered.turns) if turn.loss]


def ground_truth(domain: str, turn: Turn) -> str:
    """What a reward compares a prediction with, as one JSON text (version 1).

    `exact` is false where scrubbing put placeholders into the turn: the environment answered to other words, so a
    prediction is not to be compared with the observation letter by letter.
    """
    checks: list[dict[str, Any]] = []
    if turn.exit_code is not None:
        checks.append({"type": "exit_code", "value": turn.exit_code, "weight": 1.0})
    truth = {
        "v": 1,
        "domain": domain,
        "observation": turn.observation,
        "exact": not turn.scrubbed,
        "checks": checks,
    }
    return json.dumps(truth, ensure_ascii=False)


def trajectories(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The rows of each trajectory, or of each segment of a split one; rows come in the order of their file."""
    for _, group in groupby(rows, key=lambda row: (row["trajectory_id"], row["ordinal"], row["segment"])):
        yield list(group)
