"""The wire of MCP as it passes: lines of stdio between two processes, HTTP exchanges of a client on loopback.

What is taken is what passed, unchanged. It does not say in which form it is kept (`mcp_forms`), nor what is called.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
import uvicorn
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from starlette.applications import Starlette

ROOT: Final = Path(__file__).parents[2]
PATIENCE_S: Final = 240.0
"""After which what is waited for hangs; a machine that is busy with others takes a minute to start a server."""

Drive = Callable[[Any, Any], Awaitable[None]]
"""What a client does with the two streams of a transport."""


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
    """Notes what is sent and received; what is for another host is sent to the one that really serves it."""

    def __init__(self, exchanges: list[Exchange], served: str) -> None:
        super().__init__()
        self._exchanges = exchanges
        self._served = httpx.URL(served)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asked = await request.aread()
        one = Exchange(datetime.now(UTC), request.method, str(request.url), list(request.headers.items()), asked)
        self._exchanges.append(one)
        request.url = request.url.copy_with(host=self._served.host, port=self._served.port)
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


async def over_stdio(drive: Drive, log: Path, module: str, *arguments: str) -> list[dict[str, str]]:
    """What passed while a client was driven: when (`at`), which way (`way`), and the `line`.

    Args:
        drive: what the client does.
        log: where `stdio_tee` writes; it is taken away afterwards.
        module: of the server.
        arguments: of the server.
    """
    command = ["-m", "samples.makers.stdio_tee", str(log), sys.executable, "-m", module, *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    asked = StdioServerParameters(command=sys.executable, args=command, env=env, cwd=ROOT)
    with open(os.devnull, "w") as nowhere:
        async with stdio_client(asked, errlog=nowhere) as (incoming, outgoing):
            await drive(incoming, outgoing)
    passed = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    log.unlink()
    return passed


async def over_http(drive: Drive, app: Starlette, url: str) -> list[Exchange]:
    """The exchanges of a client that was driven, in the order in which they began.

    Args:
        drive: what the client does.
        app: the server.
        url: where the client takes it to be; its host need not exist.
    """
    exchanges: list[Exchange] = []
    with served(app) as place:

        def client(
            headers: dict[str, str] | None = None, timeout: httpx.Timeout | None = None, auth: httpx.Auth | None = None
        ) -> httpx.AsyncClient:
            transport = RecordingTransport(exchanges, place)
            return httpx.AsyncClient(
                headers=headers, timeout=timeout, auth=auth, transport=transport, follow_redirects=True, trust_env=False
            )

        async with streamablehttp_client(url, httpx_client_factory=client) as (incoming, outgoing, _):
            await drive(incoming, outgoing)
    return exchanges


@contextmanager
def served(app: Starlette) -> Iterator[str]:
    """The address of the server, which runs on loopback until the block ends."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=2)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + PATIENCE_S
        while not server.started:
            if time.monotonic() > deadline:
                raise RuntimeError("the server does not start")
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
