"""The event stream of `gemini --output-format stream-json`, one JSON event per line; each session is a trajectory.

>>> show(GeminiStream(), '''
... {"type": "init", "timestamp": "2026-03-04T09:00:01.007Z", "session_id": "5e55", "model": "gemini-x"}
... {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "sh-1", "parameters": {"command": "ls"}}
... {"type": "tool_result", "tool_id": "sh-1", "status": "success", "output": "notes.txt"}
... ''')
action  | {"name": "run_shell_command", "arguments": {"command": "ls"}}
after   | notes.txt

Events are `init`, `message`, `tool_use`, `tool_result`, `error` and `result`. Programs around the client add keys of
their own (`ts`) and messages before the `init`. These messages are harness texts, since they were never sent to the
agent. An assistant's message arrives in consecutive pieces (`delta`). Answers are matched to calls by `tool_id`, or in
order if they have none. A turn ends with the first answer.

An answer's `output` is the text that the client displayed. For a command it is the command's output. For tools that
read and search files or the web it is a line about the answer that the agent received (`Found 3 matching file(s)`), so
the observation is marked as cut by the recorder, and it is null if the line is empty. Tools that the client does not
have itself belong to an MCP server, and their answers are displayed in full.

Rejected: lines that the client printed among the events. Left out without a reject: statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.event_stream import EventSession, head_events, read_sessions
from trajmill.connectors.agents.gemini_messages import SEARCHES
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.content import media_type
from trajmill.connectors.conversation.harness_text import GEMINI_CLI, Source, read_output, speaker, tools_of_others
from trajmill.connectors.conversation.steps import course
from trajmill.connectors.conversation.tools import domain_of
from trajmill.connectors.conversation.turns import Call, Said, Turn, seconds_between
from trajmill.connectors.reading.fields import str_in
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.times import microseconds
from trajmill.schemas import Agent, Observation, Reject, Task, Trajectory

_SHELL: Final = "run_shell_command"
_FILES: Final = frozenset(
    {
        "edit",
        "find_files",
        "glob",
        "grep_search",
        "list_directory",
        "read_file",
        "read_folder",
        "read_many_files",
        "replace",
        "search_file_content",
        "write_file",
    }
)
_DISPLAYED: Final = _FILES | SEARCHES
"""Tools for which the client displays a text other than the one that the agent receives."""

_BUILT_IN: Final = _DISPLAYED | tools_of_others(GEMINI_CLI) | {_SHELL}
_BY_HARNESS: Final = frozenset({"invalid_tool_params", "tool_not_registered", "policy_violation"})
_SNIFFED_LINES: Final = 16


class GeminiStream(Connector):
    """Event streams of the Gemini command line client."""

    name: ClassVar[str] = "gemini_stream"
    version: ClassVar[str] = "4"
    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    title: ClassVar[str] = "Gemini CLI event stream (stream-json)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        for number, event in head_events(head, _SNIFFED_LINES):
            kind = event.get("type")
            if kind == "init" and "session_id" in event and "model" in event:
                return Sniff(0.95, f"line {number} is the init event of a Gemini stream")
            if kind == "tool_use" and "tool_name" in event and "tool_id" in event:
                return Sniff(0.9, f"line {number} is a call of a Gemini stream")
            if kind == "tool_result" and "tool_id" in event and "status" in event:
                return Sniff(0.9, f"line {number} is an answer of a Gemini stream")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        yield from read_sessions(blob, self.name, _Stream)


class _Stream(EventSession):
    """One session; `errors` collects what could not be read."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._session: str | None = None
        self._model: str | None = None
        self._early: list[str] = []
        self._turn: Turn | None = None
        self._answered = False
        self._continues = False
        self._open: dict[str, Call] = {}
        self._names: set[str] = set()
        self._status: str | None = None

    def ends_before(self, event: Any) -> bool:
        begins = isinstance(event, dict) and event.get("type") == "init" and self._session is not None
        return begins and event.get("session_id") != self._session

    def trajectory(self) -> Trajectory | None:
        if not self._names:
            return None
        outline = course(self.items)
        steps = outline.steps
        if self._status == "error" or (self._status is None and self._open):
            # an answer may also be null because the client displayed nothing, so the open calls decide
            steps[-1] = replace(steps[-1], truncated=True)
        return Trajectory(
            native_id=self._session or "",
            domain=domain_of(self._names, "terminal", tools_of_others(GEMINI_CLI), lambda name: name not in _BUILT_IN),
            steps=steps,
            agent=Agent("gemini-cli", None, self._model),
            task=Task(instruction=outline.instruction),
        )

    def event(self, offset: int, event: dict[str, Any]) -> None:
        kind = event.get("type")
        continues, self._continues = self._continues, False
        if kind == "message":
            self._continues = self._message(offset, event, continues)
        elif kind == "tool_use":
            self._call(offset, event)
        elif kind == "tool_result":
            self._answer(offset, event)
        elif kind == "init":
            self._begin(event)
        elif kind == "error":
            self._say("harness", str_in(event, "message"))
        elif kind == "result":
            self._status = str_in(event, "status")
            self._say("harness", str_in(event.get("error"), "message"))
        else:
            self._unknown_type(offset, kind, "an event")

    def _begin(self, event: dict[str, Any]) -> None:
        self._session = str_in(event, "session_id") or self._session or ""
        self._model = self._model or str_in(event, "model")
        self._turn, self._status = None, None
        self._hear_early("harness")

    def _hear_early(self, role: str) -> None:
        """Add the messages before the `init`, or before the agent's first action if there is no `init`."""
        early, self._early = self._early, []
        for text in early:
            self.items.append(Said(role, text))

    def _message(self, offset: int, event: dict[str, Any], continues: bool) -> bool:
        """Process a message; return True if the next piece of the assistant's message would continue it."""
        content = str_in(event, "content")
        if event.get("role") == "assistant":
            if content:
                texts = self._acts(offset, event).texts
                if continues and texts:
                    texts[-1] += content
                else:
                    texts.append(content)
            return event.get("delta") is True
        if content and self._session is None and not self._names:
            self._early.append(content)
        else:
            self._say("user" if event.get("role") == "user" else "harness", content)
        return False

    def _say(self, role: str, text: str | None) -> None:
        if text and not text.isspace():
            # a message after the end of the run answers nothing
            self.items.append(Said(role, text, answers=False if self._status is not None else None))
            self._turn = None

    def _acts(self, offset: int, event: dict[str, Any]) -> Turn:
        if self._early:
            self._hear_early("user")
        if self._turn is None or self._answered:
            self._turn = Turn(offset, "", microseconds(event.get("timestamp")))
            self.items.append(self._turn)
            self._answered = False
        return self._turn

    def _call(self, offset: int, event: dict[str, Any]) -> None:
        name, parameters = str_in(event, "tool_name"), event.get("parameters")
        arguments = (
            shallow_json(parameters if parameters is not None else {}) if isinstance(parameters, dict | None) else None
        )
        if not name or arguments is None:
            self._report(offset, "bad_call", "wanted a tool_name and an object of shallow parameters")
            return
        key = str_in(event, "tool_id")
        call = Call(name, arguments, key, offset, "", microseconds(event.get("timestamp")))
        self._acts(offset, event).add(call)
        self._open[key or f"#{offset}"] = call
        self._names.add(name)

    def _answer(self, offset: int, event: dict[str, Any]) -> None:
        key = str_in(event, "tool_id")
        call = self._open.pop(key if key is not None else next(iter(self._open), ""), None)
        if call is None:
            self._report(offset, "result_without_call", f"no open call has the id {key or 'none':.80}")
            return
        self._answered = True
        call.shown = _shown(call.name, event)
        if call.name == _SHELL and call.shown is not None:
            _end(call, call.shown)
        call.seconds = seconds_between(call.at, microseconds(event.get("timestamp")))


def _end(call: Call, shown: Observation) -> None:
    """Apply the client's words about the end of a command, which it displays instead of an output."""
    text = shown.content or ""
    output = read_output(text, Source(GEMINI_CLI, None, _SHELL))
    call.ends(output)
    if output.text != text:
        call.shown = replace(shown, content=output.text, media_type="text/plain")


def _shown(name: str, event: dict[str, Any]) -> Observation | None:
    """Return the observation in the answer to a call of the tool; None if the log does not hold it."""
    status, failure = event.get("status"), event.get("error")
    text = str_in(event, "output")
    text = text if text or not isinstance(failure, dict) else str_in(failure, "message")
    error = status != "success" if status in ("success", "error", "cancelled") else None
    displayed = name in _DISPLAYED and not error
    if text is None or (displayed and not text):
        return None
    if isinstance(failure, dict) and str_in(failure, "type") in _BY_HARNESS:
        origin = "harness"
    else:
        origin = speaker("", Source(GEMINI_CLI, None, name)) or "environment"
    truncation = "recorder" if displayed else "none"
    return Observation(text, media_type(text), origin=origin, is_error=error, truncation=truncation)
