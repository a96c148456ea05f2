r"""Event logs of Claude managed agents, one event per line; each thread of the session is a trajectory.

>>> show(ManagedAgent(), '''
... {"role": "agent", "kind": "tool_use", "tool": "bash", "content": "{\\"command\\": \\"ls\\"}", \
...  "raw": {"id": "sevt_1", "type": "agent.tool_use", "name": "bash", "input": {"command": "ls"}}}
... {"role": "agent", "kind": "tool_result", "content": "notes.txt", \
...  "raw": {"id": "sevt_2", "type": "agent.tool_result", "tool_use_id": "sevt_1", \
...   "content": [{"type": "text", "text": "notes.txt"}]}}
... ''')
action  | {"name": "bash", "arguments": {"command": "ls"}}
after   | notes.txt

A line is the export `{role, kind, tool?, content?, time, raw}` of an event of the sessions API, or that event itself
(`raw`): `{id, type, processed_at, …}` of type `agent.*`, `user.*`, `session.*` or `span.*`. The export's copies of the
event's fields (a call's arguments as JSON text, an answer as plain text) are read only if `raw` is missing. Answers are
matched to calls by id, or in order if they have none. A turn consists of the agent's actions between two requests to
the model, or, if the log does not hold the requests, up to the first answer.

Events with a `session_thread_id` belong to a sub-agent's thread, a trajectory of relation `subagent`. A grader's words
about the agent's work are a harness text for the agent, and the grader's last verdict is the outcome. A session that
ends with an interruption by the user is truncated. Left out without a reject: the bounds of requests, status and usage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.content import media_type, seen_text, shown
from trajmill.connectors.conversation.failures import is_failure
from trajmill.connectors.conversation.items import Items
from trajmill.connectors.conversation.steps import course, mark_dangling
from trajmill.connectors.conversation.tools import MCP_PREFIX, domain_of
from trajmill.connectors.conversation.turns import Call, Said, Turn, seconds_between
from trajmill.connectors.reading.documents import head_object
from trajmill.connectors.reading.fields import brief, plain_text, text_in
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.reading.times import microseconds
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import Agent, Observation, Outcome, ParseError, Reject, Task, Trajectory

_TYPE: Final = re.compile(r"(?:agent|user|session|span)\.[a-z_]{2,60}")
_BOOKS: Final = re.compile(r"(?:session|span|system)\.|agent\.thread_message_sent|user\.tool_confirmation")
_TOLD: Final = frozenset({"agent.thread_context_compacted", "agent.thread_message_received", "session.error"})
_CALLS: Final = frozenset({"agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"})
_ANSWERS: Final = frozenset({"agent.tool_result", "agent.mcp_tool_result", "user.custom_tool_result"})
_CALL_KEYS: Final = ("tool_use_id", "mcp_tool_use_id", "custom_tool_use_id")
_JUDGED: Final = {"satisfied": True, "needs_revision": False, "max_iterations_reached": False, "failed": False}
_ROLES: Final = frozenset({"agent", "system", "user"})
_EXPORTED: Final = frozenset({"message", "tool_use", "tool_result", "define_outcome", "model_request_start"})
_SNIFFED_LINES: Final = 8


class ManagedAgent(Connector):
    """Event logs of sessions of Claude managed agents."""

    name: ClassVar[str] = "managed_agent"
    version: ClassVar[str] = "7"
    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    title: ClassVar[str] = "Claude managed agent events (JSONL)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        lines = head.split(b"\n", _SNIFFED_LINES)
        for number, data in enumerate(lines[:_SNIFFED_LINES], 1):
            line = head_object(data)
            if line is None:
                if number == len(lines) and re.match(rb'\{"role":"\w+","kind":"\w+",.{0,200}"raw":\{', data, re.S):
                    return Sniff(0.85, f"line {number}, longer than the head, is an exported event")
                continue
            event = line.get("raw")
            if isinstance(line.get("kind"), str) and isinstance(line.get("role"), str) and _kind(event):
                return Sniff(0.95, f"line {number} is an exported event of type {_kind(event)}")
            if _kind(line) and ("processed_at" in line or plain_text(line.get("id")).startswith("sevt_")):
                return Sniff(0.9, f"line {number} is an event of type {_kind(line)}")
            role, kind = line.get("role"), line.get("kind")
            named = isinstance(role, str) and role in _ROLES and isinstance(kind, str) and kind in _EXPORTED
            if named and isinstance(line.get("time"), str):
                return Sniff(0.8, f"line {number} is an exported {kind} of an {role}")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        session = _Session(blob.uri)
        end = 0
        for offset, line in json_lines(blob):
            if isinstance(line, ParseError):
                yield Reject.of(line, "record", self.name)
                continue
            session.line(offset, line, offset - end)
            end = offset
            for error in session.errors:
                yield Reject.of(error, "record", self.name)
            session.errors.clear()
        empty = True
        for trajectory in session.trajectories():
            empty = False
            yield trajectory
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no event of the session is a call")


def _kind(event: Any) -> str | None:
    """Return the type of an event; None if the value is no event."""
    kind = event.get("type") if isinstance(event, dict) else None
    return kind if isinstance(kind, str) and _TYPE.fullmatch(kind) else None


def _event(line: dict[str, Any]) -> dict[str, Any]:
    """Return the event of a line. For an export without `raw`, it is rebuilt from the copies in the export."""
    raw = line.get("raw")
    if isinstance(raw, dict) and _kind(raw):
        return raw
    role, kind = line.get("role"), line.get("kind")
    if _kind(line) or not (isinstance(role, str) and isinstance(kind, str)):
        return line
    event = {"type": f"{role}.{kind}", "processed_at": line.get("time"), "content": line.get("content")}
    if kind.endswith("tool_use"):
        try:
            event["input"] = json_value(text_in(line, "content") or "{}")
        except ValueError:
            event["input"] = {"input": line.get("content")}
        event["name"] = line.get("tool")
    return event


class _Session:
    """The threads of one session, read event by event; `errors` collects what could not be read."""

    def __init__(self, uri: str) -> None:
        self.errors: list[ParseError] = []
        self._uri = uri
        self._first: str | None = None
        self._seen: set[str] = set()
        self._unknown: set[str] = set()
        self._threads: dict[str | None, _Thread] = {}

    def line(self, offset: int, line: Any, size: int) -> None:
        """Process one line; `size` is the number of bytes read since the line before."""
        if not isinstance(line, dict):
            self._report(offset, "not_an_object", f"wanted a JSON object, met {type(line).__name__}")
            return
        event = _event(line)
        kind, key = event.get("type"), text_in(event, "id")
        if key in self._seen:
            return
        if key is not None:
            self._seen.add(key)
            self._first = self._first or key
        name = (
            text_in(event, "session_thread_id") if plain_text(kind).startswith(("agent.", "user.", "span.")) else None
        )
        thread = self._threads.get(name)
        if thread is None:
            thread = self._threads[name] = _Thread(self._report)
        thread.items.grow(size)
        try:
            known = isinstance(kind, str) and thread.event(offset, kind, event)
        except MessageError as error:
            self._report(offset, error.reason, error.detail)
            return
        if not known:
            self._told(offset, kind)

    def _report(self, offset: int, reason: str, detail: str) -> None:
        self.errors.append(ParseError(self._uri, offset, reason, detail))

    def _told(self, offset: int, kind: Any) -> None:
        name = brief(kind)
        if name not in self._unknown:
            self._unknown.add(name)
            self._report(offset, "unknown_type", f"an event of type {name}; further ones in this log are not told")

    def trajectories(self) -> Iterator[Trajectory]:
        """Yield the session's trajectory, then those of its threads; threads without a call are left out."""
        main = self._first or "session"
        written = False
        for name, thread in sorted(self._threads.items(), key=lambda pair: pair[0] is not None):
            if not thread.acted:
                continue
            outline = course(thread.items)
            steps = outline.steps
            mark_dangling(steps)
            if thread.interrupted:
                steps[-1] = replace(steps[-1], truncated=True)
            yield Trajectory(
                native_id=main if name is None else f"{main}/{name}",
                domain=domain_of((step.action.name for step in steps), "terminal"),
                steps=steps,
                agent=Agent("claude-managed-agent"),
                task=Task(instruction=outline.instruction),
                outcome=thread.outcome,
                parent=main if name is not None and written else None,
                relation=None if name is None else "subagent",
            )
            written = written or name is None


