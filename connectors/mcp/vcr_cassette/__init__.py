"""Cassettes of VCR.py (YAML or JSON) and VCR for Ruby: HTTP traffic with MCP servers and language model APIs.

>>> show(VcrCassette(), '''
... interactions:
... - request:
...     method: POST
...     uri: http://127.0.0.1:9/mcp
...     body: '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "arguments": {"bed": 2}}}'
...     headers: {Content-Type: [application/json]}
...   response:
...     status: {code: 200, message: OK}
...     headers: {Content-Type: [application/json]}
...     body: {string: '{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "dry"}]}}'}
... version: 1
... ''')
action  | {"name": "look", "arguments": {"bed": 2}}
after   | dry

Streamable HTTP of the Model Context Protocol becomes sessions (see `wire_session`), distinguished by the session id in
their headers, else by URL. Exchanges with APIs become conversations (see `connectors.conversation`): a response holds a
call, and a later request holds its result, which is the observation. Streamed responses are assembled, from server-sent
events, Amazon's event streams and lines of JSON (Ollama). Other traffic is skipped.

A cassette may hold one call twice: on the wire, and in the conversation of the model that made it. It counts once: a
session whose answered calls are all part of a conversation is rejected as `in_conversation`, and the conversation is
given its server. A conversation that branches off an earlier one is kept if it holds a result that the earlier one does
not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.exchanges import Chain, Chains, Settled, settle_parts
from trajmill.connectors.conversation.history import canonical
from trajmill.connectors.conversation.refusals import reject_unmatched
from trajmill.connectors.conversation.steps import is_answered_call
from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.mcp.mcp_pairs import document
from trajmill.connectors.mcp.vcr_cassette import http_exchange
from trajmill.connectors.mcp.vcr_cassette.http_exchange import FAILED, BodyError, Exchange
from trajmill.connectors.mcp.vcr_cassette.stream import assemble, events
from trajmill.connectors.mcp.wire_find import is_message, messages
from trajmill.connectors.mcp.wire_reader import SessionReader
from trajmill.connectors.mcp.wire_session import CLIENT, SERVER, Message
from trajmill.connectors.reading.arrays import with_places
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.yaml_values import YamlDocument
from trajmill.schemas import Agent, Context, Environment, Observation, ParseError, Reject, Step, Task, Trajectory

_KEYS: Final = ("interactions", "http_interactions")
_YAML: Final = re.compile(rb"(?:\A|\n)(?:http_)?interactions:\s*\n\s*- ")
_SESSION_ID: Final = "mcp-session-id"


class VcrCassette(Connector):
    """Cassettes of VCR with MCP or language model traffic."""

    name: ClassVar[str] = "vcr_cassette"
    version: ClassVar[str] = "19"
    domains: ClassVar[tuple[str, ...]] = ("mcp", "search")
    title: ClassVar[str] = "VCR cassette (YAML, JSON) of MCP and LLM traffic"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        begin = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if begin[:1] == b"{":
            keys = (b'"interactions"', b'"request"', b'"uri"', b'"method"', b'"headers"')
            if all(key in head for key in keys) and b'"jsonrpc_request"' not in head:
                return Sniff(0.9, "interactions with request, uri and headers, as JSON")
            return None
        if _YAML.search(head[:8192]) and b"request:" in head and (b"uri:" in head or b"headers:" in head):
            return Sniff(0.95, "a YAML list of interactions with requests")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        reader = SessionReader(self.name, blob.uri)
        chains, unpack = Chains(), http_exchange.Unpacker()
        sessions: list[Trajectory] = []
        for offset, value in _interactions(blob):
            try:
                exchange = http_exchange.exchange(offset, value, unpack)
            except BodyError as error:
                yield Reject("record", "bad_body", str(error), blob.uri, offset=offset, connector=self.name)
                continue
            try:
                for output in _take(exchange, reader, chains):
                    if isinstance(output, Trajectory):
                        sessions.append(output)
                    else:
                        yield output
            except MessageError as error:
                yield Reject("record", error.reason, error.detail, blob.uri, offset=offset, connector=self.name)
        for output in reader.finish():
            if isinstance(output, Trajectory):
                sessions.append(output)
            else:
                yield output
        found_any = False
        for conversation_output in self._merge_sessions(blob, chains, sessions):
            found_any = found_any or isinstance(conversation_output, Trajectory)
            yield conversation_output
        if not found_any:
            raise ParseError(blob.uri, -1, "no_transitions", "no exchange of MCP or of a language model answers a call")

    def _merge_sessions(self, blob: Blob, chains: Chains, sessions: list[Trajectory]) -> Iterator[Trajectory | Reject]:
        """Yield the conversations that are kept, then the sessions that none of them contains."""
        wire = {id(session): _calls(session) for session in sessions}
        doubled: set[int] = set()
        for conversation in self._conversations(blob, chains):
            if isinstance(conversation, Reject):
                yield conversation
                continue
            own = _calls(conversation)
            within = [session for session in sessions if _within(wire[id(session)], own)]
            doubled |= {id(session) for session in within}
            servers = {(session.environment.id, session.environment.version) for session in within}
            covered = sum(len(wire[id(session)]) for session in within) >= len(own)
            known = len(servers) == 1 and covered
            completed = _with_envelopes(conversation, within)
            yield replace(completed, environment=within[0].environment) if known else completed
        for session in sessions:
            if id(session) not in doubled:
                yield session
                continue
            detail = f"every call of session {session.native_id:.80} stands in a conversation"
            offset = session.steps[0].offset
            yield Reject(
                "trajectory", "in_conversation", detail, blob.uri, "", offset, self.name, transitions=len(session.steps)
            )

    def _conversations(self, blob: Blob, chains: Chains) -> Iterator[Trajectory | Reject]:
        carried: dict[int, str] = {}
        for number, chain in enumerate(chains.chains):
            dialog = settle_parts(chain.parts)
            for result in dialog.lost:
                yield reject_unmatched(blob.uri, self.name, result)
            parent, fork = _parent(chain, carried)
            reason = _refusal(chain, dialog, fork)
            if reason is not None:
                rows = len(dialog.steps) - sum(part_index < fork for part_index in dialog.places)
                yield Reject("trajectory", *reason, blob.uri, "", chain.offset, self.name, transitions=rows)
                continue
            shared = sum(part_index < fork for part_index in dialog.places)
            native_id = f"conversation/{number}"
            carried[id(chain)] = native_id
            yield _trajectory(chain, dialog, native_id, parent if shared else None, shared - 1)


def _interactions(blob: Blob) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (offset, interaction) of a cassette's interactions.

    Raises:
        ParseError: the log is no cassette.
    """
    with blob.open() as stream:
        is_object = stream.read(256).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"
    if is_object:
        data, value = document(blob)
        key = next((key for key in _KEYS if isinstance(value.get(key), list)), None)
        entries = list(with_places(data, value[key], (key,))) if key else []
    else:
        read = YamlDocument(blob.read(), blob.uri)
        value = read.value
        key = next((key for key in _KEYS if isinstance(value.get(key), list)), None)
        entries = list(zip(read.places.get(key, ()), value[key], strict=True)) if key else []
    if key is None:
        raise ParseError(blob.uri, 0, "bad_record", "wanted a list of interactions")
    for offset, interaction in entries:
        if isinstance(interaction, dict):
            yield offset, interaction


