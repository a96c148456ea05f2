"""Text of a request as an action and of its answer as an observation, with the headers that are shown.

An HTML body is shown as the compact tree of its page if the recipe asks for trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trajmill.connectors.conversation.references import referring
from trajmill.connectors.web.action import HTTP_REQUEST, WEBSOCKET_SEND
from trajmill.connectors.web.bodies import Body
from trajmill.connectors.web.exchange import Exchange, Message
from trajmill.connectors.web.exchange_pages import Pages
from trajmill.connectors.web.request_role import DOCUMENT, Page
from trajmill.schemas import Action, Attachment, Observation, json_text

MEDIA_TYPE: Final = "message/http"

SENT_HEADERS: Final = frozenset(
    {"accept", "content-type", "if-match", "if-modified-since", "if-none-match", "range", "x-requested-with"}
)
"""Request headers that affect an answer and are no secret."""

_TOLD_HEADERS: Final = ("content-type", "range", "if-match", "if-none-match", "if-modified-since")
RECEIVED_HEADERS: Final = ("content-type", "location", "retry-after")
READ_HEADERS: Final = SENT_HEADERS.union(
    RECEIVED_HEADERS,
    ("access-control-request-method", "content-encoding", "content-length", "origin", "referer", "sec-fetch-dest"),
)
"""The headers that are read; a recording has ten times as many."""

_BODILESS: Final = frozenset({101, 204, 205, 304})
"""Statuses of responses without a body. A recorder may show the browser's cached copy as the body of a 304."""

TREE_DIALECT: Final = "http+uitree/1"
"""Dialect of a response whose HTML body is shown as a compact tree."""


def request_of(chain: Sequence[Exchange], page: Page) -> Action:
    """Return a request with its redirects as an action: `GET url`, the headers its answer depends on, and its body.

    The request's role for its page is in the arguments: `resource_type`, and `third_party` if the log states it.
    """
    exchange = chain[0]
    headers = {name: value for name, value in exchange.headers.items() if name in SENT_HEADERS}
    arguments: dict[str, Any] = {"method": exchange.method, "url": exchange.url, **_role(chain, page)}
    if headers:
        arguments["headers"] = headers
    lines = [f"{exchange.method} {exchange.url}".strip()]
    body = exchange.body
    lines += [
        f"{name}: {headers[name]}" for name in _TOLD_HEADERS if name in headers and (name != "content-type" or body)
    ]
    if body is not None:
        text = _body_text(body)
        arguments["body"] = body.text
        if body.sha256 is not None:
            arguments |= {"body_sha256": body.sha256, "body_bytes": body.size}
        lines += ["", text]
    return Action(HTTP_REQUEST, "\n".join(lines), json_text(arguments))


def _role(chain: Sequence[Exchange], page: Page) -> dict[str, Any]:
    role, is_third_party = page.role(chain), page.is_other_site(chain[0])
    return {"resource_type": role} | (
        {"third_party": is_third_party} if is_third_party is not None and role != DOCUMENT else {}
    )


def _body_text(body: Body) -> str:
    """Return a body's text, or a line that describes the body."""
    if body.text is not None:
        return body.text
    size = f"{body.size} bytes" if body.size is not None else "not in the log"
    return f"({body.media_type or 'body'}, {size})"


def answer_of(chain: Sequence[Exchange], pages: Pages | None = None) -> Observation | None:
    """Return the response of a chain: status line, headers and body of each hop; None if there is no response.

    An error of the browser, such as `net::ERR_NAME_NOT_RESOLVED`, is shown in place of a response. `pages` converts
    HTML bodies to compact trees; without it they stay as they are.
    """
    parts: list[str] = []
    attachments: list[Attachment] = []
    sensitive: tuple[str, ...] = ()
    lost, dialect = False, None
    for exchange in chain:
        if exchange.status is None:
            continue
        head = [f"HTTP {exchange.status} {exchange.phrase}".rstrip()]
        head += [f"{name}: {exchange.received[name]}" for name in RECEIVED_HEADERS if exchange.received.get(name)]
        bodiless = exchange.method == "HEAD" or exchange.status in _BODILESS
        body = None if bodiless else exchange.answer
        lost = body is not None and body.lost and exchange is chain[-1]
        if body is not None and (file := body.attachment()):
            attachments.append(file)
        text, opaque = referring(body.text) if body is not None and body.text else (None, ())
        attachments += opaque
        if text and pages is not None and body is not None and "html" in body.media_type:
            shown, masked = pages.tree(text, exchange.url)
            sensitive += masked
            text, dialect = (shown, TREE_DIALECT) if shown else (text, dialect)
        parts.append("\n".join([*head, "", text] if text else head))
    last = chain[-1]
    if last.status is None and last.error:
        parts.append(last.error)
    if not parts:
        return None
    failed = last.status is None or last.status >= 400
    cut = "recorder" if lost or (last.status is None and not last.error) else "none"
    content = "\n\n".join(parts)
    return Observation(
        content,
        MEDIA_TYPE,
        "response",
        dialect,
        is_error=failed,
        truncation=cut,
        uri=last.url,
        sensitive=sensitive,
        attachments=tuple(attachments),
    )


def sent_of(exchange: Exchange, messages: Sequence[Message], page: Page) -> Action:
    """Return a run of messages sent over a web socket as one action."""
    texts = [_body_text(message.body) for message in messages]
    arguments = {"url": exchange.url or None, **_role([exchange], page), "messages": texts}
    return Action(WEBSOCKET_SEND, "\n".join(texts), json_text(arguments))


def answer_of_messages(exchange: Exchange, messages: Sequence[Message]) -> Observation:
    """Return a run of messages received over a web socket as one observation."""
    attachments = [file for message in messages if (file := message.body.attachment())]
    lost = any(message.body.lost for message in messages)
    content, opaque = referring("\n".join(_body_text(message.body) for message in messages))
    return Observation(
        content,
        form="stream",
        truncation="recorder" if lost else "none",
        uri=exchange.url or None,
        attachments=(*attachments, *opaque),
    )
