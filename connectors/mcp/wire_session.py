"""One MCP session whose requests and responses become steps: the shared core of all wire logs.

The action is a `tools/call` (named after the tool), or a `resources/read`, `prompts/get` or `completion/complete`
(named after the method). The next observation is its result or error. Ids may be numbers (0 too) or strings. They are
unique only within a session and the requesting side, so each side's requests are kept apart. Calls that were sent
before any of them was answered are one turn.

No actions are the handshake and `tools/list` (they become environment, initial state and action space), and other
listings, pings, progress, log messages and subscriptions, which are not shown to the agent. Requests of the server
(`sampling/createMessage`, `elicitation/create`) and the answers to them are `interleaved` before the next call. A task
in place of a result (2025-11-25) is replaced by the result of `tasks/result`. Nothing is sorted by time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, cast

from trajmill.connectors.conversation.mcp_answer import response_observation
from trajmill.connectors.mcp.wire_calls import Call, shelf_of
from trajmill.connectors.mcp.wire_marks import Mark, Request, are_same, hash_body, is_open_request
from trajmill.connectors.reading.fields import brief, plain_text
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.schemas import Agent, Environment, Shelf
from trajmill.schemas.record import record

CLIENT: Final = "client"
SERVER: Final = "server"

TOOL_CALL: Final = "tools/call"
ACTIONS: Final = frozenset({TOOL_CALL, "resources/read", "prompts/get", "completion/complete"})
"""Methods whose requests are actions."""

_OF_CLIENT: Final = (
    "initialize",
    "tools/",
    "resources/",
    "prompts/",
    "completion/",
    "logging/",
    "server/",
    "tasks/",
    "notifications/initialized",
    "notifications/roots/",
)
_OF_SERVER: Final = (
    "sampling/",
    "elicitation/",
    "roots/",
    "notifications/message",
    "notifications/tools/",
    "notifications/resources/",
    "notifications/prompts/",
    "notifications/elicitation/",
)
"""Beginnings of methods that only one side sends."""

_ASKED_OF: Final = {"sampling/createMessage": "agent", "elicitation/create": "user"}
"""Requests of a server that are kept, and who answers them."""

_SERVER_ASKED: Final = {
    "sampling/createMessage": frozenset({"role", "model"}),
    "elicitation/create": frozenset({"action"}),
    "roots/list": frozenset({"roots"}),
}
"""Members that occur only in an answer to that request of a server."""

PING: Final = "ping"

_SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
_CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
"""Members of `_meta` by which each side identifies itself since 2026-07-28, which has no handshake."""

Key = str | int | float
"""An id; the number 1 and the string "1" differ."""

_IDS: Final = frozenset({str, int, float})


@record
class Message:
    """A JSON-RPC message, or a batch of them, and the log's facts about it.

    `label` is the log's own word for the direction; `sender` is set if the log states it clearly. `at` is in
    microseconds since 1970 UTC, `seconds` is the time since the request of a response. `text` holds the message as JSON
    if the log has it as a text or a line.
    """

    offset: int
    body: Any
    sender: str | None = None
    label: str | None = None
    at: int | None = None
    seconds: float | None = None
    truncation: str = "none"
    text: str | bytes | None = None


def _fits(request: Request | Mark, result: Any) -> bool:
    """Return True if a result matches that request of a server."""
    if not isinstance(result, dict) or not isinstance(request, Request):
        return False
    return (
        not result if request.method == PING else not _SERVER_ASKED.get(request.method, frozenset()).isdisjoint(result)
    )


class SessionError(Exception):
    """Error for a message that is rejected, with its reason and a line for a person; it always becomes a reject."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


@lru_cache(1024)
def sender_of(method: str) -> str | None:
    """Return the side that sends a method; None if both may send it."""
    if method.startswith(_OF_CLIENT):
        return CLIENT
    return SERVER if method.startswith(_OF_SERVER) else None


