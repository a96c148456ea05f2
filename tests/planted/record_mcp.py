"""Drives a real MCP server through the known calls, over stdio and over HTTP on loopback, and records the wire.

    python -m tests.planted.record_mcp FOLDER

What is recorded is what passed: lines of stdio (`stdio_tee`), and HTTP requests and responses as the client's
transport sent and received them. From these the logs are written in the forms that are read, without a look at what
the messages mean, other than to pair a request with the response of the same exchange:

- `stdio.jsonl`, `http.jsonl`: messages in envelopes with time and direction, in the order in which they passed;
- `stdio.log`: lines as they were, behind arrows, with the server's standard error between;
- `mcp-server-planted.log`, `editor.log`: in the forms of Claude Desktop and of VS Code's output channel;
- `inspector-history.json`, `inspector-network.json`: in the forms in which the MCP Inspector exports them;
- `exchanges.jsonl`, `exchanges.yaml` (VCR), `cassette.json` (mcp-recorder): HTTP exchanges by their beginning.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import anyio
import httpx
import mcp.types as wire
import uvicorn
import yaml
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl

from tests.planted.mcp_server import planted_app
from tests.planted.mcp_truth import CALLS, CLIENT, REPLY, McpCall

ROOT: Final = Path(__file__).parents[2]
BETWEEN_S: Final = 0.1
PATIENCE_S: Final = 30.0


@dataclass(slots=True)
class Exchange:
    """An HTTP exchange: what was asked, and the pieces of the answer with the time of each."""

    at: datetime
    method: str
    url: str
    sent: list[tuple[str, str]]
    asked: bytes
    status: int = 0
    received: list[tuple[str, str]] = field(default_factory=list)
    told: list[tuple[datetime, bytes]] = field(default_factory=list)

    @property
    def body(self) -> str:
        return b"".join(data for _, data in self.told).decode()


class RecordingTransport(httpx.AsyncHTTPTransport):
    """Sends requests as ever and notes what is sent and received."""

    def __init__(self, exchanges: list[Exchange]) -> None:
        super().__init__()
        self._exchanges = exchanges

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asked = await request.aread()
        one = Exchange(datetime.now(UTC), request.method, str(request.url), list(request.headers.items()), asked)
        self._exchanges.append(one)
        response = await super().handle_async_request(request)
        one.status, one.received = response.status_code, list(response.headers.items())
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = RecordingStream(response.stream, one)
        return response


class RecordingStream(httpx.AsyncByteStream):
    """A stream whose pieces are noted in its exchange."""

    def __init__(self, stream: httpx.AsyncByteStream, exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._exchange.told.append((datetime.now(UTC), piece))
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _reply(context: Any, params: wire.CreateMessageRequestParams) -> wire.CreateMessageResult:
    """What the client's model says to a server that asks it."""
    content = wire.TextContent(type="text", text=REPLY)
    return wire.CreateMessageResult(role="assistant", content=content, model="scripted")


async def drive(incoming: Any, outgoing: Any) -> None:
    """Makes the known calls in one session."""
    info = wire.Implementation(name=CLIENT[0], version=CLIENT[1])
    with anyio.fail_after(PATIENCE_S):
        async with ClientSession(incoming, outgoing, sampling_callback=_reply, client_info=info) as session:
            await session.initialize()
            await session.list_tools()
            at = 0
            while at < len(CALLS):
                end = at + 1
                while end < len(CALLS) and CALLS[end].together:
                    end += 1
                async with anyio.create_task_group() as group:
                    for call in CALLS[at:end]:
                        group.start_soon(_call, session, call)
                        await anyio.sleep(BETWEEN_S)
                at = end


async def _call(session: ClientSession, call: McpCall) -> None:
    if not call.is_tool:
        await session.read_resource(AnyUrl(call.arguments["uri"]))
        return
    try:
        await session.call_tool(call.name, call.arguments, progress_callback=_progress)
    except McpError:
        if not call.is_error:
            raise


async def _progress(progress: float, total: float | None, message: str | None) -> None:
    """Takes progress in; that there is a callback makes the client ask for it."""


