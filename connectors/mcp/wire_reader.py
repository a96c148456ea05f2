"""Trajectories from ordered JSON-RPC messages of the Model Context Protocol, one for each session of a log.

`initialize` begins a session, and so does a `server/discover` (2026-07-28) at which the ids begin anew. Concurrent
sessions are distinguished by a channel that the connector provides. The sender of a message is stated by the log, or
follows from its method, or from a word of direction. The meaning of such a word is learned from methods that only one
side sends, and from their answers. `wire_session` pairs the requests and responses of a session. Nothing is sorted by
time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from trajmill.connectors.conversation.tools import domain_of
from trajmill.connectors.mcp.wire_calls import steps_of
from trajmill.connectors.mcp.wire_marks import unhashed_bytes
from trajmill.connectors.mcp.wire_session import (
    ACTIONS,
    CLIENT,
    PING,
    SERVER,
    Message,
    Session,
    SessionError,
    sender_of,
)
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.schemas import Agent, Context, Environment, Reject, Trajectory

_DISCOVER: Final = "server/discover"
_BEGIN: Final = ("initialize", _DISCOVER)
_KINDS: Final = frozenset(
    {"request", "response", "notification", "notify", "message", "msg", "rpc", "jsonrpc", "result", "error", "event"}
    | {"log", "data", "batch", "mcp", "req", "res", "resp", "reply", "call"}
)
"""Words for a kind of message, not a direction, although logs write them in the same place."""


class SessionReader:
    """The sessions of one log; messages are processed in the order of the log.

    Args:
        in_memory: whether the whole log is in memory, so that storing calls on disk would save nothing.

    Attributes:
        defaults: environment and agent of a channel, as the log states them apart from the messages.
        found: number of trajectories yielded so far.
    """

    def __init__(self, connector: str, uri: str, *, in_memory: bool = False) -> None:
        self._connector = connector
        self._uri = uri
        self._kept = sys.maxsize if in_memory else unhashed_bytes()
        self._open: dict[str, Session] = {}
        self._counts: dict[str, int] = {}
        self._labels: dict[str, str | None] = {}
        self.defaults: dict[str, tuple[Environment, Agent]] = {}
        self.found = 0

    def take(self, message: Message, channel: str = "") -> Sequence[Trajectory | Reject]:
        """Process a message; return rejects, and the channel's finished session if a new one begins.

        Args:
            message: a message or a batch.
            channel: name that distinguishes concurrent sessions, such as a server's name or a session's id.
        """
        body = message.body
        if not isinstance(body, list):
            return self._take_message(message, body, channel)
        if not body:
            return [self._reject(message.offset, "bad_message", "an empty batch")]
        return [output for element in body for output in self._take_message(message, element, channel)]

    def fail(self, channel: str) -> None:
        """Record that HTTP refused a channel's last request: that is an answer, so the next request begins a turn."""
        if channel in self._open:
            self._open[channel].closed = True

    def _take_message(self, message: Message, body: Any, channel: str) -> list[Trajectory | Reject]:
        if not isinstance(body, dict):
            detail = f"wanted a JSON-RPC message, met {type(body).__name__}"
            return [self._reject(message.offset, "bad_message", detail)]
        outputs: list[Trajectory | Reject] = []
        method = body.get("method")
        try:
            if not isinstance(method, str):
                self._answer(message, body, channel)
            else:
                if method in _BEGIN and "id" in body and self._is_new(body, channel):
                    outputs += self._close(channel)
                self._ask(message, body, method, channel)
        except SessionError as error:
            outputs.append(self._reject(message.offset, error.reason, error.detail))
        return outputs

    def finish(self) -> Iterator[Trajectory | Reject]:
        """Yield the sessions that the log leaves open, in the order in which they began."""
        for channel in list(self._open):
            yield from self._close(channel)

    def _is_new(self, body: dict[str, Any], channel: str) -> bool:
        session = self._open.get(channel)
        if session is None:
            return False
        if body.get("method") == _DISCOVER:
            return session.begins_anew(body)
        return bool(session.calls) or (session.initialize is not None and not session.doubles(body))

    def _ask(self, message: Message, body: dict[str, Any], method: str, channel: str) -> None:
        """Process a request or a notification."""
        session = self._open.get(channel) or self._begun(message, channel)
        sender = sender_of(method)
        if sender is None:
            label = None if message.label is None else self._labels.get(message.label)
            sender = message.sender or label or (session.ping_sender(body) if method == PING else CLIENT)
        elif message.label is not None:
            self._learn(message.label, sender)
        if method == "notifications/cancelled":
            session.cancel(body, sender)
        elif "id" in body and (body["id"] is not None or method in ACTIONS):
            session.request(message, body, sender)
        elif method in ACTIONS:
            raise SessionError("bad_id", f"a {method} without an id, which nothing can answer")

    def _answer(self, message: Message, body: dict[str, Any], channel: str) -> None:
        """Process a response."""
        if "result" not in body and "error" not in body:
            raise SessionError("bad_message", "wanted a method, a result or an error")
        session = self._open.get(channel)
        has_others = not channel and len(self._open) > (session is not None)
        if has_others and (session is None or not session.waits(body)):
            # Some logs state the session only for requests.
            waiting = [candidate for candidate in self._open.values() if candidate.waits(body)]
            session = waiting[0] if len(waiting) == 1 else session
        session = session or self._begun(message, channel)
        sender, label = message.sender, message.label
        if label is not None:
            sender = sender or self._labels.get(label)
            if session.opened(body):
                self._learn(label, SERVER)
        session.response(message, body, sender)

    def _begun(self, message: Message, channel: str) -> Session:
        """Begin a new session of the channel."""
        session = self._open[channel] = Session(message.offset, self._kept)
        session.environment, session.agent = self.defaults.get(channel, (Environment(), Agent()))
        return session

    def _learn(self, label: str, sender: str) -> None:
        """Record the side that a word of direction means; a word used for both sides means none."""
        if label.lower() not in _KINDS and self._labels.setdefault(label, sender) != sender:
            self._labels[label] = None

    def _close(self, channel: str) -> Iterator[Trajectory | Reject]:
        session = self._open.pop(channel)
        number = self._counts[channel] = self._counts.get(channel, -1) + 1
        if not session.calls:
            if session.initialize is not None:
                yield self._refused(session, "no_calls", "a session without a call")
            return
        if all(call.answer is None for call in session.calls):
            yield self._refused(session, "no_results", "a session without an answered call")
            return
        tools = shallow_json(list(session.tools.values())) if session.tools else None
        self.found += 1
        yield Trajectory(
            native_id=f"{channel}/{number}" if channel else str(number),
            domain=domain_of(call.name for call in session.calls),
            steps=steps_of(session.calls),
            environment=session.environment,
            agent=session.agent,
            context=Context(action_space=tools, initial_state=session.instructions),
        )

    def _refused(self, session: Session, reason: str, detail: str) -> Reject:
        reject = self._reject(session.offset, reason, detail)
        return replace(reject, unit="trajectory", transitions=len(session.calls))

    def _reject(self, offset: int, reason: str, detail: str) -> Reject:
        return Reject("record", reason, detail, self._uri, offset=offset, connector=self._connector)
