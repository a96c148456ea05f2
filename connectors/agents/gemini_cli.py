"""Gemini CLI sessions (`~/.gemini/tmp/<project>/chats/session-*.json`, newer ones `.jsonl`).

>>> show(GeminiCli(), '''
... {"sessionId": "0b0b", "projectHash": "f53b", "messages": [
...     {"id": "m-1", "timestamp": "2026-01-05T10:00:00.001Z", "type": "user", "content": "Which files are there?"},
...     {"id": "m-2", "timestamp": "2026-01-05T10:00:02.000Z", "type": "gemini", "content": "", "toolCalls": [
...         {"id": "s1", "name": "run_shell_command", "args": {"command": "ls"}, "status": "success",
...          "result": [{"functionResponse": {"name": "run_shell_command", "response": {"output": "notes.txt"}}}]}]}]}
... ''')
action  | {"name": "run_shell_command", "arguments": {"command": "ls"}}
after   | notes.txt

The main trajectory of a session is the final state of the conversation. What a rewind cut off becomes a trajectory of
relation `branch`, the whole conversation up to the rewind, if an answered call was cut off. Calls of one message that
were recorded together are one turn; those recorded later are the next turn. A compression does not end a trajectory.
The session of a sub-agent is a file of its own, in a folder named after the id of the session that started it
(`chats/<session>/<id>.jsonl`). It is read together with that session, and its parent step is the call whose record has
its id.

Rejected: damaged lines and messages. Left out without a reject: token counts, display forms and tool descriptions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.gemini_messages import Message, Rendering, Replay
from trajmill.connectors.agents.session_files import Session, read_sessions, session_logs
from trajmill.connectors.connector import Answers, Blob, Connector, Sniff
from trajmill.connectors.conversation.steps import course, mark_dangling, mark_turns
from trajmill.connectors.conversation.turns import Turn
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.reading.values import BOM
from trajmill.schemas import Agent, Environment, ParseError, Reject, Task, Trajectory

BRANCHES: Final = 64
"""Largest number of paths cut by rewinds that are kept. It is bounded because each path repeats its beginning."""

_ID: Final = re.compile(rb'"sessionId"\s*:\s*"([^"\\]*)"')
_PROJECT: Final = re.compile(rb'"projectHash"\s*:\s*"')
_COMMON: Final = frozenset(
    hashlib.sha256(folder.encode()).hexdigest()
    for folder in (
        *("/", "/app", "/workspace", "/testbed", "/repo", "/code", "/src", "/project"),
        *("/home/user", "/home/agent", "/home/ubuntu", "/workspace/repo", "/usr/src/app"),
    )
)
"""Hashes of folders that any container may use. Projects are named by the hash of their folder."""


class GeminiCli(Connector):
    """Session logs of the Gemini command line client, as one document or as lines."""

    name: ClassVar[str] = "gemini_cli"
    version: ClassVar[str] = "8"
    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    title: ClassVar[str] = "Gemini CLI session log (JSON or JSONL)"
    asked_by = "gemini_cli"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        start = head[:4096].removeprefix(BOM).lstrip()
        if start.startswith(b"{") and _ID.search(start) and _PROJECT.search(start):
            return Sniff(0.95, "it begins with the sessionId and projectHash of a Gemini session")
        return None

    def answers(self, own: Sequence[str], every: Sequence[str], asking: Iterator[tuple[str, Blob]]) -> Answers:
        """Return the sessions that have sub-agents."""
        return Answers(tuple(session_logs([_session(path, blob, "") for path, blob in asking])))

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        yield from read_sessions(blob, self.name, _session, self._read)

    def _read(self, blob: Blob, member: str, started: dict[str, int]) -> Iterator[Trajectory | Reject]:
        replay = Replay(blob.uri, member)
        if _is_document(blob, member):
            _read_document(blob, member, replay)
            yield from self._rejects(replay)
        else:
            for offset, line in json_lines(blob, member):
                if isinstance(line, ParseError):
                    yield Reject.of(line, "record", self.name)
                    continue
                replay.line(offset, line)
                yield from self._rejects(replay)
        rendering = Rendering(blob.uri, member)
        trajectories = list(_trajectories(replay, rendering))
        for error in rendering.errors:
            yield Reject.of(error, "record", self.name)
        if not trajectories:
            raise ParseError(blob.uri, -1, "no_transitions", "no message of the session holds a call", member)
        agents = {
            key: call_record.get("agentId")
            for message in replay.messages.values()
            for key, call_record in message.calls.items()
        }
        for number, step in enumerate(trajectories[0].steps):
            if isinstance(agent := agents.get(step.action.call_id or ""), str):
                started[agent] = number
        yield from trajectories[: BRANCHES + 1]
        for trajectory in trajectories[BRANCHES + 1 :]:
            detail = f"a session with more than {BRANCHES} rewound paths"
            rows, offset = len(trajectory.steps), trajectory.steps[-1].offset
            yield Reject(
                "trajectory", "too_many_branches", detail, blob.uri, member, offset, self.name, transitions=rows
            )

    def _rejects(self, replay: Replay) -> Iterator[Reject]:
        for error in replay.errors:
            yield Reject.of(error, "record", self.name)
        replay.errors.clear()


def _session(path: str, blob: Blob, member: str) -> Session:
    """Return the session of a file, from its beginning and the name of its folder."""
    with blob.open(member) as stream:
        match = _ID.search(stream.read(4096))
    return Session(
        path, match[1].decode("utf-8", "replace") if match else "", path.rpartition("/")[0].rpartition("/")[2]
    )


def _is_document(blob: Blob, member: str) -> bool:
    """Return True if the log is one document spread over several lines, judged by its first line."""
    with blob.open(member) as stream:
        first = stream.readline(4096).removeprefix(BOM).rstrip()
    return first.startswith(b"{") and first.endswith((b"{", b",", b"["))


def _read_document(blob: Blob, member: str, replay: Replay) -> None:
    """Replay a session that is one document.

    Raises:
        ParseError: the document is no JSON, or no session.
    """
    document, data = json_document(blob, member)
    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list):
        raise ParseError(blob.uri, 0, "bad_session", "wanted an object with a list of messages", member)
    replay.line(0, {**document, "messages": []})
    position = 0
    for message in messages:
        # a message begins before its id; a message without an id gets the position of the message before it
        key = message.get("id") if isinstance(message, dict) else None
        if (
            isinstance(key, str)
            and key.isascii()
            and (key_begin := data.find(f'"{key}"'.encode(), position)) > position
        ):
            position = key_begin
        replay.message(max(data.rfind(b"{", 0, position), 0), message)


def _trajectories(replay: Replay, rendering: Rendering) -> Iterator[Trajectory]:
    """Yield the main trajectory, then the trajectories that rewinds cut off, in the order of the log."""
    paths = [list(replay.messages.values()), *replay.paths]
    written: list[Message] | None = None
    ends: dict[int, int] = {}
    session = replay.meta.get("sessionId")
    main = session if isinstance(session, str) and session else "session"
    for number, path in enumerate(paths):
        groups = [rendering.items(message) for message in path]
        items = [item for group in groups for item in group]
        if not any(isinstance(item, Turn) and item.calls for item in items):
            continue
        mark_turns(items)
        outline = course(items)
        mark_dangling(outline.steps)
        shared = 0
        if written is None:
            written = path
            for message, group in zip(path, groups, strict=True) if replay.paths else ():
                marks = [item.mark for item in group if isinstance(item, Turn)]
                ends[id(message)] = max((outline.ends.get(mark, 0) for mark in marks if mark is not None), default=0)
        else:
            shared = next((i for i, (a, b) in enumerate(zip(path, written, strict=False)) if a is not b), len(path))
        is_main = written is path
        branched = not is_main and shared > 0
        step = max((ends.get(id(path_message), 0) for path_message in path[:shared]), default=0) - 1
        yield Trajectory(
            native_id=main if is_main else f"{main}/rewound-{number}",
            domain=rendering.domain(step.action.name for step in outline.steps),
            steps=outline.steps,
            environment=Environment(instance_id=_instance(replay.meta)),
            agent=Agent("gemini-cli", None, rendering.model),
            task=Task(instruction=outline.instruction),
            parent=None if is_main else main,
            parent_step=step if branched and step >= 0 else None,
            relation="subagent" if is_main and replay.meta.get("kind") == "subagent" else None if is_main else "branch",
        )


def _instance(meta: dict[str, Any]) -> str | None:
    project = meta.get("projectHash")
    return project if isinstance(project, str) and project and project not in _COMMON else None
