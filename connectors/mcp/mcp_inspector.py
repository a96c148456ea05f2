"""Exports of the MCP Inspector: its history of messages and its network log, each one JSON array.

>>> show(McpInspector(), '''
... [{"id": "b", "timestamp": "2026-03-17T10:00:01.000Z", "direction": "request", "duration": 5,
...   "message": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "tide", "arguments": {}}},
...   "response": {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "low"}]}}}]
... ''')
action  | {"name": "tide", "arguments": {}}
after   | low

History (`inspector-history-….json`): `{id, timestamp, direction: request|response|notification, origin?, message,
response?, duration?}`. The Inspector stores a response in the entry of its request, with the number of milliseconds
until it arrived. The response is read as a message of that time, since calls that were sent in between did not see it.
The history does not hold the Inspector's answers to a server. Versions before `origin` do not state who sent a ping.

Network (`inspector-network-….json`): `{id, timestamp, method, url, requestHeaders, requestBody?, responseStatus,
responseHeaders, responseBody?, duration, category: auth|transport}`. Bodies are JSON or server-sent events. `duration`
ends with the arrival of the headers and is left out. Sessions are distinguished by their id in the headers, else by
URL. The log does not hold the bodies of streams that the server keeps open, and the Inspector masks secrets in JSON.

The format follows the Inspector's own types of version 2 (`MessageEntry`, `FetchRequestEntry`). Its export of log
notifications holds no call and is not recognized. No real export was available.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.mcp.vcr_cassette.http_exchange import FAILED
from trajmill.connectors.mcp.wire_find import in_text, is_message
from trajmill.connectors.mcp.wire_reader import SessionReader
from trajmill.connectors.mcp.wire_session import CLIENT, SERVER, Message, sender_of
from trajmill.connectors.reading.arrays import places_of
from trajmill.connectors.reading.documents import document_in
from trajmill.connectors.reading.fields import plain_text
from trajmill.connectors.reading.times import microseconds, seconds_of
from trajmill.connectors.reading.values import JsonError, first_value
from trajmill.schemas import ParseError, Reject, Trajectory

_DIRECTIONS: Final = frozenset({"request", "response", "notification"})
_SIDES: Final = (CLIENT, SERVER)
_CATEGORIES: Final = frozenset({"auth", "transport"})
_BEGINS: Final = re.compile(r"\s*\[\s*(?=\{)")
_CUT_HISTORY: Final = re.compile(
    r'\s*\[\s*\{(?:\s*"(?:id|timestamp|origin)"\s*:\s*"[^"]*",){1,3}\s*"direction"\s*:\s*"(?:request|response|notification)"'
)
_SESSION_ID: Final = "mcp-session-id"
_IDS: Final = (str, int, float)


class McpInspector(Connector):
    """Exports of the MCP Inspector, version 2."""

    name: ClassVar[str] = "mcp_inspector"
    version: ClassVar[str] = "7"
    domains: ClassVar[tuple[str, ...]] = ("mcp", "search")
    title: ClassVar[str] = "MCP Inspector exports (history and network, JSON)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        text = head.decode("utf-8", "replace").removeprefix("\ufeff")
        begin = _BEGINS.match(text)
        if begin is None or "jsonrpc" not in text:
            return None
        try:
            first = first_value(text, begin.end())[0]
        except JsonError:
            first = None
            if _CUT_HISTORY.match(text):
                return Sniff(0.9, "begins with a long message of the MCP Inspector's history")
        if _is_history(first):
            return Sniff(0.9, "the first entry is a message of the MCP Inspector's history")
        if _is_network(first):
            return Sniff(0.9, "the first entry is a request of the MCP Inspector's network log")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        data = blob.read()
        entries = _entries(data, blob.uri)
        places = places_of(data, entries) or [0] * len(entries)
        reader = SessionReader(self.name, blob.uri, in_memory=True)
        history = _History(reader)
        for offset, entry in zip(places, entries, strict=True):
            if _is_history(entry):
                yield from history.take(offset, entry)
            elif _is_network(entry):
                for message, channel in _exchange(offset, entry):
                    yield from reader.take(message, channel)
                if _is_refused(entry):
                    reader.fail(_channel(entry))
            else:
                detail = "wanted an entry of the history or of the network log"
                yield Reject("record", "bad_record", detail, blob.uri, offset=offset, connector=self.name)
        yield from history.release(None)
        yield from reader.finish()
        if not reader.found:
            raise ParseError(blob.uri, -1, "no_transitions", "the export holds no answered call")


def _entries(data: bytes, uri: str) -> list[Any]:
    """Return the entries of an export.

    Raises:
        ParseError: the export is no JSON array.
    """
    value = document_in(data, uri)
    if not isinstance(value, list):
        raise ParseError(uri, 0, "bad_record", f"wanted a JSON array, met {type(value).__name__}")
    return value


def _is_history(entry: Any) -> bool:
    if not isinstance(entry, dict) or not is_message(entry.get("message")):
        return False
    direction = entry.get("direction")
    return isinstance(direction, str) and direction in _DIRECTIONS


def _is_network(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    category, url = entry.get("category"), entry.get("url")
    known = isinstance(category, str) and category in _CATEGORIES
    return known and isinstance(url, str) and isinstance(entry.get("requestHeaders"), dict)


class _History:
    """Messages of a history in their order on the wire: entries in file order, responses by their time."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._waiting: list[tuple[int, int, Message]] = []
        self._asked: set[str | int | float] = set()
        self._number = 0

    def take(self, offset: int, entry: dict[str, Any]) -> list[Trajectory | Reject]:
        """Process an entry after the responses before it; return the resulting trajectories and rejects."""
        message, at = entry["message"], microseconds(entry.get("timestamp"))
        begins = isinstance(message, dict) and message.get("method") == "initialize"
        results = self.release(None if begins else at) if self._waiting else []
        if begins:
            self._asked.clear()
        origin = entry.get("origin")
        sender: str = origin if origin in _SIDES else self._sender(entry, message)
        results += self._reader.take(Message(offset, message, sender, at=at))
        response = entry.get("response")
        if response is None or not is_message(response):
            return results
        # Versions that mix up the ids of both sides store an answer of the server in a request of the server.
        took = seconds_of(entry.get("duration"))
        answer = Message(offset, response, SERVER if sender == CLIENT else None, seconds=took)
        if at is None or took is None:
            results += self._reader.take(answer)
        else:
            self._number += 1
            heapq.heappush(self._waiting, (at + round(took * 1e6), self._number, answer))
        return results

    def release(self, until: int | None) -> list[Trajectory | Reject]:
        """Pass the responses up to a time in microseconds since 1970 to the reader; all of them for None."""
        results: list[Trajectory | Reject] = []
        waiting = self._waiting
        while waiting and (until is None or waiting[0][0] <= until):
            results += self._reader.take(heapq.heappop(waiting)[2])
        return results

    def _sender(self, entry: dict[str, Any], message: Any) -> str:
        """Return the sender of a message whose entry names none: by its method, or by the Inspector's ids."""
        if entry["direction"] != "request" or not isinstance(message, dict):
            return SERVER
        key = message.get("id")
        sender = sender_of(plain_text(message.get("method"))) or (SERVER if _known(key, self._asked) else CLIENT)
        if sender == CLIENT and isinstance(key, _IDS):
            self._asked.add(key)
        return sender


