r"""Claude Code session logs: `~/.claude/projects/<folder>/<session>.jsonl`, one JSON object per line, and web exports.

>>> show(ClaudeCode(), '''
... {"type": "user", "uuid": "u1", "parentUuid": null, "sessionId": "s", "cwd": "/w", "version": "2.1.173", \
...  "message": {"role": "user", "content": "Which files are there?"}}
... {"type": "assistant", "uuid": "a1", "parentUuid": "u1", "sessionId": "s", "cwd": "/w", "version": "2.1.173", \
...  "message": {"id": "msg_1", "role": "assistant", "content": [ \
...   {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]}}
... {"type": "user", "uuid": "u2", "parentUuid": "a1", "sessionId": "s", "cwd": "/w", "version": "2.1.173", \
...  "message": {"role": "user", "content": [ \
...   {"type": "tool_result", "tool_use_id": "toolu_1", "content": "notes.txt"}]}}
... ''')
action  | {"name": "Bash", "arguments": {"command": "ls"}}
after   | notes.txt

Sessions of the web client are exported as one object of such lines, `{"loglines": […]}`. These lines have no ids, so
each follows the one before it.

>>> show(ClaudeCode(), '''
... {"loglines": [
...   {"type": "user", "timestamp": "2025-12-24T10:00:00Z", "message": {"role": "user", "content": "Which files?"}},
...   {"type": "assistant", "timestamp": "2025-12-24T10:00:05Z", "message": {"role": "assistant", "content": [
...     {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]}},
...   {"type": "user", "timestamp": "2025-12-24T10:00:10Z", "message": {"role": "user", "content": [
...     {"type": "tool_result", "tool_use_id": "toolu_1", "content": "notes.txt", "is_error": false}]}}]}
... ''')
action  | {"name": "Bash", "arguments": {"command": "ls"}}
after   | notes.txt

The events that `claude -p` prints (`--output-format stream-json`, or `json` with `--verbose`) have no chain either.
They hold no prompt, unless the client was told to repeat it.

>>> show(ClaudeCode(), '''
... {"type": "assistant", "session_id": "s", "parent_tool_use_id": null, "message": {"role": "assistant", "content": [ \
...   {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]}}
... {"type": "user", "session_id": "s", "parent_tool_use_id": null, "message": {"role": "user", "content": [ \
...   {"type": "tool_result", "tool_use_id": "toolu_1", "content": "notes.txt"}]}}
... ''')
action  | {"name": "Bash", "arguments": {"command": "ls"}}
after   | notes.txt

Each line of a session log names the line before it (`parentUuid`), so a session is a tree, and every leaf is the end of
a path from its root. The path to the last leaf in the log is the session's main trajectory. The path to another leaf is
a trajectory of relation `branch` if it holds an answered call that no earlier branch holds. It repeats the shared
beginning, and judging removes the loss from repeated steps. The lines of a sub-agent (`isSidechain`), which may be in
files of their own (see `files`), are a trajectory of relation `subagent`. Its parent is the step that started it, if
the agent's id or its prompt identifies that step. Order: sessions with their branches, then sub-agents.

A branch that ends within a call, because it was interrupted or the log was cut, is truncated there. A compaction does
not end a trajectory: its summary is an interleaved text of role `compaction`. Several files of one session are not
joined.

Rejected: branches and sessions without an answered call. Left out without a reject, since they record nothing of the
trajectory: bookkeeping lines (titles, snapshots, progress, hooks, attachments other than queued prompts, summaries of
other sessions).
"""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.claude_code.branches import Branch, Family, tree
from trajmill.connectors.agents.claude_code.entry import Result
from trajmill.connectors.agents.claude_code.files import log_members, session_logs
from trajmill.connectors.agents.claude_code.kept import EntryStore, unpack
from trajmill.connectors.agents.claude_code.lines import BOOKKEEPING, entries, is_event_array, is_export
from trajmill.connectors.agents.claude_code.nodes import Nodes
from trajmill.connectors.agents.claude_code.steps import Course, course, domain
from trajmill.connectors.connector import Answers, Blob, Connector, Sniff
from trajmill.connectors.conversation.steps import mark_dangling
from trajmill.connectors.conversation.tools import checkout
from trajmill.connectors.reading.documents import head_object
from trajmill.schemas import Agent, Environment, ParseError, Reject, Task, Trajectory

BRANCHES: Final = 64
"""Largest number of branches kept per conversation; it is bounded because each repeats its path from the root."""

_SNIFFED_LINES: Final = 64

_OTHERS: Final = re.compile(rb'"qwen_code_version"|"session_id"\s*:\s*"T-')
"""Qwen Code and Amp, whose sessions are named `T-`, print the same events."""


