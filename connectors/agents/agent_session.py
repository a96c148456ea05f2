"""Sessions of coding agents as JSON Lines: what is the same whichever client wrote them.

A client's connector is a dialect: it says what a line holds as parts of a conversation (`parts`), and, where its lines
tell, which line it follows (`link`) and which call started the sub-agent that it is of (`thread`). A session's main
trajectory is the path to its last line. A path that was left for another is a trajectory of relation `branch` if it
holds an answered call that no earlier path holds; it repeats the beginning that it shares. A sub-agent's lines are a
trajectory of relation `subagent`, and its parent step is the call that started it.
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
from trajmill.connectors.conversation.refusals import unmatched
from trajmill.connectors.conversation.steps import is_answered_call, mark_dangling
from trajmill.connectors.conversation.tools import MCP_PREFIX, checkout, domain_of
from trajmill.connectors.conversation.turns import Call, Part, Result, packed, unpacked
from trajmill.connectors.reading.fields import brief, str_of
from trajmill.connectors.reading.lines import json_lines
from trajmill.schemas import Agent, Context, Environment, ParseError, Pile, Reject, Task, Trajectory

BRANCHES: Final = 64
"""Paths of one session beside its main one that are carried on; each repeats its beginning, so they are bounded."""

_PART_BYTES: Final = 512

_Entry = tuple[int, str | None, Part]
"""A part, before it the number of its line and the call that started the sub-agent that the line is of."""


@dataclass(slots=True)
class Facts:
    """Facts of a session that its lines have told so far, beside what was said and done.

    Attributes:
        id, cwd, version, model: of the session, its folder, its client and its language model.
        agent: the client's name, where the log tells it.
        tools: definitions of the tools, as JSON text.
        names: the tool of each call, by the call's id.
        mcp: tools that a server of the Model Context Protocol gave.
        thought: the last reasoning that a line of its own told.
        waiting: tools of the open calls, where answers name no call.
        started: the call that started each sub-agent with a file of its own, by the agent's name.
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
    started: dict[str, str] = field(default_factory=dict)


class _Told(NamedTuple):
    """A file, and the facts that it told."""

    member: str
    facts: Facts


class AgentSession(Connector):
    """A dialect of such sessions.

    Attributes:
        agent: the client's name.
    """

    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    agent: ClassVar[str]

    @abstractmethod
    def parts(self, line: dict[str, Any], offset: int, facts: Facts) -> Iterable[Part] | None:
        """The parts of a line, which fills in the facts too; None if its type is not known.

        Raises:
            MessageError: it is not what its type says.
        """

    def link(self, line: dict[str, Any]) -> tuple[str | None, Any] | None:
        """Id of the line and of the one that it follows; None where the order of the log tells."""
        return None

    def thread(self, line: dict[str, Any]) -> str | None:
        """Id of the call that started the sub-agent that the line is of."""
        return None

    def agents(self, members: Sequence[str]) -> list[tuple[str | None, str]]:
        """The files of a log: (None, the session's), then (the agent's name, file) of each sub-agent in its own."""
        return [(None, member) for member in members]

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        tree = _Tree()
        entries: Pile[_Entry] = Pile(packed, unpacked)
        told: dict[str | None, _Told] = {}
        for agent, member in self.agents(blob.members):
            thread = None if agent is None else told[None].facts.started.get(agent, agent)
            one = told[thread] = _Told(member, Facts())
            yield from self._read(blob, one, thread, entries, tree if agent is None else _Tree())
        yield from self._trajectories(blob, entries, tree, told)

    def _read(
        self, blob: Blob, told: _Told, thread: str | None, entries: Pile[_Entry], tree: _Tree
    ) -> Iterator[Reject]:
        """Reads the lines of a file into the entries, those of a sub-agent's under the call that started it."""
        member, facts = told
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

    def _entries(self, line: Any, offset: int, facts: Facts, tree: _Tree, unknown: set[str]) -> list[_Entry]:
        """The parts of a line, with its number and the sub-agent that it is of."""
        if not isinstance(line, dict):
            raise MessageError("not_an_object", f"wanted a JSON object, met {type(line).__name__}")
        number = tree.add(self.link(line))
        found = self.parts(line, offset, facts)
        kind = brief(line.get("type") or line.get("role"))
        if found is None and kind not in unknown:
            unknown.add(kind)
            raise MessageError("unknown_type", f"a line of type {kind}; further ones in this log are not told")
        thread, told = self.thread(line), [*(found or ())]
        facts.names |= {part.call_id: part.name for part in told if isinstance(part, Call) and part.call_id is not None}
        return [(number, thread, part) for part in told]

    def _trajectories(
        self, blob: Blob, entries: Pile[_Entry], tree: _Tree, told: Mapping[str | None, _Told]
    ) -> Iterator[Trajectory | Reject]:
        member, facts = told[None]
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
            lines = (unpacked(packed(part)) for n, thread, part in entries if thread is None and path[n])
            made = conversation(lines, member=member)
            if number == 0:
                yield from (unmatched(blob.uri, self.name, one, member) for one in made.unmatched)
            answered = {step.offset for step in made.steps if is_answered_call(step)}
            if not made.calls or (main is not None and answered <= seen):
                continue
            seen |= answered
            one = self.trajectory(made, facts)
            main, one = (one, one) if main is None else (main, _branch(one, main, number))
            yield one
        acted = main is not None
        for name in dict.fromkeys(thread for _, thread, _ in entries if thread is not None):
            member, facts = told.get(name, told[None])
            lines = (unpacked(packed(part)) for _, thread, part in entries if thread == name)
            made = conversation(lines, member=member)
            yield from (unmatched(blob.uri, self.name, one, member) for one in made.unmatched)
            if made.calls:
                acted = True
                yield _subagent(self.trajectory(made, facts), main, name)
        if not acted:
            raise ParseError(blob.uri, -1, "no_transitions", "no message of the session holds a call")

    def trajectory(self, made: Conversation, facts: Facts) -> Trajectory:
        """The trajectory of a conversation that has calls."""
        mark_dangling(made.steps)
        names = (step.action.name for step in made.steps)
        whole = Trajectory(
            native_id=facts.id or "session",
            domain=domain_of(names, "terminal", tools_of_others(self.agent), lambda name: is_mcp(name, facts)),
            steps=made.steps,
            environment=Environment(instance_id=checkout(facts.cwd)),
            agent=Agent(facts.agent or self.agent, facts.version, facts.model),
            task=Task(instruction=made.instruction),
            context=Context(action_space=facts.tools, agent_system=made.system),
        )
        return strip_forms(whole, self.agent)


