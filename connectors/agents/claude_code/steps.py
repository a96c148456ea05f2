"""One branch of a Claude Code conversation as the steps of a trajectory.

Turns and words are made of the branch's entries, and steps of them as of any conversation (`conversation.steps`). What
stood before a turn is the last result of the turn before that the log holds: of parallel calls the last in call order,
so that each row's observation is the next observation of the row before it.

Who answered is told apart, since not all of it is the environment: the user answers questions and plans and refuses
calls, a sub-agent answers `Task`, and the harness keeps the list of things to do and turns bad calls away.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import chain
from typing import Final, NamedTuple

from trajmill.connectors.agents.claude_code.entry import AGENT_TOOLS, Call, Result, Said
from trajmill.connectors.agents.claude_code.nodes import Nodes
from trajmill.connectors.conversation import steps, turns
from trajmill.connectors.conversation.content import media_type
from trajmill.connectors.conversation.tools import domain_of
from trajmill.connectors.conversation.turns import Item
from trajmill.connectors.conversation.wrapped_output import limit_of
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import Observation, Step, Steps
from trajmill.schemas.record import record

_USER_TOOLS: Final = frozenset({"AskUserQuestion", "ExitPlanMode", "exit_plan_mode"})
_HARNESS_TOOLS: Final = frozenset(
    {
        "CronCreate",
        "CronDelete",
        "CronList",
        "EnterPlanMode",
        "ScheduleWakeup",
        "SendMessage",
        "Skill",
        "SlashCommand",
        "StructuredOutput",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskUpdate",
        "TeamCreate",
        "TeamDelete",
        "TodoRead",
        "TodoWrite",
        "ToolSearch",
    }
)
_NO_TOOLS: Final = _USER_TOOLS | _HARNESS_TOOLS | AGENT_TOOLS
_SHELLS: Final = frozenset({"Bash", "PowerShell"})
_POLLS: Final = frozenset({"BashOutput", "TaskOutput", "KillShell"})
_SEARCHES: Final = frozenset({"WebSearch", "WebFetch"})

_BY_USER: Final = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "[Request interrupted by user",
)
_BY_HARNESS: Final = (
    "InputValidationError",
    "Error: No such tool available",
    "Sibling tool call errored",
    "Cancelled: parallel tool call",
    "File has not been read yet",
    "Claude requested permissions to ",
    "Permission to ",
    "This command requires approval",
    "PreToolUse:",
    "[Tool result missing due to internal error]",
)
"""Beginnings of errors, after the tag `<tool_use_error>` if they have it, that the call never reached a tool with."""

_CUT: Final = re.compile(r"\.\.\. \[\d+ (?:lines|characters) truncated\] \.\.\.")
_CUT_ENDS: Final = (
    "(Results are truncated. Consider using a more specific path or pattern.)",
    "</persisted-output>",
)
_CLEARED: Final = "[Old tool result content cleared]"
_EXIT: Final = re.compile(r"(?:Error: )?Exit code (\d{1,10})(?!\d)(?:\n|\Z)")
_TIMED_OUT: Final = re.compile(r"Command timed out after (?:(\d{1,4})m )?(\d{1,6}(?:\.\d{1,3})?)s(?:\n|\Z)")
_LONGEST_LIMIT_MS: Final = 10**9
_POLLED_EXIT: Final = re.compile(r"<exit_code>(-?\d{1,10})</exit_code>")


@record
class Started:
    """A sub-agent that a step started: its prompt, and its id if the log tells."""

    step: int
    prompt: str
    agent_id: str | None


@record
class Course:
    """The steps of a branch, what it was asked first and the sub-agents it started.

    `turns` are those that made steps, and `ends` the last step up to each of them.
    """

    steps: list[Step] | Steps
    instruction: str | None
    started: list[Started]
    turns: array[int] = field(default_factory=lambda: array("i"))
    ends: array[int] = field(default_factory=lambda: array("i"))


def course(nodes: Nodes, path: Sequence[int]) -> Course:
    """The course of a branch whose turns and notes are those of `path`."""
    first = next((place for place, node in enumerate(path) if nodes.turns[node]), len(path))
    instruction, opening = _instruction([one for node in path[:first] for one in nodes.said(node)])
    calls: list[_Start] = []
    told = steps.course(chain(map(_said, opening), _items(nodes, path[first:], calls)), instructed=True)
    made = Course(told.steps, instruction, [])
    for node in path[first:]:
        if node in told.ends and (not made.ends or told.ends[node] - 1 > made.ends[-1]):
            made.turns.append(node)
            made.ends.append(told.ends[node] - 1)
    for call in calls:
        made.started.append(Started(told.ends[call.turn] - call.left, call.prompt, call.agent_id))
    return made


def domain(made: Iterable[Step]) -> str:
    """The domain of a trajectory by its tools, those of user, harness and sub-agents left aside."""
    return domain_of((step.action.name for step in made), _NO_TOOLS, _SEARCHES)


class _Start(NamedTuple):
    """A call that starts a sub-agent: its turn, how many calls of that are left with it, its prompt and the id told."""

    turn: int
    left: int
    prompt: str
    agent_id: str | None


def _items(nodes: Nodes, path: Iterable[int], started: list[_Start]) -> Iterator[Item]:
    """Turns and words of the path, one at a time; what starts a sub-agent is added to `started`."""
    for node in path:
        if not nodes.turns[node]:
            yield from map(_said, nodes.said(node))
            continue
        entry, member = nodes.kept[nodes.firsts[node]], nodes.kept.member(nodes.firsts[node])
        turn = turns.Turn(entry.offset, member, at=entry.at, mark=node)
        begun: list[tuple[int, str, str | None]] = []
        for part, number in nodes.parts(node):
            if isinstance(part, Call):
                result = nodes.answer(number)
                if part.prompt is not None:
                    begun.append((len(turn.calls), part.prompt, result.agent_id if result else None))
                turn.add(_call(part, result, member))
            elif part[0] == "text":
                turn.texts.append(part[1])
            else:
                turn.thoughts.append(part[1])
        started += [_Start(node, len(turn.calls) - index, prompt, agent) for index, prompt, agent in begun]
        yield turn


def _call(part: Call, result: Result | None, member: str) -> turns.Call:
    """The call with its answer, if the log holds one."""
    call = turns.Call(part.name, part.arguments, part.call_id, part.offset, member, at=part.at)
    call.limit = _limit(part)
    if result is not None:
        call.exit_code, late = _exit_code(part.name, result), _out_of_time(part.name, result)
        if late is not None:
            call.killed, call.named = True, limit_of(60 * int(late[1] or 0) + float(late[2]))
        call.shown = _observation(part.name, result)
        call.seconds, call.notes = turns.seconds_between(part.at, result.at), result.reminders
    return call


def _said(said: Said) -> turns.Said:
    return turns.Said(said.role, said.text, said.attachments, said.cwd, said.at)


def _instruction(said: list[Said]) -> tuple[str | None, list[Said]]:
    """What the agent was asked first, and what else was said before it acted.

    That is the user's first text; where the user typed no more than a command, the last of these.
    """
    place = next((index for index, one in enumerate(said) if one.role == "user" and one.text), None)
    if place is None:
        commands = [index for index, one in enumerate(said) if one.text.lstrip().startswith("<command-")]
        place = commands[-1] if commands else None
    return (None, said) if place is None else (said[place].text, [*said[:place], *said[place + 1 :]])


def _observation(name: str, result: Result) -> Observation:
    content = result.content
    if content is not None and name in _SHELLS and result.is_error:
        content = _after(_TIMED_OUT, _after(_EXIT, content))
    return Observation(
        content,
        media_type(content),
        origin=_origin(name, result),
        is_error=result.is_error,
        truncation=_truncation(content or "", result.stopped),
        uri=result.cwd,
        attachments=result.attachments,
    )


def _after(words: re.Pattern[str], content: str) -> str:
    """The output of a command without what the client wrote before it."""
    found = words.match(content)
    return content if found is None else content[found.end() :]


def _out_of_time(name: str, result: Result) -> re.Match[str] | None:
    """The client's words where it killed a command since its time was up: minutes and seconds that it had."""
    if name not in _SHELLS or not result.is_error:
        return None
    return _TIMED_OUT.match(_after(_EXIT, result.content or ""))