def _take(exchange: Exchange, reader: SessionReader, chains: Chains) -> Iterator[Trajectory | Reject]:
    """Pass an exchange to the sessions or to the conversations."""
    asked = exchange.asked
    if is_message(asked):
        yield from _on_the_wire(exchange, reader)
    elif exchange.method == "GET" and _SESSION_ID in exchange.sent:
        for message, text in messages(exchange.told, text=exchange.text):
            if isinstance(message, dict) and message.get("id") is None and "method" not in message:
                continue
            yield from reader.take(Message(exchange.offset, message, SERVER, text=text), exchange.sent[_SESSION_ID])
    elif exchange.method == "POST" and isinstance(asked, dict) and (exchange.status or 200) < FAILED:
        chains.take(exchange.offset, exchange.url, asked, _response(exchange.told))


def _on_the_wire(exchange: Exchange, reader: SessionReader) -> Iterator[Trajectory | Reject]:
    """Process the messages of an exchange with an MCP server.

    An error without an id answers the request of its exchange. So does an error with an HTTP status of failure,
    whatever its id. A failure without a message is no answer that the agent saw, but it ends the turn.
    """
    failed = (exchange.status or 200) >= FAILED
    opens = isinstance(exchange.asked, dict) and exchange.asked.get("method") == "initialize"
    session_id = exchange.received.get(_SESSION_ID) if opens else exchange.sent.get(_SESSION_ID)
    channel = session_id or exchange.url.partition("?")[0]
    yield from reader.take(Message(exchange.offset, exchange.asked, CLIENT), channel)
    for message, text in messages(exchange.told, text=exchange.text):
        answer = message
        if isinstance(answer, dict) and "method" not in answer and isinstance(exchange.asked, dict):
            key = exchange.asked.get("id")
            if answer.get("id") is None and key is None:
                continue
            if answer.get("id") is None or (failed and "error" in answer and key is not None):
                answer = {**answer, "id": key}
        yield from reader.take(Message(exchange.offset, answer, SERVER, text=text), channel)
    if failed:
        reader.fail(channel)


