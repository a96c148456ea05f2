"""Sessions of coding agents as JSON Lines: what is the same whichever client wrote them.

A client's connector is a dialect: it says what a line holds as parts of a conversation (`parts`), and, where its lines
tell, which line it follows (`link`) and which call started the sub-agent that it is of (`thread`). A session's main
trajectory is the path to its last line. A path that was left for another is a trajectory of relation `branch` if it
holds an answered call that no earlier path holds; it repeats the beginning that it shares. A sub-agent's lines are a
trajectory of relation `subagent`, and its parent step is the call that started it.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector
from trajmill.connectors.conversation.calls import MessageError
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


@dataclass(slots=True)
class Facts:
    """What the lines of a session told so far beside what was said and done.

    Attributes:
        id, cwd, version, model: of the session, its folder, its client and its language model.
        tools: definitions of the tools, as JSON text.
        names: the tool of each call, by the call's id.
        mcp: tools that a server of the Model Context Protocol gave.
        thought: the last reasoning that a line of its own told.
        waiting: tools of the open calls, where answers name no call.
    """

    id: str | None = None
    cwd: str | None = None
    version: str | None = None
    model: str | None = None
    tools: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    mcp: set[str] = field(default_factory=set)
    thought: str | None = None
    waiting: list[str] = field(default_factory=list)


class AgentSession(Connector):
    """A dialect of such sessions.

    Attributes:
        agent: the client's name.
        own: tools that harness, user or sub-agents answer.
        searches: tools that search.
        shells: tools that run commands.
        ending: what stands behind the output of a command, or before it, with its exit code as the only group that matches.
    """

    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    agent: ClassVar[str]
    own: ClassVar[frozenset[str]] = frozenset()
    searches: ClassVar[frozenset[str]] = frozenset()
    shells: ClassVar[frozenset[str]] = frozenset()
    ending: ClassVar[re.Pattern[str]] = re.compile(r"(?!)")

    @abstractmethod
    def parts(self, line: dict[str, Any], offset: int, facts: Facts) -> Iterable[Part] | None:
        """The parts of a line, which fills in the facts too; None if its type is not known.

        Raises:
            MessageError: it is not what its type says.
        """

    def link(self, line: dict[str, Any]) -> tuple[str | None, Any] | None:  # noqa: ARG002
        """Id of the line and of the one that it follows; None where the order of the log tells."""
        return None

    def thread(self, line: dict[str, Any]) -> str | None:  # noqa: ARG002
        """Id of the call that started the sub-agent that the line is of."""
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        facts = Facts()
        entries: Pile[tuple[int, str | None, Part]] = Pile(packed, unpacked)
        tree = _Tree()
        unknown: set[str] = set()
        end = 0
        for offset, line in json_lines(blob):
            try:
                if isinstance(line, ParseError):
                    raise line
                if not isinstance(line, dict):
                    raise MessageError("not_an_object", f"wanted a JSON object, met {type(line).__name__}")
                number = tree.add(self.link(line))
                found = self.parts(line, offset, facts)
                kind = brief(line.get("type") or line.get("role"))
                if found is None and kind not in unknown:
                    unknown.add(kind)
                    raise MessageError("unknown_type", f"a line of type {kind}; further ones in this log are not told")
                thread = self.thread(line)
                for part in list(found or ()):
                    entries.append((number, thread, self._settled(part, facts)), _PART_BYTES + offset - end)
                    end = offset
            except ParseError as error:
                yield Reject.of(error, "record", self.name)
            except MessageError as error:
                yield Reject("record", error.reason, error.detail, blob.uri, offset=offset, connector=self.name)
        yield from self._trajectories(blob, entries, tree, facts)

    def _settled(self, part: Part, facts: Facts) -> Part:
        """The part, of which a result of a command tells its exit code apart from its output."""
        if isinstance(part, Call) and part.call_id is not None:
            facts.names[part.call_id] = part.name
        if isinstance(part, Result) and (part.name or facts.names.get(part.call_id or "")) in self.shells:
            text, code = ended(part.content, self.ending)
            return replace(part, content=text, exit_code=code if part.exit_code is None else part.exit_code)
        return part

    def _trajectories(
        self, blob: Blob, entries: Pile[tuple[int, str | None, Part]], tree: _Tree, facts: Facts
    ) -> Iterator[Trajectory | Reject]:
        main: Trajectory | None = None
        acted = False
        seen: set[int] = set()
        for number, path in enumerate(tree.paths()):
            made = conversation(unpacked(packed(part)) for n, thread, part in entries if thread is None and path[n])
            if number == 0:
                yield from (unmatched(blob.uri, self.name, one) for one in made.unmatched)
            answered = {step.offset for step in made.steps if is_answered_call(step)}
            if not made.calls or (number > 0 and answered <= seen):
                continue
            if len(answered - seen) and number > BRANCHES:
                detail, rows = f"a session with more than {BRANCHES} paths that were left", len(made.steps)
                yield Reject("trajectory", "too_many_branches", detail, blob.uri, connector=self.name, transitions=rows)
                continue
            seen |= answered
            acted = True
            one = self.trajectory(made, facts)
            if main is None or number == 0:
                main = one
            else:
                shared = sum(a.offset == b.offset for a, b in zip(made.steps, main.steps, strict=False))
                step = shared - 1 if shared else None
                one = replace(
                    one,
                    native_id=f"{main.native_id}/left-{number}",
                    parent=main.native_id,
                    parent_step=step,
                    relation="branch",
                )
            yield one
        steps = {step.action.call_id: place for place, step in enumerate(main.steps)} if main is not None else {}
        for name in dict.fromkeys(thread for _, thread, _ in entries if thread is not None):
            made = conversation(unpacked(packed(part)) for _, thread, part in entries if thread == name)
            yield from (unmatched(blob.uri, self.name, one) for one in made.unmatched)
            if made.calls:
                acted = True
                one = self.trajectory(made, facts)
                parent = main.native_id if main is not None else None
                yield replace(
                    one,
                    native_id=f"{one.native_id}/{name}",
                    parent=parent,
                    parent_step=steps.get(name),
                    relation="subagent",
                )
        if not acted:
            raise ParseError(blob.uri, -1, "no_transitions", "no message of the session holds a call")

    def trajectory(self, made: Conversation, facts: Facts) -> Trajectory:
        """The trajectory of a conversation that has calls."""
        mark_dangling(made.steps)
        return Trajectory(
            native_id=facts.id or "session",
            domain=domain_of(
                (step.action.name for step in made.steps), self.own, self.searches, lambda name: is_mcp(name, facts)
            ),
            steps=made.steps,
            environment=Environment(instance_id=checkout(facts.cwd)),
            agent=Agent(self.agent, facts.version, facts.model),
            task=Task(instruction=made.instruction),
            context=Context(action_space=facts.tools, agent_system=made.system),
        )


def is_mcp(name: str, facts: Facts) -> bool:
    """Whether a server of the Model Context Protocol gave the tool."""
    return name in facts.mcp or name.startswith(MCP_PREFIX)


def ended(text: str | None, ending: re.Pattern[str]) -> tuple[str | None, int | None]:
    """The output of a command without the words of the harness behind it, and the exit code that these name."""
    found = ending.search(text or "")
    if text is None or found is None:
        return text, None
    code = found[found.lastindex] if found.lastindex else None
    return text[: found.start()] + text[found.end() :], int(code) if code else None


def fact(value: Any, known: str | None) -> str | None:
    """What is known of a fact: the first text that a line tells."""
    return known or str_of(value) or None


class _Tree:
    """Which line follows which."""

    def __init__(self) -> None:
        self._by_id: dict[str, int] = {}
        self._before = array("q")

    def add(self, link: tuple[str | None, Any] | None) -> int:
        """Adds a line, and gives its number; one that names no known line follows the one before it in the log."""
        number = len(self._before)
        key, parent = link if link is not None else (None, "")
        is_root = key is not None and parent is None
        self._before.append(-1 if is_root else self._by_id.get(str_of(parent), number - 1))
        if key is not None:
            self._by_id.setdefault(key, number)
        return number

    def paths(self) -> Iterator[bytearray]:
        """The lines of each path, as a flag a line: first that of the last line, then those to other ends."""
        followed = {before for number, before in enumerate(self._before)}
        last = len(self._before) - 1
        for end in (last, *(number for number in range(last) if number not in followed)):
            path = bytearray(len(self._before))
            while end >= 0:
                path[end] = 1
                end = self._before[end]
            yield path