def _branch(one: Trajectory, main: Trajectory, number: int) -> Trajectory:
    """A path that was left, as a branch of the main trajectory behind the steps that both share."""
    shared = sum(a.offset == b.offset for a, b in zip(one.steps, main.steps, strict=False))
    name, step = f"{main.native_id}/left-{number}", shared - 1 if shared else None
    return replace(one, native_id=name, parent=main.native_id, parent_step=step, relation="branch")


def _subagent(one: Trajectory, main: Trajectory | None, name: str) -> Trajectory:
    """Relate a sub-agent's trajectory to the step of the main one whose call, by its id, started it."""
    steps = main.steps if main is not None else ()
    step = next((place for place, step in enumerate(steps) if step.action.call_id == name), None)
    parent = main.native_id if main is not None else None
    return replace(
        one, native_id=f"{parent or one.native_id}/{name}", parent=parent, parent_step=step, relation="subagent"
    )


def is_mcp(name: str, facts: Facts) -> bool:
    """Tell tools that a server of the Model Context Protocol gave."""
    return name in facts.mcp or name.startswith(MCP_PREFIX)


def fact(value: Any, known: str | None) -> str | None:
    """Keep the first text that a line tells of a fact."""
    return known or str_of(value) or None


class _Tree:
    """The tree of lines; a line without an id goes with the last one that has one."""

    def __init__(self) -> None:
        self._by_id: dict[str, int] = {}
        self._before = array("q")
        self._named = bytearray()
        self._last = -1

    def add(self, link: tuple[str | None, Any] | None) -> int:
        """Adds a line, and gives its number; one that names no known line follows the last one that has an id."""
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
        """The end of each path, and how many of the answers no path before it holds.

        First that of the last line, then the others that hold such an answer.

        Args:
            answers: numbers of lines.
        """
        lines = range(len(self._before))
        followed = {self._before[number] for number in lines if self._named[number]}
        left = (number for number in lines if self._named[number] and number not in followed and number != self._last)
        covered = bytearray(len(self._before))
        for end in (self._last, *left):
            place, own = end, 0
            while place >= 0 and not covered[place]:
                covered[place] = 1
                own += place in answers
                place = self._before[place]
            if own or end == self._last:
                yield end, own

    def path(self, end: int) -> bytearray:
        """The lines of the path to an end, as a flag a line."""
        path, place = bytearray(len(self._before)), end
        while place >= 0:
            path[place] = 1
            place = self._before[place]
        for number, before in enumerate(self._before):
            if not self._named[number]:
                path[number] = before < 0 or path[before]
        return path
