"""Shared core for sessions of coding agents in JSON Lines, for any client.

A client's connector is a dialect. It reads a line as parts of a conversation (`parts`) and, where the lines state it,
which line this line follows (`link`) and which call started its sub-agent (`thread`). The main trajectory of a session
is the path to its last line. An abandoned path becomes a trajectory of relation `branch` if it holds an answered call
that no earlier path holds; it repeats the shared beginning. The lines of a sub-agent become a trajectory of relation
`subagent`, whose parent step is the call that started it.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple

from trajmill.connectors.connector import Blob, Connector
from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.harness_text import strip_forms, tools_of_others
from trajmill.connectors.conversation.pairing import Conversation, conversation
from trajmill.connectors.conversation.refusals import reject_unmatched
from trajmill.connectors.conversation.steps import is_answered_call, mark_dangling
from trajmill.connectors.conversation.tools import MCP_PREFIX, checkout, domain_of
from trajmill.connectors.conversation.turns import Call, Part, Result, pack, unpack
from trajmill.connectors.reading.fields import brief, str_of
from trajmill.connectors.reading.lines import json_lines
from trajmill.schemas import Agent, Context, Environment, ParseError, Pile, Reject, Task, Trajectory

BRANCHES: Final = 64
"""Largest number of side paths kept per session. The number is bounded because each path repeats its beginning."""

_PART_BYTES: Final = 512

_Entry = tuple[int, str | None, Part]
"""The number of a part's line, the id of the call that started the line's sub-agent, and the part."""


@dataclass(slots=True)
class OpenStep:
    """Step that the agent is still writing.

    Attributes:
        acts: what it has said and called.
        others: what others said and answered meanwhile.
        written: the text so far of the arguments of the last call; None without such a call.
    """

    acts: list[Part] = field(default_factory=list)
    others: list[Part] = field(default_factory=list)
    written: str | None = None


@dataclass(slots=True)
class Facts:
    """Facts that the lines of a session have stated so far, apart from its messages and actions.

    Attributes:
        id, cwd, version, model: the session's id, its folder, the version of its client and its language model.
        agent: the client's name, if the log states it.
        tools: definitions of the tools, as JSON text.
        names: the tool of each call, by the call's id.
        mcp: tools provided by an MCP server.
        thought: the last reasoning, with the kind of its line.
        waiting: tools of the open calls, in logs whose answers name no call.
        open_steps: the step that each thread is writing, in logs that answer its calls before it is complete.
        started: the call that started each sub-agent, by the agent's name, where that is not the call's id.
    """

    id: str | None = None
    cwd: str | None = None
    version: str | None = None
    model: str | None = None
    agent: str | None = None
    tools: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    mcp: set[str] = field(default_factory=set)
    thought: str | None = None
    waiting: list[str] = field(default_factory=list)
    open_steps: dict[str | None, OpenStep] = field(default_factory=dict)
    started: dict[str, str] = field(default_factory=dict)


class _ThreadFile(NamedTuple):
    """The file of a thread and its facts."""

    member: str
    facts: Facts


class AgentSession(Connector):
    """Base class of the dialects.

    Attributes:
        agent: the client's name.
    """

    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    agent: ClassVar[str]

    @abstractmethod
    def parts(self, line: dict[str, Any], offset: int, facts: Facts) -> Iterable[Part] | None:
        """Read the parts of a line and fill in the facts; return None if the type of the line is unknown.

        Raises:
            MessageError: the line does not match its type.
        """

    def link(self, line: dict[str, Any]) -> tuple[str | None, Any] | None:
        """Return the id of the line and of the line that it follows; None if the order of the log decides."""
        return None

    def thread(self, line: dict[str, Any], facts: Facts) -> str | None:
        """Return the id of the call that started the line's sub-agent."""
        return None

    def rest(self, facts: Facts) -> Iterable[tuple[str | None, Part]]:
        """Return the parts that waited for a line which the log does not have, each with its sub-agent."""
        return ()

    def agents(self, members: Sequence[str]) -> list[tuple[str | None, str]]:
        """List the files of a log: (None, the session's), then (the agent's name, file) of each sub-agent."""
        return [(None, member) for member in members]

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        tree = _Tree()
        entries: Pile[_Entry] = Pile(pack, unpack)
        files: dict[str | None, _ThreadFile] = {}
        for agent, member in self.agents(blob.members):
            thread = None if agent is None else files[None].facts.started.get(agent, agent)
            thread_file = files[thread] = _ThreadFile(member, Facts())
            yield from self._read(blob, thread_file, thread, entries, tree if agent is None else _Tree())
        yield from self._trajectories(blob, entries, tree, files)

    def _read(
        self, blob: Blob, thread_file: _ThreadFile, thread: str | None, entries: Pile[_Entry], tree: _Tree
    ) -> Iterator[Reject]:
        """Read the lines of a file into `entries`. Lines of a sub-agent are stored under the call that started it."""
        member, facts = thread_file
        unknown: set[str] = set()
        end = 0
        for offset, line in json_lines(blob, member):
            if isinstance(line, ParseError):
                yield Reject.of(line, "record", self.name)
                continue
            try:
                for number, own, part in self._entries(line, offset, facts, tree, unknown):
                    entries.append((number, own if thread is None else thread, part), _PART_BYTES + offset - end)
                    end = offset
            except MessageError as error:
                yield Reject("record", error.reason, error.detail, blob.uri, member, offset, self.name)
        for own, part in self.rest(facts):
            entries.append((tree.add(None), own if thread is None else thread, part), _PART_BYTES)

    def _entries(self, line: Any, offset: int, facts: Facts, tree: _Tree, unknown: set[str]) -> list[_Entry]:
        """List the parts of a line, each with the line's number and its sub-agent."""
        if not isinstance(line, dict):
            raise MessageError("not_an_object", f"wanted a JSON object, met {type(line).__name__}")
        number = tree.add(self.link(line))
        line_parts = self.parts(line, offset, facts)
        kind = brief(line.get("type") or line.get("role"))
        if line_parts is None and kind not in unknown:
            unknown.add(kind)
            raise MessageError("unknown_type", f"a line of type {kind}; further ones in this log are not told")
        thread, all_parts = self.thread(line, facts), [*(line_parts or ())]
        facts.names |= {
            part.call_id: part.name for part in all_parts if isinstance(part, Call) and part.call_id is not None
        }
        return [(number, thread, part) for part in all_parts]

    def _trajectories(
        self, blob: Blob, entries: Pile[_Entry], tree: _Tree, files: Mapping[str | None, _ThreadFile]
    ) -> Iterator[Trajectory | Reject]:
        member, facts = files[None]
        main: Trajectory | None = None
        seen: set[int] = set()
        answers = {number for number, thread, part in entries if thread is None and isinstance(part, Result)}
        for number, (end, own) in enumerate(tree.ends(answers)):
            if number > BRANCHES:
                detail = f"a session with more than {BRANCHES} paths that were left"
                yield Reject(
                    "trajectory", "too_many_branches", detail, blob.uri, member, -1, self.name, transitions=own
                )
                continue
            path = tree.path(end)
            lines = (unpack(pack(part)) for n, thread, part in entries if thread is None and path[n])
            dialog = conversation(lines, member=member)
            if number == 0:
                yield from (
                    reject_unmatched(blob.uri, self.name, trajectory, member) for trajectory in dialog.unmatched
                )
            answered = {step.offset for step in dialog.steps if is_answered_call(step)}
            if not dialog.calls or (main is not None and answered <= seen):
                continue
            seen |= answered
            trajectory = self.trajectory(dialog, facts)
            main, trajectory = (trajectory, trajectory) if main is None else (main, _branch(trajectory, main, number))
            yield trajectory
        acted = main is not None
        for name in dict.fromkeys(thread for _, thread, _ in entries if thread is not None):
            member, facts = files.get(name, files[None])
            lines = (unpack(pack(part)) for _, thread, part in entries if thread == name)
            dialog = conversation(lines, member=member)
            yield from (reject_unmatched(blob.uri, self.name, trajectory, member) for trajectory in dialog.unmatched)
            if dialog.calls:
                acted = True
                yield _subagent(self.trajectory(dialog, facts), main, name)
        if not acted:
            raise ParseError(blob.uri, -1, "no_transitions", "no message of the session holds a call")

    def trajectory(self, dialog: Conversation, facts: Facts) -> Trajectory:
        """Build the trajectory of a conversation that has calls."""
        mark_dangling(dialog.steps)
        names = (step.action.name for step in dialog.steps)
        trajectory = Trajectory(
            native_id=facts.id or "session",
            domain=domain_of(names, "terminal", tools_of_others(self.agent), lambda name: is_mcp(name, facts)),
            steps=dialog.steps,
            environment=Environment(instance_id=checkout(facts.cwd)),
            agent=Agent(facts.agent or self.agent, facts.version, facts.model),
            task=Task(instruction=dialog.instruction),
            context=Context(action_space=facts.tools, agent_system=dialog.system),
        )
        return strip_forms(trajectory, self.agent)


