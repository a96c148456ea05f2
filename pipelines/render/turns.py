"""Turns: a judged trajectory in the world-model view, as the messages and documents that models are trained on.

The view of Qwen-AgentWorld (arXiv 2606.24597, §2), in the form of its benchmark: a system prompt of what is known
beforehand, then turns, where the user turn is one action and the assistant turn is what was observed. Calls that an
agent made at once are successive turns, in the order of the calls. What the agent thought, said or was asked to do is
not shown: a world does not know it. What the harness and the user said between turns is shown where the recipe keeps
it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from trajmill.pipelines.render.actions import Grammar, shown_action
from trajmill.pipelines.render.capping import capped
from trajmill.pipelines.render.control_bits import may_escape, turn_holds
from trajmill.pipelines.render.edits import Edits
from trajmill.quality.control_strings import escaped

if TYPE_CHECKING:
    from trajmill.pipelines.recipe.recipe import Mix

MARKER: Final = "**Environment Observation:**\n"
STATE: Final = "**Current State:**\n"
ACTION: Final = "**Action:**\n"
Harness: TypeAlias = Literal["strip", "keep"]
Answers: TypeAlias = Literal["text", "envelope"]
Rows: TypeAlias = Sequence[Mapping[str, Any]]
COMMANDS: Final = frozenset({"terminal", "swe"})
"""Domains whose actions are commands."""

_HEADINGS: Final[Mapping[str, str]] = {"harness": "**Harness Message:**", "user": "**User Message:**"}


@dataclass(frozen=True, slots=True)
class View:
    """How a recipe's samples show trajectories; see `recipe.Mix` for what each value means."""

    harness: Harness = "strip"
    edits: Edits = "call"
    actions: Grammar = "call"
    observation_chars: int | None = None
    mcp: Answers = "text"
    escapes: bool = False

    @classmethod
    def of(cls, mix: Mix) -> View:
        """That of a recipe."""
        escapes = mix.control_tokens == "escape"
        return cls(mix.harness, mix.edits, mix.actions, mix.observation_chars, mix.mcp, escapes)

    def text(self, observed: Mapping[str, Any]) -> str | None:
        """What stands for an observation, before it is capped: its text, or the object of MCP that the text stood in.

        Args:
            observed: `content`, and `envelope` where the view asks for it; a row without text has neither.
        """
        content: str | None = observed["content"]
        return content if self.mcp == "text" or content is None else observed.get("envelope") or content

    def seen(self, text: str, row: Mapping[str, Any]) -> str:
        """What stands for an observation of a row as it is shown."""
        return self.plain_of(row, self.capped(text))

    def capped(self, text: str) -> str:
        """What stands for an observation, which is not too long."""
        return text if self.observation_chars is None else capped(text, self.observation_chars)

    def plain(self, text: str) -> str:
        """A text that is shown, without what tokenizers take for control tokens where these are escaped."""
        return escaped(text) if self.escapes else text

    def plain_of(self, row: Mapping[str, Any], text: str) -> str:
        """The same of a text of a row, of which costs tell whether it is worth looking through."""
        return escaped(text) if self.escapes and may_escape(row) else text


class Turn(NamedTuple):
    """One rendered turn: what the user message and the assistant message say, and whether the loss stands on it.

    Attributes:
        step: the trajectory's step.
        user: the user message.
        assistant: the assistant message: the marker, and what was observed.
        loss: whether the loss stands on the assistant message.
        observation: what the assistant message says below its marker.
        state: what the environment showed before the action, whether or not the message shows it; None if not known.
        row: the transition that is shown.
        shows_state: whether the user message shows the state.
        said_tokens: of what others said before the action, where the user message shows it and rows tell it.
        holds_control: whether the two messages show what tokenizers take for a control token, as far as rows tell it.
        view: how it is shown.
    """

    step: int
    user: str
    assistant: str
    loss: bool
    observation: str
    state: str | None
    row: Mapping[str, Any]
    shows_state: bool = False
    said_tokens: int = 0
    holds_control: bool = False
    view: View = View()


def ending(row: Mapping[str, Any]) -> str:
    """How what an action started ended, as the line below its output: its exit code, or that its time ran out.

    Elsewhere than in the domains of commands there is none: their answers say it themselves, or nobody saw it.
    """
    if row["domain"] not in COMMANDS:
        return ""
    if row["timed_out"]:
        return "[timed out]"
    return "" if row["exit_code"] is None else f"[exit code {row['exit_code']}]"


def answer(row: Mapping[str, Any], view: View) -> str:
    """What a model is to predict: the next observation, and below it how what the action started ended."""
    content = view.seen(view.text(row["next_observation"]) or "", row)
    told = ending(row)
    return f"{content}\n{told}" if told and content else content or told


def state_of(row: Mapping[str, Any], view: View) -> str | None:
    """What the environment showed before an action; None where that is not known, or others' words stand there."""
    before = row["observation"]
    return view.text(before) if before and before["origin"] == "environment" else None


def heading(number: int) -> str:
    """The line that opens a turn."""
    return f"### Turn {number}\n"


def time_limit(row: Mapping[str, Any]) -> str:
    """What a model is told of the time after which the harness kills what an action starts; empty if not known."""
    return "" if row["time_limit_s"] is None else f"**Time Limit:**\n{row['time_limit_s']:g} s\n"


