r"""The event stream of `codex exec --json`, one JSON event per line; each thread is a trajectory.

>>> show(CodexExec(), '''
... {"type": "thread.started", "thread_id": "01900000-ffff-7000-8000-000000000003"}
... {"type": "turn.started"}
... {"type": "item.completed", "item": {"id": "item_0", "type": "command_execution", "command": "bash -lc ls", \
...  "aggregated_output": "notes.txt", "exit_code": 0, "status": "completed"}}
... ''')
action  | {"name": "command_execution", "arguments": {"command": "bash -lc ls"}}
after   | notes.txt

An item is started, perhaps updated, and completed; the item of a call holds its answer. A turn ends with the first
answer. The stream holds neither the prompt, nor times, nor the working folder. For a change of files it states the
paths and the success, not the patch; for a search only the query; for a plan only the list: the answers of these calls
are null.

Rejected: items of unknown types. Left out without a reject: token usage and the bounds of turns. The event stream of
versions before 0.44 (`{id, msg}`) is another format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.codex_texts import CLIENT, domain, is_killed_by_code, origin
from trajmill.connectors.agents.event_stream import EventSession, head_events, read_sessions
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.content import media_type, observation
from trajmill.connectors.conversation.harness_text import read_output, truncation
from trajmill.connectors.conversation.mcp_content import tool_result
from trajmill.connectors.conversation.steps import course, mark_dangling
from trajmill.connectors.conversation.tools import MCP_PREFIX
from trajmill.connectors.conversation.turns import Call, Said, Turn
from trajmill.connectors.conversation.wrapped_output import Output
from trajmill.connectors.reading.fields import INT32, whole_number_of
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import Agent, Observation, Reject, Trajectory

_EVENTS: Final = frozenset({"turn.started", "turn.completed", "item.plan.delta"})
_ITEM_EVENTS: Final = frozenset({"item.started", "item.updated", "item.completed"})
_SILENT: Final = frozenset({"file_change", "web_search", "update_plan"})
"""Tools whose answers the stream does not hold."""

_SNIFFED_LINES: Final = 8


class CodexExec(Connector):
    """Event streams of `codex exec --json`, versions 0.44 to 0.14x."""

    name: ClassVar[str] = "codex_exec"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    title: ClassVar[str] = "codex exec --json event stream (JSONL)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        for number, event in head_events(head, _SNIFFED_LINES):
            kind = event.get("type")
            if kind == "thread.started" and isinstance(event.get("thread_id"), str):
                return Sniff(0.95, f"line {number} starts a thread of codex exec")
            if isinstance(kind, str) and kind in _ITEM_EVENTS and _kind(event.get("item")) is not None:
                return Sniff(0.85, f"line {number} is an {kind} event of codex exec")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        yield from read_sessions(blob, self.name, _Stream)


def _kind(item: Any) -> str | None:
    kind = (item.get("type") or item.get("item_type")) if isinstance(item, dict) else None
    return kind if isinstance(kind, str) and isinstance(item.get("id"), str) else None


class _Stream(EventSession):
    """One thread."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._thread = ""
        self._acted = False
        self._failed = False
        self._turn: Turn | None = None
        self._answered = False
        self._calls: dict[str, Call] = {}
        self._done: set[str] = set()

    def ends_before(self, event: Any) -> bool:
        if not isinstance(event, dict) or event.get("type") != "thread.started" or not self._thread:
            return False
        return event.get("thread_id") != self._thread

    def trajectory(self) -> Trajectory | None:
        if not self._acted:
            return None
        steps = course(self.items).steps
        mark_dangling(steps, _SILENT)
        if self._failed:
            steps[-1] = replace(steps[-1], truncated=True)
        return Trajectory(self._thread, domain(step.action.name for step in steps), steps, agent=Agent("codex"))

    def event(self, offset: int, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "thread.started":
            thread = event.get("thread_id")
            self._thread = thread if isinstance(thread, str) else self._thread
            self._turn = None
            self._calls.clear()
            self._done.clear()
        elif isinstance(kind, str) and kind in _ITEM_EVENTS:
            self._item(offset, kind.removeprefix("item."), event.get("item"))
        elif kind in ("error", "turn.failed"):
            error = event if kind == "error" else event.get("error")
            self._note(error)
            self._turn = None
            self._failed = kind == "turn.failed"
        elif not (isinstance(kind, str) and kind in _EVENTS):
            self._unknown_type(offset, kind, "an event")

    def _note(self, error: Any) -> None:
        message = error.get("message") if isinstance(error, dict) else None
        if isinstance(message, str) and message:
            self.items.append(Said("harness", message))

    def _acts(self, offset: int) -> Turn:
        self._failed = False
        if self._turn is None or self._answered:
            self._turn = Turn(offset)
            self.items.append(self._turn)
            self._answered = False
        return self._turn

    def _item(self, offset: int, stage: str, item: Any) -> None:
        kind = _kind(item)
        if kind is None:
            self._report(offset, "bad_item", "wanted an item with an id and a type")
        elif kind in ("agent_message", "assistant_message", "reasoning", "plan"):
            text = item.get("text")
            if stage == "completed" and isinstance(text, str) and text and not text.isspace():
                turn = self._acts(offset)
                (turn.thoughts if kind == "reasoning" else turn.texts).append(text)
        elif kind == "error":
            if stage == "completed":
                self._note(item)
        elif kind in _CALLS:
            self._call(offset, stage, kind, item)
        else:
            self._unknown_type(offset, kind, "an item")

    def _call(self, offset: int, stage: str, kind: str, item: dict[str, Any]) -> None:
        known = self._calls.get(item["id"])
        if known is None and item["id"] in self._done and kind not in ("todo_list", "web_search"):
            self._answered = self._answered or stage == "completed"
            return
        if known is None or kind in ("todo_list", "web_search"):
            known = self._changed(offset, kind, item, known)
        if known is not None and stage == "completed":
            self._answered = True
            if known.shown is None:
                known.shown, output = _answer(kind, known.name, item)
                known.ends(output)
                if kind == "command_execution" and is_killed_by_code(known.arguments, known.exit_code):
                    known.exit_code, known.killed = None, True
            if known.shown is not None:
                # keep only the id of an answered call, so that a long log does not hold all calls in memory
                del self._calls[item["id"]]
                self._done.add(item["id"])

    def _changed(self, offset: int, kind: str, item: dict[str, Any], known: Call | None) -> Call | None:
        """Return the call of an item that is new or updated; report an error and return None if it is no valid call."""
        name, values = _CALLS[kind](item)
        arguments = shallow_json(values)
        if arguments is None or not name:
            self._report(offset, "bad_call", f"wanted a name and shallow arguments in an item of type {kind}")
            return None
        if known is not None and (kind == "web_search" or known.arguments == arguments):
            known.arguments = arguments  # the query of a search is empty until it is done
            return known
        call = self._calls[item["id"]] = Call(name, arguments, item["id"], offset)
        self._acts(offset).add(call)
        self._acted = True
        self._answered = kind == "todo_list"
        return call


def _answer(kind: str, name: str, item: dict[str, Any]) -> tuple[Observation | None, Output]:
    """Return the observation of a completed item and the end of its command."""
    status = item.get("status")
    error = status in ("failed", "declined") if isinstance(status, str) else None
    if kind == "command_execution":
        text, code = item.get("aggregated_output"), whole_number_of(item.get("exit_code"), INT32)
        if not isinstance(text, str):
            return None, Output(None, code)
        output = read_output(text, CLIENT)
        output = (
            output
            if output.killed
            else replace(output, exit_code=code if output.exit_code is None else output.exit_code)
        )
        text = output.text or ""
        who = "user" if status == "declined" else origin(name, "")
        return Observation(
            text, media_type(text), origin=who, is_error=error, truncation=truncation(text, CLIENT)
        ), output
    if kind == "mcp_tool_call":
        failure, result = item.get("error"), item.get("result")
        if isinstance(failure, dict) and isinstance(failure.get("message"), str):
            return observation(failure["message"], error), Output(None)
        if not isinstance(result, dict) or not isinstance(result.get("content"), list):
            return None, Output(None)
        text, attached = tool_result({**result, "structuredContent": result.get("structured_content")})
        return observation(text, error, attached), Output(None)
    if kind == "collab_tool_call" and isinstance(item.get("agents_states"), dict):
        states = shallow_json(item["agents_states"])
        who = "agent" if name == "wait" else "harness"
        shown = Observation(states, media_type(states), origin=who, is_error=error) if states else None
        return shown, Output(None)
    return None, Output(None)


def _command(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    command = item.get("command")
    return "command_execution" if isinstance(command, str) else "", {"command": command}


def _change(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "file_change", {"changes": item.get("changes")}


def _mcp(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    arguments = item.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json_value(arguments)
        except ValueError:
            arguments = {"input": arguments}
    named = isinstance(item.get("server"), str) and isinstance(item.get("tool"), str)
    name = f"{MCP_PREFIX}{item['server']}__{item['tool']}" if named else ""
    return name, arguments if isinstance(arguments, dict) else {} if arguments is None else {"input": arguments}


def _search(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    action = item.get("action")
    if isinstance(action, dict) and len(action) > 1:
        return "web_search", {key: value for key, value in action.items() if value is not None}
    return "web_search", {"query": item.get("query")}


def _plan(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "update_plan", {"items": item.get("items")}


def _collab(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    tool = item.get("tool")
    keys = ("prompt", "receiver_thread_ids")
    return tool if isinstance(tool, str) else "", {key: item[key] for key in keys if item.get(key)}


_CALLS: Final = {
    "command_execution": _command,
    "file_change": _change,
    "mcp_tool_call": _mcp,
    "web_search": _search,
    "todo_list": _plan,
    "collab_tool_call": _collab,
}
