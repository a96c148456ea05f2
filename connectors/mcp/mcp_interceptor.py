r"""Traces of the explore-mcp interceptor, which logs the calls of the Python SDK's `ClientSession`, one object a line.

>>> show(McpInterceptor(), '''
... {"type": "request", "timestamp": "2025-10-23T23:02:53.1", "count": 3, "method": "call_tool", \
...  "args": ["look"], "kwargs": {"arguments": {"bed": 2}}}
... {"type": "response", "timestamp": "2025-10-23T23:02:53.2", "count": 3, "method": "call_tool", "error": null, \
...  "result": {"_type": "CallToolResult", "content": [{"_type": "TextContent", "type": "text", "text": "dry"}]}}
... ''')
action  | {"name": "look", "arguments": {"bed": 2}}
after   | dry

Two forms: requests and responses by themselves (`{type, timestamp, count, method, args, kwargs}` and `{…, result,
error}`, paired by `count`), and whole sessions (`{session_id, server_info, calls: […]}`, each call with its request,
response and `duration_ms`). Methods have the names of the SDK (`call_tool`) and are read as those of the protocol;
results carry the SDK's class names as `_type` and every unset field as null, which are taken off. Times have no zone,
so they are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.mcp.wire_reader import SessionReader
from trajmill.connectors.mcp.wire_session import CLIENT, SERVER, Message
from trajmill.connectors.reading.fields import plain_text
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.reading.times import seconds_of
from trajmill.schemas import Agent, Environment, ParseError, Reject, Trajectory

_METHODS: Final = {
    "initialize": ("initialize", ()),
    "list_tools": ("tools/list", ()),
    "call_tool": ("tools/call", ("name", "arguments")),
    "list_resources": ("resources/list", ()),
    "list_resource_templates": ("resources/templates/list", ()),
    "read_resource": ("resources/read", ("uri",)),
    "list_prompts": ("prompts/list", ()),
    "get_prompt": ("prompts/get", ("name", "arguments")),
    "complete": ("completion/complete", ("ref", "argument")),
}
"""Methods of the SDK that ask the server and get an answer: as the protocol names them, and their parameters by place.

Parameters that are none of the protocol are left out.
"""

_REQUEST: Final = re.compile(rb'\{\s*"type":\s*"request",\s*"timestamp":.{1,64}"count":\s*\d+,\s*"method":\s*"[a-z_]+"')
_SESSION: Final = re.compile(rb'\{\s*"session_id":\s*"[^"]{1,128}",\s*"server_info":\s*\{')
_NESTED: Final = frozenset({dict, list})


class McpInterceptor(Connector):
    """Traces of the explore-mcp interceptor."""

    name: ClassVar[str] = "mcp_interceptor"
    version: ClassVar[str] = "8"
    domains: ClassVar[tuple[str, ...]] = ("mcp", "search")
    title: ClassVar[str] = "explore-mcp interceptor trace (JSONL)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        begin = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if _REQUEST.match(begin) and b'"kwargs"' in begin:
            return Sniff(0.95, "first line is a numbered request with args and kwargs")
        if _SESSION.match(begin) and b'"calls"' in begin:
            return Sniff(0.95, "first line is a session with its server and its calls")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        reader = SessionReader(self.name, blob.uri)
        for offset, value in json_lines(blob):
            if isinstance(value, ParseError):
                yield Reject.of(value, connector=self.name)
                continue
            calls = value.get("calls") if isinstance(value, dict) else None
            if isinstance(value, dict) and isinstance(calls, list):
                channel = plain_text(value.get("session_id") or offset)
                reader.defaults[channel] = _server(value.get("server_info")), Agent()
                for message in _of_session(offset, calls):
                    yield from reader.take(message, channel)
            elif isinstance(value, dict) and value.get("type") in ("request", "response"):
                for message in _of_line(offset, value):
                    yield from reader.take(message)
            else:
                detail = "wanted a request, a response or a session"
                yield Reject("record", "bad_record", detail, blob.uri, offset=offset, connector=self.name)
        yield from reader.finish()
        if not reader.found:
            raise ParseError(blob.uri, -1, "no_transitions", "the trace holds no answered call")


def _server(info: Any) -> Environment:
    name = info.get("name") if isinstance(info, dict) else None
    return Environment(id=name if isinstance(name, str) else None)


def _of_line(offset: int, line: dict[str, Any]) -> Iterator[Message]:
    count = line.get("count")
    if line["type"] == "request":
        asked = _asked(offset, count, line)
        if asked is not None:
            yield asked
    elif plain_text(line.get("method")) in _METHODS:
        yield _told(offset, count, line, None)


def _of_session(offset: int, calls: list[Any]) -> Iterator[Message]:
    for number, call in enumerate(calls):
        request = call.get("request") if isinstance(call, dict) else None
        asked = _asked(offset, number, request) if isinstance(request, dict) else None
        if asked is not None:
            yield asked
            response = call.get("response")
            if isinstance(response, dict):
                yield _told(offset, number, response, call.get("duration_ms"))


def _asked(offset: int, number: Any, request: dict[str, Any]) -> Message | None:
    """The request as a message of the protocol; None if the method asks nothing."""
    known = request.get("method")
    if not isinstance(known, str) or known not in _METHODS:
        return None
    method, names = _METHODS[known]
    args, kwargs = request.get("args"), request.get("kwargs")
    params = dict(zip(names, args, strict=False)) if isinstance(args, list) else {}
    if isinstance(kwargs, dict):
        for name in names:
            if name in kwargs:
                params[name] = kwargs[name]
    return Message(offset, {"jsonrpc": "2.0", "id": number, "method": method, "params": _plain(params)}, CLIENT)


def _told(offset: int, number: Any, response: dict[str, Any], milliseconds: Any) -> Message:
    error = response.get("error")
    told = {"result": _plain(response.get("result"))} if error is None else {"error": error}
    return Message(offset, {"jsonrpc": "2.0", "id": number, **told}, SERVER, seconds=seconds_of(milliseconds))


def _plain(value: Any, levels: int = 64) -> Any:
    """`value` without the class names and unset fields that serialized objects of the SDK have; it may be changed."""
    if levels == 0:
        return value
    if type(value) is list:
        return [_plain(one, levels - 1) if type(one) in _NESTED else one for one in value]
    if type(value) is not dict:
        return value
    if "_type" in value:
        value = {key: one for key, one in value.items() if one is not None and key != "_type"}
    for key, one in value.items():
        if type(one) in _NESTED:
            value[key] = _plain(one, levels - 1)
    return value