def _response(body: Any) -> dict[str, Any]:
    """Return the response of an API as one object, empty if there is none; a stream is assembled."""
    if isinstance(body, dict):
        return body
    if isinstance(body, str):
        return assemble(events(body)) or {}
    if isinstance(body, list):
        return assemble([chunk for chunk in body if isinstance(chunk, dict)]) or {}
    return {}


def _parent(chain: Chain, carried: dict[int, str]) -> tuple[str | None, int]:
    """Find the kept conversation that this one branches off and the index of its first part that is not shared."""
    fork, ancestor = len(chain.parts), chain
    while ancestor.parent is not None:
        fork, ancestor = min(fork, ancestor.shared), ancestor.parent
        if id(ancestor) in carried:
            return carried[id(ancestor)], fork
    return None, 0


def _refusal(chain: Chain, dialog: Settled, fork: int) -> tuple[str, str] | None:
    """Return the reason and the detail of a conversation's rejection; None if it is kept."""
    if not any(isinstance(part, Call) for part in chain.parts):
        return "no_calls", "a conversation without a call"
    if not any(map(is_answered_call, dialog.steps)):
        return "no_results", "a conversation without an answered call"
    own = [
        is_answered_call(step)
        for part_index, step in zip(dialog.places, dialog.steps, strict=True)
        if part_index >= fork
    ]
    if fork and not any(own):
        return "branch_without_answer", "a branch without an answered call of its own"
    return None


def _trajectory(chain: Chain, dialog: Settled, native_id: str, parent: str | None, fork: int) -> Trajectory:
    servers = {part.server for part in chain.parts if isinstance(part, Call)}
    return Trajectory(
        native_id=native_id,
        domain=dialog.conversation.domain,
        steps=dialog.steps,
        environment=Environment(id=next(iter(servers)) if len(servers) == 1 else None),
        agent=Agent(model=chain.model),
        task=Task(instruction=dialog.conversation.instruction),
        context=Context(
            action_space=shallow_json(chain.tools) if chain.tools else None,
            agent_system=dialog.conversation.system,
        ),
        parent=parent,
        parent_step=fork if parent is not None else None,
        relation="branch" if parent is not None else None,
    )


def _calls(trajectory: Trajectory) -> list[tuple[str, str, str]]:
    """Return (name, arguments, result) of each answered call."""
    return [
        (step.action.name, canonical(step.action.arguments), (seen.content or "").strip())
        for step, seen in _answered_calls(trajectory)
    ]


def _answered_calls(trajectory: Trajectory) -> Iterator[tuple[Step, Observation]]:
    """Yield the answered calls, each with its answer."""
    for step in trajectory.steps:
        if step.next_observation is not None and step.action.call_id is not None:
            yield step, step.next_observation


def _with_envelopes(conversation: Trajectory, sessions: list[Trajectory]) -> Trajectory:
    """Add to a conversation's answers the original result objects from the servers' sessions.

    Nothing is added if the conversation is too long to be kept in memory.
    """
    if not sessions or not isinstance(conversation.steps, list):
        return conversation
    served = [
        (call, seen)
        for session in sessions
        for call, (_, seen) in zip(_calls(session), _answered_calls(session), strict=True)
    ]
    fresh: dict[int, Observation] = {}
    for own, (_, shown) in zip(_calls(conversation), _answered_calls(conversation), strict=True):
        same = (
            index
            for index, (call, seen) in enumerate(served)
            if _is_call(call, own) and seen.content == shown.content and seen.attachments == shown.attachments
        )
        match_index = next(same, None)
        if match_index is not None:
            fresh[id(shown)] = replace(shown, envelope=served.pop(match_index)[1].envelope)
    steps = [
        replace(
            step,
            observation=fresh.get(id(step.observation), step.observation),
            next_observation=fresh.get(id(step.next_observation), step.next_observation),
        )
        for step in conversation.steps
    ]
    return replace(conversation, steps=steps)


def _is_call(served: tuple[str, str, str], own: tuple[str, str, str]) -> bool:
    """Check if a call of a session equals one of a conversation, whose name may have a prefix of the harness."""
    name = served[0]
    return own[1:] == served[1:] and (own[0] == name or own[0].endswith(("_" + name, "-" + name)))


def _within(session: list[tuple[str, str, str]], conversation: list[tuple[str, str, str]]) -> bool:
    """Return True if every call of a session occurs in the conversation."""
    left = list(conversation)
    for call in session:
        match = next((candidate for candidate in left if _is_call(call, candidate)), None)
        if match is None:
            return False
        left.remove(match)
    return bool(session)
