r"""Codex CLI rollouts (`~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<uuid>.jsonl`), one JSON object per line.

>>> show(Codex(), '''
... {"type": "session_meta", "payload": {"id": "0190", "cwd": "/app", "cli_version": "0.120.0"}}
... {"type": "response_item", "payload": {"type": "function_call", "name": "exec_command", \
...  "arguments": "{\\"cmd\\": \\"ls\\"}", "call_id": "d1"}}
... {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "d1", "output": "notes.txt"}}
... ''')
action  | {"name": "exec_command", "arguments": {"cmd": "ls"}}
after   | notes.txt

A rollout is one trajectory, in the order of its lines. A compaction does not end it: its summary is an interleaved text
of role `compaction`. A rollback of the conversation does not end it either, since the effects of the dropped turns on
the files remain. The system prompt is the rollout's `base_instructions`, before version 0.5x its `instructions`. A log
that ends within a call, or in an aborted turn, is truncated there. Files of one session that was resumed or forked are
not joined. A sub-agent's rollout names the thread that started it. It is read together with the rollout of that thread,
and its parent step is the call that was answered by its id.

Rejected: results without a call and unknown items. Left out without a reject: events (every text is also in an item),
encrypted reasoning, snapshots, and thoughts after which the agent was interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.codex.items import ITEMS, Reader
from trajmill.connectors.agents.codex_texts import SEARCHES, domain
from trajmill.connectors.agents.session_files import Session, read_sessions, session_logs
from trajmill.connectors.connector import HEAD_BYTES, Answers, Blob, Connector, Sniff
from trajmill.connectors.conversation.steps import course, mark_dangling
from trajmill.connectors.conversation.tools import checkout
from trajmill.connectors.reading.documents import head_object
from trajmill.connectors.reading.fields import plain_text, text_in
from trajmill.connectors.reading.lines import json_lines
from trajmill.schemas import Agent, Context, Environment, ParseError, Reject, Task, Trajectory

_LINES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_SNIFFED_LINES: Final = 8
_STARTED: Final = re.compile(r'"agent_id"\s*:\s*"([^"]+)"')
"""The sub-agent's id in the answer of the call that started it."""


class Codex(Connector):
    """Rollouts of the Codex command line client and its editor extension, versions 0.2 to 0.14x."""

    name: ClassVar[str] = "codex"
    version: ClassVar[str] = "14"
    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    title: ClassVar[str] = "Codex CLI rollout (JSONL)"
    asked_by = "codex"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        lines = head.split(b"\n", _SNIFFED_LINES)
        first = head_object(lines[0])
        if first is None:
            if len(lines) == 1 and head.startswith(b'{"timestamp":"') and b'"type":"session_meta","payload":{' in head:
                return Sniff(0.9, "line 1, longer than the head, is a session_meta")
            return None
        kind, payload = first.get("type"), first.get("payload")
        if isinstance(payload, dict) and isinstance(kind, str) and kind in _LINES and "timestamp" in first:
            if kind == "session_meta":
                return Sniff(0.95, "line 1 is the session_meta of a Codex rollout")
            return Sniff(0.8, f"line 1 is a {kind} of a Codex rollout")
        if kind is None and isinstance(first.get("id"), str) and "timestamp" in first and "instructions" in first:
            for line in map(head_object, lines[1:_SNIFFED_LINES]):
                if line is not None and ("record_type" in line or plain_text(line.get("type")) in ITEMS):
                    return Sniff(0.8, "line 1 is the head of an early Codex rollout, and items follow")
        return None

    def answers(self, own: Sequence[str], every: Sequence[str], asking: Iterator[tuple[str, Blob]]) -> Answers:
        """Return the rollouts whose sub-agents have rollouts of their own."""
        return Answers(tuple(session_logs([_session(path, blob, "") for path, blob in asking])))

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        yield from read_sessions(blob, self.name, _session, self._read)

    def _read(self, blob: Blob, member: str, started: dict[str, int]) -> Iterator[Trajectory | Reject]:
        reader = Reader(blob.uri, member)
        end = 0
        for offset, line in json_lines(blob, member):
            reader.items.grow(offset - end)
            end = offset
            if isinstance(line, ParseError):
                yield Reject.of(line, "record", self.name)
                continue
            reader.line(offset, line)
            if reader.errors:
                for error in reader.errors:
                    yield Reject.of(error, "record", self.name)
                reader.errors.clear()
        outline = course(reader.items)
        names = {(step.action.name, step.action.call_id is not None) for step in outline.steps}
        if names <= {("message", False)}:
            raise ParseError(blob.uri, -1, "no_transitions", "no line of the log holds a call", member)
        mark_dangling(outline.steps, SEARCHES)
        if reader.interrupted:
            outline.steps[-1] = replace(outline.steps[-1], truncated=True)
        meta = reader.meta
        for number, step in enumerate(outline.steps):
            answer = step.next_observation if step.action.name == "spawn_agent" else None
            if answer is not None and (agent := _STARTED.search(answer.content or "")):
                started[agent[1]] = number
        yield Trajectory(
            native_id=text_in(meta, "id") or "",
            domain=domain(name for name, _ in names),
            steps=outline.steps,
            environment=_environment(meta),
            agent=Agent("codex", text_in(meta, "cli_version"), reader.model),
            task=Task(instruction=outline.instruction),
            context=Context(agent_system=_instructions(meta)),
            relation=_relation(meta),
        )


def _session(path: str, blob: Blob, member: str) -> Session:
    """Return the session of a rollout, read from its first line."""
    with blob.open(member) as stream:
        line = head_object(stream.read(HEAD_BYTES).split(b"\n", 1)[0]) or {}
    meta = line.get("payload")
    meta = meta if isinstance(meta, dict) else {}
    source = meta.get("source")
    subagent = source.get("subagent") if isinstance(source, dict) else None
    spawn = subagent.get("thread_spawn") if isinstance(subagent, dict) else None
    parent = text_in(spawn, "parent_thread_id") or text_in(meta, "parent_thread_id") or ""
    return Session(path, text_in(meta, "id") or "", parent)


def _environment(meta: dict[str, Any]) -> Environment:
    git = meta.get("git")
    return Environment(
        id=text_in(git, "repository_url"),
        instance_id=checkout(text_in(meta, "cwd")),
        version=text_in(git, "commit_hash"),
    )


def _instructions(meta: dict[str, Any]) -> str | None:
    return text_in(meta.get("base_instructions"), "text") or text_in(meta, "instructions")


def _relation(meta: dict[str, Any]) -> str | None:
    """Return the relation of the rollout to another rollout, which is in another file."""
    source = meta.get("source")
    if isinstance(source, dict) and "subagent" in source:
        return "subagent"
    return "branch" if text_in(meta, "forked_from_id") else None
