r"""Logs of Claude Desktop's MCP clients: `mcp-server-<name>.log`, and `mcp.log`, which holds all servers.

>>> show(McpDesktopLog(), '''
... 2026-01-05T08:00:01.000Z [garden] [info] Message from client: {"jsonrpc": "2.0", "id": 1, "method": "tools/call", \
...  "params": {"name": "look", "arguments": {"bed": 2}}} { metadata: undefined }
... 2026-01-05T08:00:01.900Z [garden] [info] Message from server: {"jsonrpc": "2.0", "id": 1, \
...  "result": {"content": [{"type": "text", "text": "dry"}]}} { metadata: undefined }
... ''')
action  | {"name": "look", "arguments": {"bed": 2}}
after   | dry

A message is a line `<time> [<server>] [info] Message from client: {…}` (or `from server`). Newer versions write ` {
metadata: undefined }` after it, older ones the level before the server. Lines of the servers' standard error, which
have no prefix, and the client's own lines are skipped. Servers run at the same time, so each name has its own sessions.
A log that ends with `Server disconnected` leaves calls without an answer.

The client cuts long messages (`...[14696 chars truncated]...`). An answer that is still JSON is kept, marked as cut by
the recorder. A cut request is rejected, since its arguments differ from those that were sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.harness_text import Source, truncation
from trajmill.connectors.mcp.wire_find import is_message
from trajmill.connectors.mcp.wire_reader import SessionReader
from trajmill.connectors.mcp.wire_session import CLIENT, SERVER, Message
from trajmill.connectors.reading.lines import LINE_BYTES, lines
from trajmill.connectors.reading.times import microseconds
from trajmill.connectors.reading.values import JsonError, first_value, json_value
from trajmill.schemas import Agent, Environment, ParseError, Reject, Trajectory

_LINE: Final = re.compile(
    rb"(\d{4}-\d\d-\d\dT[\d:.]{8,15}Z)?\s*((?:\[[^\]\n]{1,200}\]\s*){1,3})Message from (client|server): ?(?=[{\[])"
)
_WORD: Final = re.compile(rb"\[([^\]]+)\]")
_LEVELS: Final = frozenset({b"info", b"error", b"warn", b"warning", b"debug", b"trace"})
_AFTER: Final = b" { metadata: undefined }"
_LOG: Final = Source("claude-desktop")


class McpDesktopLog(Connector):
    """Logs of Claude Desktop's MCP clients."""

    name: ClassVar[str] = "mcp_desktop_log"
    version: ClassVar[str] = "6"
    domains: ClassVar[tuple[str, ...]] = ("mcp", "search")
    title: ClassVar[str] = "Claude Desktop MCP log (mcp-server-*.log, mcp.log)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        for number, line in enumerate(head.split(b"\n") if b"Message from " in head else (), 1):
            match = _LINE.match(line.lstrip(b"\xef\xbb\xbf"))
            if match:
                return Sniff(0.95, f"line {number} is a message from the {match[3].decode()}")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        reader = SessionReader(self.name, blob.uri)
        with blob.open() as stream:
            for line in lines(stream):
                try:
                    parsed = _read_message(line.data, line.offset, line.ended, blob.uri)
                except ParseError as error:
                    yield Reject.of(error, connector=self.name)
                    continue
                if parsed is not None:
                    message, server = parsed
                    reader.defaults.setdefault(server, (Environment(id=server or None), Agent()))
                    yield from reader.take(message, server)
        yield from reader.finish()
        if not reader.found:
            raise ParseError(blob.uri, -1, "no_transitions", "the log holds no answered call")


def _read_message(data: bytes | None, offset: int, ended: bool, uri: str) -> tuple[Message, str] | None:
    """Read the message of a line and the server's name; None if the line holds no message.

    Raises:
        ParseError: the line is too long, or begins a message and is not JSON.
    """
    if data is None:
        raise ParseError(uri, offset, "line_too_long", f"a line of more than {LINE_BYTES} bytes")
    match = _LINE.match(data)
    if match is None:
        return None
    words = [word for word in _WORD.findall(match[2]) if word not in _LEVELS]
    server = words[0].decode("utf-8", "replace") if words else ""
    cut = truncation(data[match.end() :].decode("utf-8", "replace"), _LOG) == "recorder"
    body = _body(data[match.end() :], offset, ended, cut, uri)
    if not is_message(body):
        raise ParseError(uri, offset, "abbreviated", "wanted a JSON-RPC message", excerpt=data[:1024])
    if cut and match[3] == b"client":
        raise ParseError(uri, offset, "abbreviated", "the log cut the request", excerpt=data[:1024])
    return Message(
        offset,
        body,
        CLIENT if match[3] == b"client" else SERVER,
        at=microseconds(match[1].decode()) if match[1] else None,
        truncation="recorder" if cut else "none",
        text=data[match.end() :],
    ), server


def _body(data: bytes, offset: int, ended: bool, cut: bool, uri: str) -> Any:
    try:
        return json_value(data.rstrip().removesuffix(_AFTER.strip()))
    except ValueError:
        pass
    try:
        return first_value(data.decode("utf-8", "replace"))[0]
    except JsonError as error:
        reason = "abbreviated" if cut or b"..." in data[:4096] else "bad_json" if ended else "truncated"
        raise ParseError(uri, offset, reason, f"wanted a JSON message: {error}", excerpt=data[:1024]) from None