def user_text(number: int, row: Mapping[str, Any], state: str | None, said: str, view: View, opening: str = "") -> str:
    """The user message of a turn.

    Args:
        number: of the turn, from 1.
        row: of the turn.
        state: that is shown, capped; None shows none.
        said: what stands between state and action.
        view: how actions are shown.
        opening: what stands before all of that.
    """
    head = heading(number) + opening
    if state is not None:
        head += f"{STATE}{state}\n\n"
    text = f"{head}{said}{time_limit(row)}{ACTION}{shown_action(row, view.edits, view.actions)}"
    return view.plain(text) if said or opening else view.plain_of(row, text)


def bears_loss(row: Mapping[str, Any], view: View) -> bool:
    """Whether the loss stands on what a row observed next."""
    made = view.harness == "keep" and row["next_observation"]["origin"] == "harness"
    return row["use"] == "target" and not made


class Outline(NamedTuple):
    """A turn whose messages are not written yet: what decides where a trajectory is cut, without a text of its own.

    Attributes:
        step: the trajectory's step.
        loss: whether the loss stands on the assistant message.
        row: the transition that is shown.
        shows_state: whether the user message shows the state.
        said_tokens: as of `Turn`.
        holds_control: as of `Turn`.
        speaking: the rows of which the user message shows what others said before the action.
    """

    step: int
    loss: bool
    row: Mapping[str, Any]
    shows_state: bool
    said_tokens: int
    holds_control: bool
    speaking: Rows


def outlined(rows: Rows, view: View) -> list[Outline]:
    """The turns of one trajectory, as `turns` shows them, before they are rendered."""
    found: list[Outline] = []
    shown: str | None = None
    for _, group in groupby(rows, key=_TURN):
        calls = list(group)
        visible = [row for row in calls if row["use"] != "omit"]
        if not visible:
            continue
        speaks = view.harness == "keep" and any(said(row["interleaved"]) for row in calls)
        first = visible[0]
        state = state_of(first, view)
        shows, speaking = state is not None and state != shown, calls if speaks else []
        size = sum(one.get("said_tokens", 0) for one in speaking) if speaks else 0
        holds = turn_holds(first, speaking, shows)
        found.append(Outline(first["step"], bears_loss(first, view), first, shows, size, holds, speaking))
        found += [
            Outline(row["step"], bears_loss(row, view), row, False, 0, turn_holds(row, (), False), ())
            for row in visible[1:]
        ]
        shown = view.text(visible[-1]["next_observation"])
    return found


_TURN: Final = itemgetter("turn")


def rendered(outlines: Sequence[Outline], view: View, opening: str = "") -> list[Turn]:
    """The turns of the first outlines of a trajectory, or of a window of it; `opening` as of `turns`."""
    found: list[Turn] = []
    for number, one in enumerate(outlines, 1):
        state = state_of(one.row, view) if one.shows_state else None
        before = None if state is None else view.capped(state)
        told = "".join([said(other["interleaved"]) for other in one.speaking]) if one.speaking else ""
        user = user_text(number, one.row, before, told, view, opening if number == 1 else "")
        found.append(_turn(one, user, view))
    return found


def answering(outlines: Iterable[Outline], view: View) -> Iterator[Turn]:
    """The same without what is asked: each with an empty user message, made as it is asked for."""
    return (_turn(one, "", view) for one in outlines)


def _turn(one: Outline, user: str, view: View) -> Turn:
    observed, state = answer(one.row, view), state_of(one.row, view)
    known = None if state is None else view.plain_of(one.row, state)
    facts = one.row, one.shows_state, one.said_tokens, one.holds_control, view
    return Turn(one.step, user, MARKER + observed, one.loss, observed, known, *facts)


def turns(rows: Rows, view: View | None = None, opening: str = "") -> list[Turn]:
    """The turns of one trajectory.

    The state before an action is shown where it is not what the turn before ended with, and once for calls made at
    once. Rows that are omitted, or whose next observation holds no text, are not shown.

    Args:
        rows: all rows of a trajectory (or of one segment or window) in order, as Python values, each with its `use`.
        view: how they are shown.
        opening: what else is known before the first turn, which the rows do not show; it opens the first user message.
    """
    chosen = view or View()
    return rendered(outlined(rows, chosen), chosen, opening)


def said(interleaved: str | None) -> str:
    """What the harness and the user said, each under its heading; empty if neither said anything."""
    told = json.loads(interleaved) if interleaved else ()
    return "".join(f"{_HEADINGS[one['role']]}\n{one['content']}\n\n" for one in told if one["role"] in _HEADINGS)


def messages(system: str, shown: Sequence[Turn]) -> list[dict[str, Any]]:
    """The chat messages of turns, each with `role`, `content` and `loss` (null but on assistant messages)."""
    found: list[dict[str, Any]] = [{"role": "system", "content": system, "loss": None}]
    for turn in shown:
        found.append({"role": "user", "content": turn.user, "loss": None})
        found.append({"role": "assistant", "content": turn.assistant, "loss": turn.loss})
    return found


BETWEEN: Final = "\n\n"
"""Between the texts of a document."""


def document(system: str, shown: Sequence[Turn]) -> str:
    """The whole trajectory as one text, for continued pre-training."""
    texts = [system]
    for turn in shown:  # long texts are copied once
        texts += BETWEEN, turn.user, BETWEEN, MARKER, turn.observation
    return "".join([*texts, "\n"])


def trajectories(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The rows of each trajectory, or of each segment of a split one; rows come in the order of their file."""
    for _, group in groupby(rows, key=itemgetter("trajectory_id", "ordinal", "segment")):
        yield list(group)