def _known(key: Any, asked: set[str | int | float]) -> bool:
    """Return True if the Inspector gave that id to one of its own requests, which it does once per session."""
    return isinstance(key, _IDS) and key in asked


def _exchange(offset: int, entry: dict[str, Any]) -> Iterator[tuple[Message, str]]:
    """Yield the messages of a network entry, each with its channel; none for an exchange about authorization."""
    if entry["category"] == "auth":
        return
    asked, answered = entry.get("requestBody"), entry.get("responseBody")
    channel = _channel(entry)
    at = microseconds(entry.get("timestamp"))
    if isinstance(asked, str):
        for part in in_text(asked):
            yield Message(offset, part.body, CLIENT, at=at), channel
    if isinstance(answered, str):
        for part in in_text(answered):
            yield Message(offset, part.body, SERVER, text=part.text), channel


def _channel(entry: dict[str, Any]) -> str:
    """Return the key of a network log's session."""
    known = _session_id(entry.get("requestHeaders")) or _session_id(entry.get("responseHeaders"))
    return known or str(entry["url"])


def _is_refused(entry: dict[str, Any]) -> bool:
    """Check if HTTP refused a sent message, so that no message need answer it. (A GET for a stream sends none.)"""
    status, sent = entry.get("responseStatus"), isinstance(entry.get("requestBody"), str)
    return entry["category"] == "transport" and sent and isinstance(status, int | float) and status >= FAILED


def _session_id(headers: Any) -> str | None:
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if name.lower() == _SESSION_ID and isinstance(value, str) and value:
            return value
    return None
