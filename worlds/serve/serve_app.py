"""A served world over HTTP: `POST /reset`, `/step` and `/close`, `GET /status` and `/scenarios`; JSON in, JSON out.

Requests must use the names under which it serves, which prevents DNS rebinding. They must send JSON, which other web
pages cannot send without permission, and must carry a token if it serves beyond this machine.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from trajmill.worlds.serve.serve_client import ServeError
from trajmill.worlds.serve.sessions import Sessions

LOOPBACK: Final = ("127.0.0.1", "localhost")
_LARGEST: Final = 8 << 20
"""Most bytes of a request."""

_LISTED: Final = 1000
"""Ids of scenarios in one listing."""

_SWEEP_S: Final = 5.0


def build_app(sessions: Sessions, token: str = "", names: tuple[str, ...] = ()) -> ASGIApp:
    """Build the application that serves sessions.

    Args:
        sessions: Served sessions; they end when the application is shut down.
        token: Token of requests; empty for none.
        names: Names with port under which it may be addressed; empty for no check.
    """

    async def posted(request: Request, done: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]) -> JSONResponse:
        try:
            return JSONResponse(await done(await _body(request)))
        except ServeError as error:
            return JSONResponse(error.body, error.status)

    async def reset(request: Request) -> JSONResponse:
        return await posted(request, sessions.reset)

    async def step(request: Request) -> JSONResponse:
        return await posted(request, sessions.step)

    async def close(request: Request) -> JSONResponse:
        return await posted(request, sessions.close)

    async def status(_: Request) -> JSONResponse:
        return JSONResponse(sessions.status())

    async def scenarios(request: Request) -> JSONResponse:
        begin = request.query_params.get("from", "0")
        first = int(begin) if begin.isascii() and begin.isdigit() else 0
        ids = list(islice(sessions.scenarios.ids(), first, first + _LISTED))
        return JSONResponse({"scenarios": ids, "from": first, "all": len(sessions.scenarios)})

    routes = [
        Route("/reset", reset, methods=["POST"]),
        Route("/step", step, methods=["POST"]),
        Route("/close", close, methods=["POST"]),
        Route("/status", status),
        Route("/scenarios", scenarios),
    ]
    return _Guard(Starlette(routes=routes, lifespan=_lifespan(sessions)), token, names)


def _lifespan(sessions: Sessions) -> Callable[[Starlette], Any]:
    @asynccontextmanager
    async def alive(_: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweeping(sessions))
        try:
            yield
        finally:
            sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await sweeping
            sessions.close_all()

    return alive


async def _sweeping(sessions: Sessions) -> None:
    while True:
        await asyncio.sleep(min(_SWEEP_S, max(0.05, sessions.limits.idle_s / 4)))
        sessions.sweep()


async def _body(request: Request) -> Mapping[str, Any]:
    """Parse the JSON object of a request."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ServeError(415, "no_json", "Wanted is a body of type application/json.")
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > _LARGEST:
            raise ServeError(413, "too_large", f"A request has at most {_LARGEST:,} bytes.")
    try:
        value = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise ServeError(400, "no_json", "The body is no JSON.") from error
    if not isinstance(value, dict):
        raise ServeError(400, "bad_request", "The body is no JSON object.")
    return value


class _Guard:
    """Application behind a check of host names and of a token."""

    def __init__(self, app: ASGIApp, token: str, names: tuple[str, ...]) -> None:
        self._app, self._token, self._names = app, token, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the application answer."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(Request(scope))(scope, receive, send)

    def _answer(self, request: Request) -> ASGIApp:
        if self._names and request.headers.get("host", "") not in self._names:
            return PlainTextResponse("This world is served under other names.", 421)
        if self._token and not self._is_token(request.headers.get("authorization", "")):
            return JSONResponse({"status": "no_token", "detail": "Wanted is 'Authorization: Bearer …'."}, 401)
        return self._app

    def _is_token(self, header: str) -> bool:
        kind, _, token = header.partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token.encode())
