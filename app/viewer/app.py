"""Routes of the viewer: each maps a request and the open contents to a page.

Requests must address this machine by its own name (which prevents DNS rebinding), and carry the token of the printed
address or the cookie that was set for it. Every answer forbids the browser to run or load anything from elsewhere.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trajmill.app.pages.contents import Contents
from trajmill.app.pages.markup import STYLE, environment
from trajmill.app.viewer import pages
from trajmill.app.viewer.steps import image_type
from trajmill.schemas import ConfigError, ShardError

TOKEN: Final = "token"  # noqa: S105 - the name of the parameter
ADDRESS: Final = "127.0.0.1"
_NAMES: Final = (ADDRESS, "localhost")

_POLICY: Final = "Content-Security-Policy"
HEADERS: Final[Mapping[str, str]] = {
    _POLICY: (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'; sandbox allow-same-origin allow-scripts allow-forms allow-downloads"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), clipboard-read=(), display-capture=()",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""

_ENTER: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={0}">'
    '<title>trajmill</title><p><a href="{0}">Open</a></p></html>'
)
"""Page behind the address with the token. A page of the same origin lets the browser send the strict cookie."""

_PATH: Final = re.compile(r"/(?:[A-Za-z0-9_.-][A-Za-z0-9_./-]*)?")
"""Pattern of paths to which the token may lead: pages of the viewer whose path needs no escape."""


class Guard:
    """Application behind the token.

    Args:
        port: Port of the server; it names the cookie, since all ports of a machine share their cookies.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._cookie = f"trajmill_{port}"
        self._hosts = {f"{name}:{port}" for name in _NAMES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the application answer; always with `HEADERS`."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
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

    def _is_token(self, candidate: str | None) -> bool:
        return candidate is not None and hmac.compare_digest(candidate.encode(), self._token.encode())


_HERE: Final = Path(__file__).with_name("templates")
_STATIC: Final = {
    "looking.css": (STYLE, "text/css"),
    "viewer.css": (_HERE / "viewer.css", "text/css"),
    "icon.svg": (_HERE / "icon.svg", "image/svg+xml"),
    "viewer.js": (_HERE / "viewer.js", "text/javascript"),
}
_PAGES: Final[tuple[tuple[str, str, Callable[[pages.Pages, Request], dict[str, Any]]], ...]] = (
    ("/", "browse.html", pages.browse),
    ("/search", "search.html", pages.search),
    ("/t/{key}", "transcript.html", pages.transcript),
    ("/t/{key}/sample", "trained.html", pages.trained),
    ("/t/{key}/{step:int}", "step.html", pages.step),
    ("/t/{key}/{step:int}/raw", "raw.html", pages.raw),
    ("/copies", "copies.html", pages.copy_list),
    ("/copies/{key}", "copy.html", pages.copy_pair),
    ("/rejects", "rejects.html", pages.reject_list),
    ("/rejects/{number:int}", "reject.html", pages.reject),
    ("/samples", "samples.html", pages.sample_list),
    ("/samples/{pool}/{domain}/{number:int}", "sample.html", pages.sample),
)
"""Address, template, and the function that makes the template's values."""


_LATE: Final = ("trajmill.pipelines.plan.plan", "trajmill.pipelines.recipe.recipe_file", "trajmill.quality.scrub")
"""Modules that only some pages need: those of raw bytes and of samples."""


def viewer(contents: Contents, token: str, port: int) -> Guard:
    """Build the application that serves the contents on a port of this machine, to clients with the token."""
    templates, shared = _templates(), pages.Pages(contents)

    def page(template: str, build: Callable[[pages.Pages, Request], dict[str, Any]]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            try:
                values = build(shared, request)
            except ShardError as error:
                raise HTTPException(500, str(error)) from error
            rendered = templates.get_template(template).render(contents=contents, path=request.url.path, **values)
            return HTMLResponse(rendered)

        return answer

    def failed(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = error.detail if isinstance(error, HTTPException) else "This page cannot be made."
        body = templates.get_template("error.html").render(
            contents=contents, path=request.url.path, status=status, detail=detail
        )
        return HTMLResponse(body, status)

    def image(request: Request) -> Response:
        data = pages.attachment(shared, request)
        kind = image_type(data)
        if kind is None:
            raise HTTPException(415, "This attachment is no image, and is not served.")
        return Response(data, media_type=kind)

    def download(request: Request) -> Response:
        name, text = pages.download(shared, request)
        return PlainTextResponse(text, headers={"Content-Disposition": f'attachment; filename="{name}"'})

    def whole_report(request: Request) -> Response:  # noqa: ARG001 - as routes are called
        if contents.files is None:
            raise HTTPException(404, "A raw log has no report.")
        policy = HEADERS[_POLICY].replace(
            "style-src 'self'", "style-src 'unsafe-inline'"
        )  # the page allows its own alone
        return HTMLResponse(shared.report, headers={_POLICY: policy})

    routes = [
        Route("/report", whole_report),
        *(Route(address, page(template, build_page)) for address, template, build_page in _PAGES),
        Route("/t/{key}/{step:int}/{side}/{number:int}", image),
        Route("/download/{name}.{kind}", download),
        Route("/static/{name}", _static),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={HTTPException: failed, 500: failed}), token, port)


def prepare(contents: Contents) -> None:
    """Prepare the first page in advance, once the index is read."""
    with suppress(ShardError, ConfigError):  # which the pages tell
        contents.trajectory("")
        _ = contents.rejects
    for name in _templates().list_templates(["html"]):
        _templates().get_template(name)
    for module in _LATE:
        import_module(module)


@lru_cache
def _templates() -> Environment:
    return environment(_HERE)


@lru_cache
def _file(name: str) -> tuple[bytes, str]:
    if name not in _STATIC:
        raise HTTPException(404, "There is no such file.")
    path, kind = _STATIC[name]
    return path.read_bytes(), kind


def _static(request: Request) -> Response:
    data, kind = _file(request.path_params["name"])
    return Response(data, media_type=kind)
