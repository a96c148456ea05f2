"""Cassettes of mcp-recorder: `{version, metadata, interactions: [{type, request, response, latency_ms, …}]}`.

>>> show(McpRecorder(), '''
... {"version": "1.0", "metadata": {}, "interactions": [
...     {"type": "jsonrpc_request", "response_is_sse": true, "response_status": 200, "latency_ms": 7,
...      "request": {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
...                  "params": {"name": "look", "arguments": {"bed": 2}}},
...      "response": {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "dry"}]}}}]}
... ''')
action  | {"name": "look", "arguments": {"bed": 2}}
after   | dry

Requests and responses are pairs of JSON-RPC messages, recorded over HTTP or stdio. HTTP exchanges that hold no message
are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.mcp.mcp_pairs import document, pair
from trajmill.connectors.mcp.wire_reader import SessionReader
from trajmill.connectors.reading.arrays import with_places
from trajmill.connectors.reading.large.outline import ARRAY, Shape
from trajmill.schemas import Agent, Environment, ParseError, Reject, Trajectory

_SHAPES: Final[list[Shape]] = [{"interactions": []}]
_INTERACTION: Final = re.compile(rb'"type"\s*:\s*"(?:jsonrpc_request|notification|lifecycle)"')


class McpRecorder(Connector):
    """Cassettes of mcp-recorder, version 1."""

    name: ClassVar[str] = "mcp_recorder"
    version: ClassVar[str] = "8"
    domains: ClassVar[tuple[str, ...]] = ("mcp", "search")
    title: ClassVar[str] = "mcp-recorder cassette (JSON)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and b'"interactions"' in head and _INTERACTION.search(head):
            return Sniff(0.95, "interactions of type jsonrpc_request or notification")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        data, value = document(blob, _SHAPES)
        interactions = value.get("interactions")
        if not isinstance(interactions, ARRAY):
            raise ParseError(blob.uri, 0, "bad_record", "wanted a list of interactions")
        reader = SessionReader(self.name, blob.uri, in_memory=isinstance(interactions, list))
        metadata = value.get("metadata")
        info = metadata.get("server_info") if isinstance(metadata, dict) else None
        if isinstance(info, dict):
            name, version = info.get("name"), info.get("version")
            known = (name if isinstance(name, str) else None, version if isinstance(version, str) else None)
            reader.defaults[""] = Environment(id=known[0], version=known[1]), Agent()
        for offset, interaction in with_places(data, interactions, ("interactions",)):
            if not isinstance(interaction, dict):
                detail = f"wanted an interaction, met {type(interaction).__name__}"
                yield Reject("record", "bad_record", detail, blob.uri, offset=offset, connector=self.name)
                continue
            for message in pair(offset, interaction):
                yield from reader.take(message)
        yield from reader.finish()
        if not reader.found:
            raise ParseError(blob.uri, -1, "no_transitions", "the cassette holds no answered call")
