"""Recordings of agent-vcr (`.vcr`): one session with its handshake and its pairs of request and response.

>>> show(AgentVcr(), '''
... {"format_version": "1.0", "session": {"interactions": [
...     {"sequence": 0, "direction": "client_to_server",
...      "request": {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
...                  "params": {"name": "add", "arguments": {"a": 2, "b": 3}}},
...      "response": {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "5"}]}}}]}}
... ''')
action  | {"name": "add", "arguments": {"a": 2, "b": 3}}
after   | 5

A log is one object, `{format_version, metadata, session: {initialize_request, initialize_response, interactions:
[{sequence, timestamp, direction, request, response, notifications, latency_ms}]}}`. The direction `server_to_client`
marks a request of the server. Times without a time zone are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.mcp.mcp_pairs import document, pair
from trajmill.connectors.mcp.wire_reader import SessionReader
from trajmill.connectors.reading.arrays import with_places
from trajmill.schemas import Agent, Environment, ParseError, Reject, Trajectory


class AgentVcr(Connector):
    """Recordings of agent-vcr, format 1."""

    name: ClassVar[str] = "agent_vcr"
    version: ClassVar[str] = "7"
    domains: ClassVar[tuple[str, ...]] = ("mcp", "search")
    title: ClassVar[str] = "agent-vcr recording (.vcr)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        keys = (b'"format_version"', b'"session"', b'"initialize_request"')
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and all(key in head for key in keys):
            return Sniff(0.95, "a session with its initialize_request")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        data, value = document(blob)
        session = value.get("session")
        interactions = session.get("interactions") if isinstance(session, dict) else None
        if not isinstance(session, dict) or not isinstance(interactions, list):
            raise ParseError(blob.uri, 0, "bad_record", "wanted a session with a list of interactions")
        reader = SessionReader(self.name, blob.uri, in_memory=True)
        metadata = value.get("metadata")
        reader.defaults[""] = _known(metadata if isinstance(metadata, dict) else {})
        begin = max(0, data.find(b'"initialize_request"'))
        opening = {"request": session.get("initialize_request"), "response": session.get("initialize_response")}
        for message in pair(begin, opening):
            yield from reader.take(message)
        for offset, interaction in with_places(data, interactions, ("session", "interactions")):
            if not isinstance(interaction, dict):
                detail = f"wanted an interaction, met {type(interaction).__name__}"
                yield Reject("record", "bad_record", detail, blob.uri, offset=offset, connector=self.name)
                continue
            for message in pair(offset, interaction, server_asks=interaction.get("direction") == "server_to_client"):
                yield from reader.take(message)
        yield from reader.finish()
        if not reader.found:
            raise ParseError(blob.uri, -1, "no_transitions", "the recording holds no answered call")


def _known(metadata: dict[str, Any]) -> tuple[Environment, Agent]:
    """Read the facts about server and client in the metadata."""
    texts = []
    for key in ("server_info", "client_info"):
        info = metadata.get(key)
        for word in ("name", "version"):
            text = info.get(word) if isinstance(info, dict) else None
            texts.append(text if isinstance(text, str) else None)
    return Environment(id=texts[0], version=texts[1]), Agent(texts[2], texts[3])