def _branch(trajectory: Trajectory, main: Trajectory, number: int) -> Trajectory:
    """Turn an abandoned path into a branch of the main trajectory, attached to the last step that both share."""
    shared = sum(a.offset == b.offset for a, b in zip(trajectory.steps, main.steps, strict=False))
    name, step = f"{main.native_id}/left-{number}", shared - 1 if shared else None
    return replace(trajectory, native_id=name, parent=main.native_id, parent_step=step, relation="branch")


def _subagent(trajectory: Trajectory, main: Trajectory | None, name: str) -> Trajectory:
    """Relate a sub-agent's trajectory to the step of the main trajectory whose call started it, by the call's id."""
    steps = main.steps if main is not None else ()
    step = next((index for index, step in enumerate(steps) if step.action.call_id == name), None)
    parent = main.native_id if main is not None else None
    return replace(
        trajectory,
        native_id=f"{parent or trajectory.native_id}/{name}",
        parent=parent,
        parent_step=step,
        relation="subagent",
    )


def is_mcp(name: str, facts: Facts) -> bool:
    """Return True if an MCP server provides the tool."""
    return name in facts.mcp or name.startswith(MCP_PREFIX)


def fact(value: Any, known: str | None) -> str | None:
    """Return the known fact, or the value as the first text that states it."""
    return known or str_of(value) or None