class ClaudeCode(Connector):
    """Session logs of the Claude Code command line client, versions 1.0 to 2.1."""

    name: ClassVar[str] = "claude_code"
    version: ClassVar[str] = "16"
    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    title: ClassVar[str] = "Claude Code session log (JSONL), export of the web client (JSON), stream-json"
    asked_by = "claude_code"
    companions = re.compile(r"[^/]*/tool-results/.*|memory/[^/]*\.md|(?:[^/]*/)?subagents/[^/]*\.meta\.json")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if is_export(head) and b'"message"' in head and b'"role"' in head:
            return Sniff(0.95, "an object of loglines, as the web client exports a session")
        if is_event_array(head) and b'"session_id"' in head:
            return Sniff(0.9, "an array of events that begins with the start of a session")
        books = None
        lines = head.split(b"\n", _SNIFFED_LINES)
        for number, data in enumerate(lines[:_SNIFFED_LINES], 1):
            line = head_object(data)
            if line is None:
                if number == len(lines) and data[:1] == b"{" and b'"parentUuid"' in data and b'"sessionId"' in data:
                    return Sniff(0.8, f"line {number}, longer than the head, has parentUuid and sessionId")
                continue
            kind = line.get("type")
            if kind in ("user", "assistant") and "message" in line and "sessionId" in line and "parentUuid" in line:
                return Sniff(0.95, f"line {number} is a {kind} message with parentUuid and sessionId")
            if kind in ("user", "assistant") and {"message", "session_id", "parent_tool_use_id"} <= line.keys():
                return None if _OTHERS.search(head) else Sniff(0.95, f"line {number} is a {kind} event")
            if books is None and _keeps_books(line, kind):
                books = Sniff(0.8, f"line {number} is a {kind} line of Claude Code")
        return books

    def answers(self, own: Sequence[str], every: Sequence[str], asking: Iterator[tuple[str, Blob]]) -> Answers:
        """Return the sessions that keep sub-agents or answers in files of their own."""
        return Answers(tuple(session_logs(own, asking)))

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        store = EntryStore()
        for member in log_members(blob):
            store.begin(member)
            for entry in entries(blob, member, store.seen, len(store)):
                if isinstance(entry, ParseError):
                    yield Reject.of(entry, "record", self.name)
                else:
                    store.add(entry)
        if not store.acts and not store.results:
            raise _idle(blob)
        grown = tree(store)
        for number, repeated in grown.unmatched:
            member = store.member(unpack(number)[0])
            yield self._reject_unmatched(blob, member, grown.nodes.result(number), repeated)
        writing = _Writing(grown.nodes)
        refused = []
        empty = True
        for family in grown.families:
            for branch in family.branches:
                refusal = writing.refusal(family, branch)
                if refusal is None:
                    empty = False
                    yield writing.trajectory(family, branch)
                else:
                    refused.append(self._refused(blob, grown.nodes, family, branch, *refusal))
        if empty:
            raise _idle(blob)
        yield from refused

    def _reject_unmatched(self, blob: Blob, member: str, result: Result, repeated: bool) -> Reject:
        reason, detail = "result_without_call", f"no call has the id {result.call_id:.80}"
        if repeated:
            reason, detail = "result_repeated", f"call {result.call_id:.80} was answered otherwise before"
        error = ParseError(
            blob.uri, result.offset, reason, detail, member, (result.content or "")[:1024].encode("utf-8", "replace")
        )
        return Reject.of(error, "record", self.name)

    def _refused(self, blob: Blob, nodes: Nodes, family: Family, branch: Branch, reason: str, detail: str) -> Reject:
        rows = sum(1 for node in branch.own for _ in nodes.calls_of(node))
        where = f"{detail} (session {family.session:.80})"
        first = nodes.firsts[branch.turn]
        location = nodes.kept.member(first), nodes.kept[first].offset
        return Reject("trajectory", reason, where, blob.uri, *location, self.name, transitions=rows)


def _idle(blob: Blob) -> ParseError:
    return ParseError(blob.uri, -1, "no_transitions", "no line of the log holds a tool call")


def _keeps_books(line: dict[str, Any], kind: object) -> bool:
    """Return True if only Claude Code writes such lines, although they hold no message."""
    if kind == "summary":
        return isinstance(line.get("leafUuid"), str)
    if kind == "file-history-snapshot":
        return "snapshot" in line
    return isinstance(kind, str) and kind in BOOKKEEPING and isinstance(line.get("sessionId"), str)