def _limit(part: Call) -> float | None:
    """The seconds that the agent gave a command; its default is not in the log."""
    if part.name not in _SHELLS or part.arguments is None or '"timeout"' not in part.arguments:
        return None
    given = json_value(part.arguments).get("timeout")
    return given / 1000 if type(given) in (int, float) and 0 < given < _LONGEST_LIMIT_MS else None


def _origin(name: str, result: Result) -> str:
    content = result.content or ""
    if result.is_error:
        error = content.removeprefix("<tool_use_error>")
        if error.startswith(_BY_USER):
            return "user"
        if error.startswith(_BY_HARNESS):
            return "harness"
    if name in _USER_TOOLS:
        return "user"
    if name in AGENT_TOOLS:
        return "harness" if content.startswith("Async agent launched") else "agent"
    if name == "TaskOutput" and "<task_type>local_agent</task_type>" in content:
        return "agent"
    return "harness" if name in _HARNESS_TOOLS else "environment"


def _truncation(content: str, stopped: bool) -> str:
    """`harness` where the agent saw the result cut; `recorder` where the log has lost what the agent saw."""
    if content == _CLEARED:
        return "recorder"
    if stopped or content.endswith(_CUT_ENDS) or (" truncated] ..." in content and _CUT.search(content)):
        return "harness"
    return "none"


def _exit_code(name: str, result: Result) -> int | None:
    """The exit status that the log states, as signed 32 bits; success is not stated and stays null."""
    code = result.exit_code
    if code is None and result.content is not None:
        found = None
        if name in _SHELLS and result.is_error:
            found = _EXIT.match(result.content)
        elif name in _POLLS:
            found = _POLLED_EXIT.search(result.content)
        code = None if found is None else int(found[1])
    if code is not None and 2**31 <= code < 2**32:
        code -= 2**32
    return code if code is not None and -(2**31) <= code < 2**31 else None
