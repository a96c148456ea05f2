"""Forms in which the wire of MCP is logged: what passed, written as recorders, clients and inspectors write it.

Nothing looks at what the messages mean, other than to pair a request with the response of the same exchange. The
functions of `STDIO` take the lines that passed between client and server (`mcp_wire.over_stdio`), those of `HTTP` the
exchanges of a client (`mcp_wire.over_http`); all give the bytes of the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import yaml

from samples.makers.mcp_wire import Exchange
from samples.writing.json_text import document, lines
from samples.writing.moments import zulu

Passed = list[dict[str, str]]


_lines: Final = partial(lines, escaped=False)
_document: Final = partial(document, escaped=False)


def _messages(passed: Passed) -> Passed:
    return [row for row in passed if row["way"] != "stderr"]


def envelopes(passed: Passed) -> bytes:
    """Messages in envelopes with time and direction, a line each."""
    return _lines(
        [
            {"timestamp": one["at"], "direction": one["way"], "message": json.loads(one["line"])}
            for one in _messages(passed)
        ]
    )


def arrows(passed: Passed) -> bytes:
    """Lines as they were, behind arrows, with the server's standard error between."""
    marks = {"client": "--> ", "server": "<-- ", "stderr": ""}
    return "".join(marks[one["way"]] + one["line"] for one in passed).encode()


def desktop(passed: Passed, name: str = "server") -> bytes:
    """The log that Claude Desktop keeps of a server."""
    text = ""
    for one in passed:
        when = zulu(datetime.fromisoformat(one["at"]))
        line = one["line"].rstrip("\n")
        if one["way"] == "stderr":
            text += line + "\n"
        else:
            text += f"{when} [{name}] [info] Message from {one['way']}: {line} {{ metadata: undefined }}\n"
    return text.encode()


def editor(passed: Passed) -> bytes:
    """The output channel that VS Code keeps of a server."""
    words = {"client": "[debug] [editor -> server]", "server": "[debug] [server -> editor]"}
    words["stderr"] = "[warning] [server stderr]"
    text = ""
    for one in passed:
        when = datetime.fromisoformat(one["at"]).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        text += f"{when} {words[one['way']]} {one['line']}"
    return text.encode()


def history(passed: Passed) -> bytes:
    """The messages as the MCP Inspector exports them: requests, notifications of the server, and what it answered.

    A response stands in the entry of its request; what the client answers and notifies is not kept.
    """
    entries: list[dict[str, Any]] = []
    waiting: dict[Any, tuple[datetime, dict[str, Any]]] = {}
    for number, one in enumerate(_messages(passed)):
        at, message = datetime.fromisoformat(one["at"]), json.loads(one["line"])
        asks = "method" in message and "id" in message
        entry = {"id": f"entry-{number}", "timestamp": zulu(at), "direction": "request", "origin": one["way"]}
        entry["message"] = message
        if one["way"] == "server" and not asks and "id" in message:
            began, request = waiting.pop(message["id"])
            # Times are those of a clock of milliseconds, as the Inspector's are.
            took = datetime.fromisoformat(zulu(at)) - datetime.fromisoformat(zulu(began))
            request |= {"response": message, "duration": round(took / timedelta(milliseconds=1))}
        elif asks or one["way"] == "server":
            entry["direction"] = "request" if asks else "notification"
            entries.append(entry)
            if asks and one["way"] == "client":
                waiting[message["id"]] = (at, entry)
    return _document(entries)


def network(exchanges: list[Exchange]) -> bytes:
    """The exchanges as the MCP Inspector exports them."""
    return _document([_network(one) for one in exchanges])


def _network(exchange: Exchange) -> dict[str, Any]:
    """An exchange as the Inspector keeps it: without the bodies of streams that stay open."""
    entry: dict[str, Any] = {"id": f"{exchange.at.timestamp():.6f}", "timestamp": zulu(exchange.at)}
    entry |= {"method": exchange.method, "url": exchange.url, "requestHeaders": dict(exchange.sent)}
    if exchange.asked:
        entry["requestBody"] = exchange.asked.decode()
    entry |= {"responseStatus": exchange.status, "responseHeaders": dict(exchange.received), "duration": 1}
    if exchange.method != "GET":
        entry["responseBody"] = exchange.body
    return {**entry, "category": "transport"}