@dataclass(slots=True)
class Session:
    """State of one session.

    Attributes:
        kept: offset in bytes after which messages are hashed and only the last calls stay in memory.
        calls: the requests that are actions, in order.
        asked: each side's requests by id. Of an answered request of the client only the response's mark is kept.
        tasks: index of the call that a task belongs to, by the task's id.
        said: messages to be placed before the next turn.
        turn: number of the turn to which calls are added.
        closed: whether the next call begins a turn, because a request was answered.
        shown: index of the last answered call, -1 for none.
        before: value of `shown` at the beginning of the turn.
    """

    offset: int
    kept: int
    initialize: dict[str, Any] | None = None
    environment: Environment = field(default_factory=Environment)
    agent: Agent = field(default_factory=Agent)
    instructions: str | None = None
    tools: dict[str, Any] = field(default_factory=dict)
    calls: Shelf[Call] | list[Call] = field(default_factory=list)
    asked: dict[str, dict[Key, Request | Mark]] = field(default_factory=lambda: {CLIENT: {}, SERVER: {}})
    tasks: dict[str, int] = field(default_factory=dict)
    said: list[dict[str, str]] = field(default_factory=list)
    turn: int = -1
    closed: bool = True
    shown: int = -1
    before: int = -1

    def _laid_off(self, body: dict[str, Any]) -> int:
        """Return a hash as the mark of a message in a long log; from then on only the last calls stay in memory."""
        if isinstance(self.calls, list):
            self.calls = shelf_of(self.calls)
        return hash_body(body)

    def waits(self, body: dict[str, Any]) -> bool:
        """Return True if the client waits for an answer with that id."""
        key = _known_key(body.get("id"))
        return key is not None and is_open_request(self.asked[CLIENT].get(key))

    def opened(self, body: dict[str, Any]) -> bool:
        """Return True if a response answers a request that only a client sends, and no request of the server."""
        key = _known_key(body.get("id"))
        request = None if key is None else self.asked[CLIENT].get(key)
        known = isinstance(request, Request) and request.reply is None and sender_of(request.method) == CLIENT
        return known and key not in self.asked[SERVER]

    def request(self, message: Message, body: dict[str, Any], sender: str) -> None:
        """Process a request.

        Raises:
            SessionError: the request is invalid, or its arguments are no object.
        """
        key = _key(body.get("id"))
        asked = self.asked[sender]
        before = asked.get(key)
        mark = body if message.offset < self.kept else self._laid_off(body)
        rival = False
        if isinstance(before, Request):
            if (before.reply is None or sender == SERVER) and are_same(before.mark, mark):
                # Logged twice. A resumed stream of a server also repeats requests that were answered in between; from a
                # client that gives every call one id, this is another call.
                return
            if before.method == PING and before.reply is None and sender == CLIENT:
                # No client has two open requests of one id, so that ping was the server's.
                self.asked[SERVER].setdefault(key, before)
            rival = before.call is not None and (before.reply is None or before.rival)
        method = body["method"]
        asked[key] = new_request = Request(method, mark, None, None, rival)
        params = body.get("params")
        if not isinstance(params, dict):
            params = {}
        if sender == SERVER:
            if method in _ASKED_OF:
                self._note("environment", {"method": method, "params": params})
            return
        if method in ACTIONS:
            new_request.call = self._call(message, method, params, key)
        elif method == "tasks/result":
            new_request.call = self.tasks.get(plain_text(params.get("taskId")))
        elif method == "initialize":
            self.initialize = body
            self.agent = _agent(params.get("clientInfo")) or self.agent
        if "_meta" in params and self.agent.name is None:
            self.agent = _agent(_meta(params).get(_CLIENT_KEY)) or self.agent

    def begins_anew(self, body: dict[str, Any]) -> bool:
        """Return True if a possible first request repeats an id of this session, which has calls: ids began anew."""
        return _known_key(body.get("id")) in self.asked[CLIENT] and bool(self.calls)

    def doubles(self, body: dict[str, Any]) -> bool:
        """Return True if the `initialize` request repeats the one whose answer the session waits for, logged twice."""
        return body == self.initialize and all(map(is_open_request, self.asked[CLIENT].values()))

    def _call(self, message: Message, method: str, params: dict[str, Any], call_id: Key) -> int:
        name: Any = method
        raw_arguments: Any
        if method == TOOL_CALL:
            name, raw_arguments = params.get("name"), params.get("arguments")
            if not isinstance(name, str):
                raise SessionError("bad_message", "wanted the name of a tool as a string")
        else:
            raw_arguments = {key: value for key, value in params.items() if key != "_meta"}
        arguments = None
        if raw_arguments is not None:
            if not isinstance(raw_arguments, dict):
                raise SessionError("bad_arguments", f"wanted an object as arguments of {name:.80}")
            arguments = shallow_json(raw_arguments)
            if arguments is None:
                raise SessionError("nested_too_deeply", f"arguments of {name:.80} are nested too deeply")
        notes: list[dict[str, str]] = []
        if "inputResponses" in params:
            self._note_inputs(params["inputResponses"])
        if self.closed:
            self.turn += 1
            self.closed = False
            notes, self.said = self.said, []
            self.before = self.shown
        calls = self.calls
        calls.append(Call(message.offset, name, arguments, str(call_id), message.at, self.turn, self.before, notes))
        return len(calls) - 1

    def response(self, message: Message, body: dict[str, Any], sender: str | None) -> None:
        """Process a response.

        Raises:
            SessionError: the response has no request, differs from an earlier answer, or nests too deeply.
        """
        raw_id = body.get("id")
        if raw_id is None:
            self.closed = True  # it answered something, so what is asked next saw it
        key = _key(raw_id)
        side = self._asker(key, body, sender)
        if side is None:
            raise SessionError("result_without_call", f"no request of the session has the id {key!r:.80}")
        asked = self.asked[side]
        request = asked[key]
        mark = body if message.offset < self.kept else self._laid_off(body)
        if not isinstance(request, Request) or request.reply is not None:
            if not are_same(mark, request.reply if isinstance(request, Request) else request):
                self._refuse_repeat(request, key)
            return
        request.reply = mark
        result = body.get("result")
        if not isinstance(result, dict):
            result = {}
        if side == SERVER:
            if request.method in _ASKED_OF:
                self._note(_ASKED_OF[request.method], result or {"error": body.get("error")})
            return
        if not request.rival:
            asked[key] = mark
        if "_meta" in result and self.environment.id is None and _SERVER_KEY in _meta(result):
            self._greet({"_meta": result["_meta"]})
        if request.call is not None:
            self._answer(request.method, request.call, message, body, result)
        else:
            self._note_result(request.method, message, result)

    def _refuse_repeat(self, entry: Request | Mark, key: Key) -> None:
        """Refuse a second answer to a request; if two calls of its id were open, drop both, which may be switched.

        Raises:
            SessionError: always.
        """
        if isinstance(entry, Request) and entry.rival and entry.call is not None:
            call = self.calls[entry.call]
            call.answer = call.seconds = None
            self.calls[entry.call] = call
            raise SessionError("ambiguous_id", f"two calls of the id {key!r:.80} were open, and two answers came")
        raise SessionError("result_repeated", f"request {key!r:.80} was answered otherwise before")

    def ping_sender(self, body: dict[str, Any]) -> str:
        """Return the sender of a ping without other marks: no client has two open requests of one id."""
        request = self.asked[CLIENT].get(_key(body.get("id")))
        return SERVER if isinstance(request, Request) and request.reply is None and request.method != PING else CLIENT

    def _asker(self, key: Key, body: dict[str, Any], sender: str | None) -> str | None:
        """Return the side that sent a response's request: the opposite of its sender, else the side that waits."""
        client, server = self.asked[CLIENT], self.asked[SERVER]
        if sender is None and key in server and key in client and is_open_request(entry := server[key]):
            return SERVER if not is_open_request(client[key]) or _fits(entry, body.get("result")) else CLIENT
        if sender != CLIENT and key in client:
            return CLIENT
        return SERVER if sender != SERVER and key in server else None

    def _answer(self, method: str, index: int, message: Message, body: dict[str, Any], result: dict[str, Any]) -> None:
        call = self.calls[index]
        task = result.get("task")
        if isinstance(task, dict) and "content" not in result:
            self.tasks[plain_text(task.get("taskId"))] = index
        self.closed = True
        asked = TOOL_CALL if method == "tasks/result" else method
        call.answer = response_observation(asked, body, message.truncation, message.text) or call.answer
        call.seconds = message.seconds
        if message.at is not None and call.seconds is None and call.at is not None and message.at >= call.at:
            call.seconds = (message.at - call.at) / 1e6
        self.calls[index] = call
        if call.answer is None:
            raise SessionError("nested_too_deeply", f"the answer to {call.name:.80} is nested too deeply")
        self.shown = max(self.shown, index)

    def cancel(self, body: dict[str, Any], sender: str) -> None:
        """Close the turn of a cancelled call, which stays unanswered."""
        params = body.get("params")
        cancelled = params.get("requestId") if isinstance(params, dict) else None
        if not isinstance(cancelled, bool) and (key := _known_key(cancelled)) is not None:
            request = self.asked[sender].get(key)
            if isinstance(request, Request) and request.call is not None and self.calls[request.call].turn == self.turn:
                self.closed = True

    def _note(self, role: str, value: dict[str, Any]) -> None:
        text = shallow_json(value)
        if text is not None:
            self.said.append({"role": role, "content": text})

    def _note_inputs(self, inputs: Any) -> None:
        """Record the input that a repeated call passes to a server that asked for it (2026-07-28)."""
        for name, answer in inputs.items() if isinstance(inputs, dict) else ():
            if isinstance(answer, dict) and "roots" not in answer:
                self._note("agent" if "role" in answer else "user", {name: answer})

    def _note_result(self, method: str, message: Message, result: dict[str, Any]) -> None:
        """Process the result of a request that is no call."""
        if method in ("initialize", "server/discover"):
            self._greet(result)
        elif method == "tools/list" and message.truncation == "none":
            self._list(result)

    def _greet(self, result: dict[str, Any]) -> None:
        """Read the facts about the server in an answer; the answer of a handshake holds nothing else."""
        info = result.get("serverInfo") or _meta(result).get(_SERVER_KEY)
        if isinstance(info, dict):
            name, version = info.get("name"), info.get("version")
            self.environment = Environment(
                id=name if isinstance(name, str) else self.environment.id,
                version=version if isinstance(version, str) else self.environment.version,
            )
        instructions = result.get("instructions")
        self.instructions = instructions if isinstance(instructions, str) and instructions else self.instructions

    def _list(self, result: dict[str, Any]) -> None:
        tools = result.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                self.tools.setdefault(tool["name"], tool)


def _key(value: Any) -> Key:
    """Return the id of a message.

    Raises:
        SessionError: the value is no valid id.
    """
    if type(value) in _IDS:
        return cast("Key", value)
    raise SessionError("bad_id", f"wanted a number or a string as id, met {brief(value)}")


def _known_key(value: Any) -> Key | None:
    """Return the value if it is a valid id, else None."""
    return value if isinstance(value, str | int | float) else None


def _meta(value: dict[str, Any]) -> dict[str, Any]:
    entry = value.get("_meta")
    return entry if isinstance(entry, dict) else {}


def _agent(info: Any) -> Agent | None:
    if not isinstance(info, dict) or not isinstance(info.get("name"), str):
        return None
    version = info.get("version")
    return Agent(info["name"], version if isinstance(version, str) else None)
