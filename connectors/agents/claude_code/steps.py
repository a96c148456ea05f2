"""Steps of one branch of a Claude Code conversation.

The entries of the branch become turns and messages, and these become steps as in any conversation
(`conversation.steps`). The observation before a turn is the last result of the previous turn that the log holds. Among
parallel calls it is the last in call order, so that each row's observation is the next observation of the row before
it.

The origin of each answer is determined, since not every answer comes from the environment. The user answers questions
and plans and refuses calls, a sub-agent answers `Task`, and the harness keeps the to-do list and rejects bad calls.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import chain
from typing import Final, NamedTuple

from trajmill.connectors.agents.claude_code.entry import Call, Result, Said
from trajmill.connectors.agents.claude_code.nodes import Nodes
from trajmill.connectors.conversation import steps, turns
from trajmill.connectors.conversation.content import media_type
from trajmill.connectors.conversation.harness_text import (
    CLAUDE_CODE,
    Source,
    read_output,
    speaker,
    to_signed,
    tools_of_others,
    truncation,
)
from trajmill.connectors.conversation.tools import domain_of
from trajmill.connectors.conversation.turns import Item
from trajmill.connectors.conversation.wrapped_output import Output
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import Observation, Step, Steps
from trajmill.schemas.record import record

_SHELLS: Final = frozenset({"Bash", "PowerShell"})
_POLLS: Final = frozenset({"BashOutput", "TaskOutput", "KillShell"})

_LONGEST_LIMIT_MS: Final = 10**9
_POLLED_EXIT: Final = re.compile(r"<exit_code>(-?\d{1,10})</exit_code>")


@record
class Started:
    """A sub-agent that a step started: its prompt, and its id if the log states it."""

    step: int
    prompt: str
    agent_id: str | None


@record
class Course:
    """The steps of a branch, its instruction and the sub-agents that it started.

    `turns` are the turns that made steps, and `ends` the last step up to each of them.
    """

    steps: list[Step] | Steps
    instruction: str | None
    started: list[Started]
    turns: array[int] = field(default_factory=lambda: array("i"))
    ends: array[int] = field(default_factory=lambda: array("i"))


def course(nodes: Nodes, path: Sequence[int]) -> Course:
    """Build the course of the branch whose turns and notes are those of `path`."""
    first = next((index for index, node in enumerate(path) if nodes.turns[node]), len(path))
    instruction, opening = _instruction([text for node in path[:first] for text in nodes.said(node)])
    calls: list[_Start] = []
    built = steps.course(chain(map(_to_item, opening), _items(nodes, path[first:], calls)), instructed=True)
    outline = Course(built.steps, instruction, [])
    for node in path[first:]:
        if node in built.ends and (not outline.ends or built.ends[node] - 1 > outline.ends[-1]):
            outline.turns.append(node)
            outline.ends.append(built.ends[node] - 1)
    for call in calls:
        outline.started.append(Started(built.ends[call.turn] - call.left, call.prompt, call.agent_id))
    return outline


def domain(course_steps: Iterable[Step]) -> str:
    """Return the domain of a trajectory by its tools, except those of the user, the harness and sub-agents."""
    return domain_of((step.action.name for step in course_steps), "terminal", tools_of_others(CLAUDE_CODE))


class _Start(NamedTuple):
    """A call that starts a sub-agent: its turn, the calls of the turn from it on, its prompt and the stated id."""

    turn: int
    left: int
    prompt: str
    agent_id: str | None


def _items(nodes: Nodes, path: Iterable[int], started: list[_Start]) -> Iterator[Item]:
    """Yield the turns and messages of the path; append the calls that start sub-agents to `started`."""
    for node in path:
        if not nodes.turns[node]:
            yield from map(_to_item, nodes.said(node))
            continue
        entry, member = nodes.kept[nodes.firsts[node]], nodes.kept.member(nodes.firsts[node])
        turn = turns.Turn(entry.offset, member, at=entry.at, mark=node)
        begun: list[tuple[int, str, str | None]] = []
        for part, number in nodes.parts(node):
            if isinstance(part, Call):
                result = nodes.answer(number)
                if part.prompt is not None:
                    begun.append((len(turn.calls), part.prompt, result.agent_id if result else None))
                turn.add(_call(part, result, entry.setting.version, member))
            elif part[0] == "text":
                turn.texts.append(part[1])
            else:
                turn.thoughts.append(part[1])
        started += [_Start(node, len(turn.calls) - index, prompt, agent) for index, prompt, agent in begun]
        yield turn


def _call(part: Call, result: Result | None, version: str | None, member: str) -> turns.Call:
    """Build the call with its answer, if the log holds one; `version` is the client's."""
    call = turns.Call(part.name, part.arguments, part.call_id, part.offset, member, at=part.at)
    call.limit = _limit(part)
    if result is not None:
        content = result.content
        source = Source(CLAUDE_CODE, version, part.name, result.is_error)
        output = read_output(content, source)
        call.ends(output)
        call.exit_code = _exit_code(part.name, result, output)
        call.shown = Observation(
            output.text,
            media_type(output.text),
            origin=speaker(content or "", source) or "environment",
            is_error=result.is_error,
            truncation="harness" if result.stopped else truncation(content or "", source),
            uri=result.cwd,
            attachments=result.attachments,
        )
        call.seconds = turns.seconds_between(part.at, result.at)
        call.notes += result.notes
    return call


def _to_item(text: Said) -> turns.Said:
    return turns.Said(text.role, text.text, text.attachments, text.cwd, text.at)


def _instruction(texts: list[Said]) -> tuple[str | None, list[Said]]:
    """Split the texts before the first turn into the instruction and the others.

    The instruction is the user's first text, or the last command if the user typed only commands.
    """
    position = next((index for index, text in enumerate(texts) if text.role == "user" and text.text), None)
    if position is None:
        commands = [index for index, text in enumerate(texts) if text.text.lstrip().startswith("<command-")]
        position = commands[-1] if commands else None
    return (None, texts) if position is None else (texts[position].text, [*texts[:position], *texts[position + 1 :]])


def _limit(part: Call) -> float | None:
    """Return the time limit in seconds that the agent set for a command; the log does not hold the default limit."""
    if part.name not in _SHELLS or part.arguments is None or '"timeout"' not in part.arguments:
        return None
    timeout = json_value(part.arguments).get("timeout")
    return timeout / 1000 if type(timeout) in (int, float) and 0 < timeout < _LONGEST_LIMIT_MS else None


def _exit_code(name: str, result: Result, output: Output) -> int | None:
    """Return the exit status that the log states. Success is not stated and stays null."""
    code = output.exit_code if result.exit_code is None else result.exit_code
    if code is None and name in _POLLS and (match := _POLLED_EXIT.search(result.content or "")) is not None:
        code = int(match[1])
    return to_signed(code)