def _events(exchange: Exchange) -> Iterator[tuple[datetime, Any]]:
    """The messages of an answer, each with the time at which its event was whole."""
    held = ""
    for at, piece in exchange.told:
        held += piece.decode().replace("\r\n", "\n")
        *whole, held = held.split("\n\n")
        for event in whole:
            data = "\n".join(line[5:].strip() for line in event.split("\n") if line.startswith("data:"))
            if data:
                yield at, json.loads(data)


def payloads(exchanges: list[Exchange]) -> bytes:
    """Messages in envelopes with time and direction, in the order in which they passed, a line each."""
    found: list[tuple[datetime, str, Any]] = []
    for one in exchanges:
        if one.method == "POST":
            found.append((one.at, "outgoing", json.loads(one.asked)))
        found += [(at, "incoming", message) for at, message in _events(one)]
    found.sort(key=lambda row: row[0])
    return _lines([{"ts": at.timestamp(), "dir": way, "payload": message} for at, way, message in found])


def exchanges_a_line(exchanges: list[Exchange]) -> bytes:
    """Requests and responses with their bodies, an exchange a line."""
    return _lines(
        [
            {
                "timestamp": one.at.isoformat(),
                "request": {"method": one.method, "url": one.url, "headers": one.sent, "body": one.asked.decode()},
                "response": {"status": one.status, "headers": one.received, "body": one.body},
            }
            for one in exchanges
        ]
    )


def vcr(exchanges: list[Exchange]) -> bytes:
    """A cassette of VCR."""
    told = [
        {
            "request": {"method": one.method, "uri": one.url, "headers": _listed(one.sent), "body": one.asked.decode()},
            "response": {
                "status": {"code": one.status, "message": ""},
                "headers": _listed(one.received),
                "body": {"string": one.body},
            },
        }
        for one in exchanges
    ]
    return yaml.safe_dump({"interactions": told, "version": 1}, allow_unicode=True).encode()


def cassette(exchanges: list[Exchange]) -> bytes:
    """A cassette of mcp-recorder."""
    pairs = [pair for one in exchanges if one.method == "POST" and (pair := _pair(one)) is not None]
    told = {"version": "1.0", "metadata": {"protocol_version": "2025-11-25"}, "interactions": pairs}
    return _document(told, 1)


def _listed(headers: list[tuple[str, str]]) -> dict[str, list[str]]:
    return {name: [value] for name, value in headers}


def _pair(exchange: Exchange) -> dict[str, Any] | None:
    """An exchange as mcp-recorder keeps it: a request and its response, without what the server asked between."""
    asked = json.loads(exchange.asked)
    if "method" not in asked:
        return None
    answers = [(at, one) for at, one in _events(exchange) if "method" not in one]
    known = {"request": asked, "response_status": exchange.status, "response_is_sse": True}
    if "id" not in asked:
        return {"type": "notification", **known, "response": None, "response_is_sse": False}
    ((at, answer),) = answers
    latency = (at - exchange.at) / timedelta(milliseconds=1)
    return {"type": "jsonrpc_request", **known, "response": answer, "latency_ms": round(latency, 3)}


STDIO: Final[Mapping[str, Callable[[Passed], bytes]]] = {
    "envelopes": envelopes,
    "arrows": arrows,
    "desktop": desktop,
    "editor": editor,
    "history": history,
}
HTTP: Final[Mapping[str, Callable[[list[Exchange]], bytes]]] = {
    "payloads": payloads,
    "exchanges": exchanges_a_line,
    "network": network,
    "vcr": vcr,
    "cassette": cassette,
}
"""Functions by the name of the form."""