class _Tree:
    """The tree of lines. A line without an id belongs to the last line that has an id."""

    def __init__(self) -> None:
        self._by_id: dict[str, int] = {}
        self._before = array("q")
        self._named = bytearray()
        self._last = -1

    def add(self, link: tuple[str | None, Any] | None) -> int:
        """Add a line and return its number. A line that names no known line follows the last line that has an id."""
        number = len(self._before)
        key, parent = link if link is not None else (None, "")
        is_root = key is not None and parent is None
        self._before.append(-1 if is_root else self._by_id.get(str_of(parent), self._last))
        self._named.append(key is not None)
        if key is not None:
            self._by_id.setdefault(key, number)
            self._last = number
        return number

    def ends(self, answers: Set[int]) -> Iterator[tuple[int, int]]:
        """Yield the end of each path, with the number of answers that no earlier path holds.

        The last line comes first, then the ends of other paths that hold such an answer.

        Args:
            answers: numbers of the lines that hold an answer.
        """
        lines = range(len(self._before))
        followed = {self._before[number] for number in lines if self._named[number]}
        left = (number for number in lines if self._named[number] and number not in followed and number != self._last)
        covered = bytearray(len(self._before))
        for end in (self._last, *left):
            line, own = end, 0
            while line >= 0 and not covered[line]:
                covered[line] = 1
                own += line in answers
                line = self._before[line]
            if own or end == self._last:
                yield end, own

    def path(self, end: int) -> bytearray:
        """Flag the lines on the path to an end, one byte per line."""
        path, line = bytearray(len(self._before)), end
        while line >= 0:
            path[line] = 1
            line = self._before[line]
        for number, before in enumerate(self._before):
            if not self._named[number]:
                path[number] = before < 0 or path[before]
        return path
