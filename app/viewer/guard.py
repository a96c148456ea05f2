"""Who may ask the viewer, and what a browser may do with its answers.

Asked is only by the name of this machine itself (which keeps out pages of others that rebind their name), and only with
the token of the address that the command printed, or the cookie that was set for it. Every answer forbids the browser
to run or load anything that does not come from here.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN: Final = "token"  # noqa: S105 - the name of the parameter
ADDRESS: Final = "127.0.0.1"
_NAMES: Final = (ADDRESS, "localhost")

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'; sandbox allow-same-origin allow-scripts allow-forms"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), clipboard-read=(), display-capture=()",
    "Cache-Control": "no-store",
}
"""Of every answer."""

_ENTER: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={0}">'
    '<title>trajmill</title><p><a href="{0}">Open</a></p></html>'
)
"""What the address with the token leads to: a page of our own, from which a cookie for us alone is sent on."""

_PATH: Final = re.compile(r"/(?:[A-Za-z0-9_.-][A-Za-z0-9_./-]*)?")
"""Where the token may lead: a page here, whose path needs no escape."""


class Guard:
    """An application behind the token.

    Args:
        app: what is guarded.
        token: that the address holds.
        port: that is served; names the cookie, since those of one machine share their cookies over all ports.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._cookie = f"trajmill_{port}"
        self._hosts = {f"{name}:{port}" for name in _NAMES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, or lets the application answer; always with `HEADERS`."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await self._answer(Request(scope))(scope, receive, guarded)

    def _answer(self, request: Request) -> ASGIApp:
        if request.headers.get("host", "") not in self._hosts:
            return PlainTextResponse("This page is served to this machine only.", 421)
        if request.method not in {"GET", "HEAD"}:
            return PlainTextResponse("Nothing is changed here.", 405)
        if _PATH.fullmatch(request.url.path) and self._is_token(request.query_params.get(TOKEN)):
            entered = HTMLResponse(_ENTER.format(request.url.path))
            entered.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
            return entered
        if self._is_token(request.cookies.get(self._cookie)):
            return self._app
        return PlainTextResponse("Open the address that `trajmill view` printed, with its token.", 403)

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self._token.encode())