class _Thread:
    """One conversation of the session.

    Attributes:
        acted: whether the agent made a call.
        interrupted: whether the user interrupted it at work and no action followed.
        outcome: the last outcome that the grader stated.
    """

    def __init__(self, report: Callable[[int, str, str], None]) -> None:
        self.items = Items()
        self.acted = False
        self.interrupted = False
        self._idle = False
        self.outcome: Outcome | None = None
        self._report = report
        self._turn: Turn | None = None
        self._answered = False
        self._open: dict[str | None, Call] = {}
        self._denied: set[str] = set()

    def event(self, offset: int, kind: str, event: dict[str, Any]) -> bool:
        """Process one event; return False if its type is unknown."""
        if kind in _CALLS:
            self._call(offset, kind, event)
        elif kind in _ANSWERS:
            self._answer(offset, event)
        elif kind in ("agent.message", "agent.thinking"):
            text = shown(event.get("content")).text or text_in(event, "thinking")
            if text and not text.isspace():
                turn = self._acts(offset, event)
                (turn.texts if kind == "agent.message" else turn.thoughts).append(text)
        elif kind in ("user.message", "user.define_outcome"):
            self._asked(event)
        elif kind == "user.interrupt":
            self._turn, self.interrupted = None, not self._idle
        elif kind in ("session.status_idle", "session.status_running"):
            self._idle = kind == "session.status_idle"
        elif kind == "span.model_request_start":
            self._turn = None
        elif kind in _TOLD:
            self._harness(shown(event.get("content")).text or text_in(event.get("error"), "message"))
        elif kind == "span.outcome_evaluation_end":
            self._judged(event)
        elif kind == "user.tool_confirmation" and event.get("result") == "deny":
            self._denied.add(text_in(event, "tool_use_id") or "")
        else:
            return _BOOKS.match(kind) is not None
        return True

    def _acts(self, offset: int, event: dict[str, Any]) -> Turn:
        if self._turn is None or self._answered:
            self._turn = Turn(offset, at=_moment(event))
            self.items.append(self._turn)
            self._answered = False
        self.interrupted = False
        return self._turn

    def _asked(self, event: dict[str, Any]) -> None:
        """Add a user's message or wanted outcome. The rubric of an outcome is added as a harness text."""
        content = shown(event.get("content"))
        text = content.text or text_in(event, "description")
        if text or content.attachments:
            self.items.append(Said("user", text or "", content.attachments))
            self._turn = None
        self._harness(text_in(event.get("rubric"), "content"))

    def _harness(self, text: str | None) -> None:
        if text:
            self.items.append(Said("harness", text))
            self._turn = None

    def _judged(self, event: dict[str, Any]) -> None:
        result = text_in(event, "result")
        if result in _JUDGED:
            self.outcome = Outcome(_JUDGED[result], None, "outcome rubric")
        self._harness(text_in(event, "explanation"))

    def _call(self, offset: int, kind: str, event: dict[str, Any]) -> None:
        name, values = text_in(event, "name"), event.get("input")
        server = text_in(event, "mcp_server_name") or text_in(event, "server_name")
        arguments = shallow_json(values if values is not None else {}) if isinstance(values, dict | None) else None
        if name is None or arguments is None:
            self._report(offset, "bad_call", "wanted a name and an object of shallow arguments in a call")
            return
        if kind == "agent.mcp_tool_use":
            name = f"{MCP_PREFIX}{server or ''}__{name}"
        key = text_in(event, "id")
        call = Call(name, arguments, key, offset, at=_moment(event))
        self._acts(offset, event).add(call)
        self._open[key or f"#{offset}"] = call
        self.acted = True

    def _answer(self, offset: int, event: dict[str, Any]) -> None:
        key = next((call_key for name in _CALL_KEYS if (call_key := text_in(event, name))), None)
        call = self._open.pop(key if key is not None else next(iter(self._open), None), None)
        if call is None:
            self._report(offset, "result_without_call", f"no open call has the id {key or 'none':.80}")
            return
        self._answered = True
        content = shown(event.get("content"))
        call.shown = Observation(
            seen_text(content),
            media_type(content.text),
            origin="user" if (key or "") in self._denied else "environment",
            is_error=is_failure(event),
            truncation="recorder" if content.lost else "none",
            attachments=content.attachments,
        )
        at = _moment(event)
        call.seconds = seconds_between(call.at, at)


def _moment(event: dict[str, Any]) -> int | None:
    return microseconds(text_in(event, "processed_at") or text_in(event, "created_at"))
