"""Lookup of JSON-RPC messages within their wrappers: envelopes, HTTP bodies, server-sent events, pairs.

A value is searched at the members in which recorders store messages, in the order request, notifications, response.
This module reads no file and pairs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from trajmill.connectors.reading.server_events import sse_data
from trajmill.connectors.reading.values import json_value

_WITHIN: Final = (
    "initialize_request",
    "initialize_response",
    "request",
    "request_body",
    "requestBody",
    "notifications",
    "message",
    "jsonrpc",
    "mcp_message",
    "mcpMessage",
    "rpc_message",
    "msg",
    "payload",
    "packet",
    "frame",
    "rpc",
    "jsonrpc_message",
    "data",
    "body",
    "parsed_body",
    "json",
    "content",
    "raw",
    "line",
    "string",
    "response",
    "response_body",
    "responseBody",
    "messages",
)
"""Members that hold messages, in search order."""

_LEVELS: Final = 5


def is_message(value: Any) -> bool:
    """Return True if the value is a JSON-RPC 2.0 message, or a batch of them."""
    if not isinstance(value, dict):
        listed = isinstance(value, list) and bool(value)
        return listed and all(isinstance(element, dict) and is_message(element) for element in value)
    if value.get("jsonrpc") != "2.0":
        return False
    return isinstance(value.get("method"), str) or "result" in value or "error" in value


class Found(NamedTuple):
    """A message or a batch, and the JSON text that holds it; None if it has no text of its own."""

    body: Any
    text: str | None = None


def messages(value: Any, levels: int = _LEVELS, text: str | None = None) -> Iterator[Found]:
    """Yield the messages and batches within a value, in order; text is read as JSON or as server-sent events.

    Args:
        value: the value to search.
        levels: number of nested levels to search.
        text: the text that the value was read from.
    """
    if is_message(value):
        yield Found(value, text)
    elif levels == 0:
        return
    elif isinstance(value, str):
        yield from in_text(value, levels)
    elif isinstance(value, list):
        for element in value:
            yield from messages(element, levels - 1, text)
    elif isinstance(value, dict):
        for name in _WITHIN:
            if value.get(name) is not None:
                yield from messages(value[name], levels - 1, text)


def in_text(text: str, levels: int = _LEVELS) -> Iterator[Found]:
    """Yield the messages and batches of a text that is JSON or a stream of server-sent events."""
    stripped = text.strip()
    if stripped[:1] in ("{", "["):
        try:
            value = json_value(stripped)
        except ValueError:
            return
        yield from messages(value, levels - 1, stripped)
    elif "data:" in stripped:
        for data in sse_data(text):
            if data[:1] in ("{", "["):
                yield from in_text(data, levels - 1)