class _Writing:
    """Builder of the trajectories of one log, in order, with the facts of earlier ones that later ones need."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._written: dict[str, int] = {}
        self._names: list[str] = []
        self._written_in = array("i", [-1]) * len(nodes)
        self._ends = array("i", [-1]) * len(nodes)
        self._by_agent: dict[str, tuple[str, int]] = {}
        self._by_prompt: dict[str, deque[tuple[str, int]]] = {}

    def refusal(self, family: Family, branch: Branch) -> tuple[str, str] | None:
        """Return the reason and the detail of a branch's rejection; None if the branch is kept."""
        if not self._nodes.acts[branch.turn]:
            return "no_calls", "a conversation without a tool call"
        earlier = self._written.get(_name(family), 0)
        if earlier > BRANCHES:
            return "too_many_branches", f"a conversation with more than {BRANCHES} branches"
        shares = earlier > 0 or self._fork(branch) is not None
        nodes = self._nodes
        if shares and all(nodes.answers[call] < 0 for node in branch.own for call in nodes.calls_of(node)):
            return "branch_without_answer", "a branch without an answered call of its own"
        return None

    def trajectory(self, family: Family, branch: Branch) -> Trajectory:
        """Build the trajectory of a branch that is kept."""
        nodes = self._nodes
        path = nodes.path(branch.end)
        outline = course(nodes, path)
        mark_dangling(outline.steps)
        main, fork = _name(family), self._fork(branch)
        first = main not in self._written
        native_id = main if first else f"{main}/{self._leaf(branch)}"
        parent, step, relation = self._origin(family, outline.instruction, None if first else main, fork)
        self._written[main] = self._written.get(main, 0) + 1
        self._remember(native_id, outline)

        cwd, version, model = self._told(path)
        return Trajectory(
            native_id=native_id,
            domain=domain(outline.steps),
            steps=outline.steps,
            environment=Environment(instance_id=checkout(cwd)),
            agent=Agent("claude-code", version, model),
            task=Task(instruction=outline.instruction),
            parent=parent,
            parent_step=step,
            relation=relation,
        )

    def _told(self, path: Sequence[int]) -> tuple[str | None, str | None, str | None]:
        """Return the first working folder, client version and model stated on the path."""
        store = self._nodes.kept
        cwd = version = model = None
        for position in (position for node in path for position in self._nodes.entries(node)):
            setting = store.setting(position)
            cwd, version = cwd or setting.cwd, version or setting.version
            model = model or store[position].model
            if cwd and version and model:
                break
        return cwd or None, version or None, model or None

    def _leaf(self, branch: Branch) -> str | int:
        """Return the id of the last line of the branch's last turn, or that turn's offset if the line has no id."""
        nodes = self._nodes
        last = nodes.kept[nodes.tails[branch.turn]].uuid
        return last or nodes.kept[nodes.firsts[branch.turn]].offset

    def _fork(self, branch: Branch) -> tuple[str, int] | None:
        """Return the native id and step of the earlier trajectory that the branch forks from; None without one."""
        node = self._nodes.parents[branch.own[0]] if branch.own else branch.turn
        while node >= 0 and self._written_in[node] < 0:
            node = self._nodes.parents[node]
        return None if node < 0 else (self._names[self._written_in[node]], self._ends[node])

    def _origin(
        self, family: Family, instruction: str | None, main: str | None, fork: tuple[str, int] | None
    ) -> tuple[str | None, int | None, str | None]:
        """Return the parent, its step and the relation to it; `main` is None for the first branch of a conversation."""
        if fork is not None:
            return *fork, "branch"
        if main is not None:
            return main, None, "branch"
        if family.agent is None:
            return None, None, None
        start = self._by_agent.get(family.agent)
        waiting = self._by_prompt.get(instruction or "")
        if start is None and waiting:
            start = waiting.popleft()
        if start is not None:
            return *start, "subagent"
        return family.session if family.session in self._written else None, None, "subagent"

    def _remember(self, native_id: str, outline: Course) -> None:
        """Record where each turn ends and which sub-agents it started, except turns of an earlier trajectory."""
        before = -1
        known = True
        self._names.append(native_id)
        for node, step in zip(outline.turns, outline.ends, strict=True):
            known = known and self._written_in[node] >= 0
            if known:
                before = step
            else:
                self._written_in[node], self._ends[node] = len(self._names) - 1, step
        for start in outline.started:
            if start.step <= before:
                continue
            if start.agent_id is not None:
                self._by_agent.setdefault(start.agent_id, (native_id, start.step))
            else:
                self._by_prompt.setdefault(start.prompt, deque()).append((native_id, start.step))


def _name(family: Family) -> str:
    return family.session if family.agent is None else f"{family.session}/{family.agent}"
