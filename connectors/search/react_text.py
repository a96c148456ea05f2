"""Transcripts of a ReAct agent over an encyclopedia (arXiv 2210.03629): numbered thoughts, actions, observations.

    Thought 1: …
    Action 1: Search[entity] | Lookup[keyword] | Finish[answer]
    Observation 1: …

A field ends at the next marker that may follow it and has the right number, so an observation may have several lines
and any content. An action is read as its environment reads it: the word, and all text between its first bracket and the
last one on the line. An action without this form keeps its text. This module does not search files for episodes; see
`react_log` and `react_notebook`.

The verdict on a finished episode, and the refusal of a malformed action, come from the harness. Both are observations
of origin `harness`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from trajmill.connectors.conversation import search_tools as vocabulary
from trajmill.connectors.conversation.harness_text import Source, speaker
from trajmill.connectors.conversation.told import Told, answered
from trajmill.connectors.conversation.turns import Call
from trajmill.schemas import COMPLETE, Observation, Step

_MARKER: Final = re.compile(r"(?:Thought|Action|Observation) ([0-9]{1,9}):")
_CALL: Final = re.compile(r"(\w{1,64})\[(.*)\]")
_VERDICT: Final = re.compile(r"Answer is (CORRECT|INCORRECT)|Episode finished, reward = (-?[0-9]+(?:\.[0-9]+)?)")
_CLIENT: Final = Source("react", None, "")
_PRINTED: Final = "ohh... "
"""Before a step, ReAct's notebooks print this and the model's text if it could not be split into thought and action."""

_LOOSE: Final = 1000
"""Number of characters of a malformed action that are searched for its word."""

_ARGUMENTS: Final = {"search": "entity", "lookup": "keyword"}

_TOOLS: Final = (
    {
        "name": "search",
        "description": "Opens the Wikipedia page of that title: its beginning, or similar titles if there is none.",
        "parameters": {"type": "object", "properties": {"entity": {"type": "string"}}, "required": ["entity"]},
    },
    {
        "name": "lookup",
        "description": "The next sentence of the page last opened that holds the keyword.",
        "parameters": {"type": "object", "properties": {"keyword": {"type": "string"}}, "required": ["keyword"]},
    },
    {
        "name": COMPLETE,
        "description": "Hands in the answer.",
        "parameters": {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
    },
)

CONTEXT: Final = replace(vocabulary.context(_TOOLS, None), origin="derived")
"""The action space that ReAct's prompt states in prose; the logs do not hold the prompt."""


class Text(NamedTuple):
    """A line of a transcript without its line end, and its byte offset."""

    offset: int
    text: str


@dataclass(slots=True)
class Move:
    """A numbered step of the transcript: the lines of each field, empty if it is missing."""

    offset: int
    thought: list[str]
    action: list[str]
    observation: list[str]


def is_first(line: str) -> bool:
    """Check if the line begins the first step of a transcript."""
    return line.startswith(("Thought 1:", "Action 1:"))


def moves(lines: Iterable[tuple[int, str]]) -> list[Move]:
    """Return the steps with an action, in order; lines before the first marker are left out.

    Either every step of a transcript begins with a thought, or none does.

    Args:
        lines: the lines, each with its offset; a step has the offset of its action.
    """
    moves_read: list[Move] = []
    move, current = Move(0, [], [], []), list[str]()
    number, begins = 1, ""
    # The beginning of a line that opens the next field, and of one whose number has leading zeros.
    wanted: str | tuple[str, ...] = ("Thought 1:", "Action 1:")
    padded: str | tuple[str, ...] = ("Thought 0", "Action 0")
    for offset, line in lines:
        text = line
        if line.startswith(wanted) or (line.startswith(padded) and _number(line) == number):
            sign = line[0]
            begins = begins or sign
            if sign == begins:
                move = Move(offset, [], [], [])
                moves_read.append(move)
            if sign == "T":
                current, follows = move.thought, "Action"
            elif sign == "A":
                move.offset = offset
                current, follows = move.action, "Observation"
            else:
                current, follows = move.observation, "Thought" if begins == "T" else "Action"
                number += 1
            wanted, padded = f"{follows} {number}:", f"{follows} 0"
            text = line[line.index(":") + 1 :].removeprefix(" ")
        elif current is move.observation and line.startswith(_PRINTED):
            current = []
        current.append(text)
    return [read_move for read_move in moves_read if read_move.action]


def _number(line: str) -> int | None:
    """Return the number of the marker at the beginning of the line, if there is one."""
    marker = _MARKER.match(line)
    return int(marker[1]) if marker else None


def steps(episode_moves: Sequence[Move], told_before: str | None = None) -> list[Step]:
    """Return the steps of an episode; `told_before` are the harness's words to the agent before the first."""
    builder = Told(in_memory=True)
    builder.say("harness", told_before)
    for move in episode_moves:
        after = _observation("\n".join(move.observation).rstrip("\n")) if move.observation else None
        call = answered(_call(move), after, move.offset)
        verdict = verdict_of(after) if call.name == COMPLETE else None
        call.ending = (verdict, None if verdict is None else True, None)
        builder.turn([call])
    return list(builder.steps())


def verdict_of(seen: Observation | None) -> float | None:
    """Return the reward that an observation states; None if it is no verdict."""
    match = _VERDICT.fullmatch(seen.content.strip()) if seen and seen.content else None
    if match is None:
        return None
    return float(match[2]) if match[2] else float(match[1] == "CORRECT")


def _observation(text: str) -> Observation:
    by_harness = speaker(text, _CLIENT) is not None or _VERDICT.fullmatch(text.strip()) is not None
    return Observation(text, origin="harness" if by_harness else "environment")


def _call(move: Move) -> Call:
    raw = "\n".join(move.action).rstrip()
    thought = "\n".join(move.thought).strip() or None
    match = _CALL.fullmatch(raw.strip(" "))
    if match is None:
        loose = _CALL.search(raw[:_LOOSE])
        return Call(_word(loose[1]) if loose else "", None, None, 0, text=raw, reasoning=thought)
    word, inner = match[1].lower(), match[2]
    if word == "finish":
        return vocabulary.answer(inner, reasoning=thought)
    return vocabulary.call(word, {_ARGUMENTS.get(word, "argument"): inner}, reasoning=thought)


def _word(word: str) -> str:
    return COMPLETE if word.lower() == "finish" else vocabulary.common_word(word.lower())