async def record_stdio(log: Path) -> None:
    """Makes the calls of a server over stdio; what passed is in `log`."""
    command = ["-m", "tests.planted.stdio_tee", str(log), sys.executable, "-m", "tests.planted.mcp_server"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    asked = StdioServerParameters(command=sys.executable, args=command, env=env, cwd=ROOT)
    with open(os.devnull, "w") as nowhere:
        async with stdio_client(asked, errlog=nowhere) as (incoming, outgoing):
            await drive(incoming, outgoing)


async def record_http() -> list[Exchange]:
    """The exchanges of the same calls over streamable HTTP, in the order in which they began."""
    exchanges: list[Exchange] = []

    def client(
        headers: dict[str, str] | None = None, timeout: httpx.Timeout | None = None, auth: httpx.Auth | None = None
    ) -> httpx.AsyncClient:
        transport = RecordingTransport(exchanges)
        return httpx.AsyncClient(
            headers=headers, timeout=timeout, auth=auth, transport=transport, follow_redirects=True, trust_env=False
        )

    with served() as url:
        async with streamablehttp_client(url, httpx_client_factory=client) as (incoming, outgoing, _):
            await drive(incoming, outgoing)
    return exchanges


@contextmanager
def served() -> Iterator[str]:
    """The address of the server, which runs on loopback until the block ends."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(planted_app(), log_level="error", timeout_graceful_shutdown=2)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + PATIENCE_S
        while not server.started:
            if time.monotonic() > deadline:
                raise RuntimeError("the server does not start")
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp/"
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)


def record(folder: Path) -> None:
    """Makes the calls over both transports and leaves the logs in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = folder / "tee.raw"
    anyio.run(record_stdio, raw)
    passed = [json.loads(line) for line in raw.read_text("utf-8").splitlines()]
    raw.unlink()
    _write_stdio(folder, passed)
    exchanges = anyio.run(record_http)
    _write_messages(folder / "http.jsonl", exchanges)
    _write_exchanges(folder, exchanges)


def _lines(path: Path, rows: list[Any]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def _write_stdio(folder: Path, passed: list[dict[str, str]]) -> None:
    messages = [row for row in passed if row["way"] != "stderr"]
    _lines(
        folder / "stdio.jsonl",
        [{"timestamp": one["at"], "direction": one["way"], "message": json.loads(one["line"])} for one in messages],
    )
    arrows = {"client": "--> ", "server": "<-- ", "stderr": ""}
    (folder / "stdio.log").write_text("".join(arrows[one["way"]] + one["line"] for one in passed), "utf-8")
    desktop = ""
    for one in passed:
        when = datetime.fromisoformat(one["at"]).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        line = one["line"].rstrip("\n")
        if one["way"] == "stderr":
            desktop += line + "\n"
        else:
            desktop += f"{when} [planted] [info] Message from {one['way']}: {line} {{ metadata: undefined }}\n"
    (folder / "mcp-server-planted.log").write_text(desktop, "utf-8")
    words = {"client": "[debug] [editor -> server]", "server": "[debug] [server -> editor]"}
    words["stderr"] = "[warning] [server stderr]"
    editor = ""
    for one in passed:
        when = datetime.fromisoformat(one["at"]).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        editor += f"{when} {words[one['way']]} {one['line']}"
    (folder / "editor.log").write_text(editor, "utf-8")
    _write_history(folder / "inspector-history.json", messages)


def _write_history(path: Path, messages: list[dict[str, str]]) -> None:
    """Writes the messages as the Inspector keeps them: all requests, notifications of the server, and what it answered.

    A response stands in the entry of its request; what the client answers and notifies is not kept.
    """
    entries: list[dict[str, Any]] = []
    waiting: dict[Any, tuple[datetime, dict[str, Any]]] = {}
    for number, one in enumerate(messages):
        at, message = datetime.fromisoformat(one["at"]), json.loads(one["line"])
        asks = "method" in message and "id" in message
        entry = {"id": f"entry-{number}", "timestamp": _milliseconds(at), "direction": "request", "origin": one["way"]}
        entry["message"] = message
        if one["way"] == "server" and not asks and "id" in message:
            began, request = waiting.pop(message["id"])
            # Times are those of a clock of milliseconds, as the Inspector's are.
            passed = datetime.fromisoformat(_milliseconds(at)) - datetime.fromisoformat(_milliseconds(began))
            request |= {"response": message, "duration": round(passed / timedelta(milliseconds=1))}
        elif asks or one["way"] == "server":
            entry["direction"] = "request" if asks else "notification"
            entries.append(entry)
            if asks and one["way"] == "client":
                waiting[message["id"]] = (at, entry)
    path.write_text(json.dumps(entries, indent=2, ensure_ascii=False), "utf-8")


def _milliseconds(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _network(exchange: Exchange) -> dict[str, Any]:
    """An exchange as the Inspector keeps it: without the bodies of streams that stay open."""
    entry: dict[str, Any] = {"id": f"{exchange.at.timestamp():.6f}", "timestamp": _milliseconds(exchange.at)}
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


def _write_messages(path: Path, exchanges: list[Exchange]) -> None:
    found: list[tuple[datetime, str, Any]] = []
    for one in exchanges:
        if one.method == "POST":
            found.append((one.at, "outgoing", json.loads(one.asked)))
        found += [(at, "incoming", message) for at, message in _events(one)]
    found.sort(key=lambda row: row[0])
    _lines(path, [{"ts": at.timestamp(), "dir": way, "payload": message} for at, way, message in found])


def _write_exchanges(folder: Path, exchanges: list[Exchange]) -> None:
    rows = [
        {
            "timestamp": one.at.isoformat(),
            "request": {"method": one.method, "url": one.url, "headers": one.sent, "body": one.asked.decode()},
            "response": {"status": one.status, "headers": one.received, "body": one.body},
        }
        for one in exchanges
    ]
    _lines(folder / "exchanges.jsonl", rows)
    network = [_network(one) for one in exchanges]
    (folder / "inspector-network.json").write_text(json.dumps(network, indent=2, ensure_ascii=False), "utf-8")
    vcr = [
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
    text = yaml.safe_dump({"interactions": vcr, "version": 1}, allow_unicode=True)
    (folder / "exchanges.yaml").write_text(text, "utf-8")
    pairs = [pair for one in exchanges if one.method == "POST" and (pair := _pair(one)) is not None]
    cassette = {"version": "1.0", "metadata": {"protocol_version": "2025-11-25"}, "interactions": pairs}
    (folder / "cassette.json").write_text(json.dumps(cassette, indent=1, ensure_ascii=False), "utf-8")


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


def main() -> None:
    """Records into the folder that the command line names."""
    # The SDK logs it as an error that a client hangs up while its stream is open.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description="Records known calls of an MCP server in every form.")
    parser.add_argument("folder", type=Path)
    record(parser.parse_args().folder)


if __name__ == "__main__":
    main()
