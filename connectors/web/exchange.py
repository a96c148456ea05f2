"""HTTP exchanges and web socket messages as records, for all log formats.

A record can be converted to plain values and back, since a `Pile` keeps the exchanges of long logs on disk.
`exchange_steps` makes transitions of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from operator import attrgetter
from typing import Any, Final
from urllib.parse import urldefrag, urljoin

from trajmill.connectors.web.bodies import Body
from trajmill.schemas.record import record


@record
class Message:
    """A message of a web socket; `at` is in seconds of any clock, None if not stated."""

    sent: bool
    body: Body
    at: float | None = None


@record
class Exchange:
    """A request and its response, as far as the log holds them.

    Attributes:
        offset: offset of the log's record of the exchange in `member`.
        page: the log's id of the page it belongs to; empty if none.
        method, url, headers, body: fields of the request; header names in lower case.
        kind: `DATA`, `ASSET` or `PREFLIGHT`; see `request_kind`.
        status: status of the response; None if there was none.
        phrase: reason phrase of the response; empty if there was none.
        received: headers of the response; `content-type` also if only the recorder stated it.
        answer: body of the response; None if it has none.
        error: why there was no response, in the browser's words.
        started: microseconds since 1970 UTC.
        duration: seconds up to the end of the response.
        began, ended: beginning and end on any one scale of the log, such as microseconds or the number of an event;
            None if unknown. They are used only to find requests that ran side by side.
        messages: messages of a web socket.
        word: the recorder's own word for the request's purpose, lower case; empty if it has none.
        asked_by: URL of the page that made the request; empty if not stated.
        request_id: the log's id of the request, shared by the hops of a chain of redirects; empty if it has no ids.
    """

    offset: int
    page: str
    method: str
    url: str
    headers: Mapping[str, str]
    body: Body | None
    kind: str
    status: int | None
    phrase: str = ""
    received: Mapping[str, str] = field(default_factory=dict)
    answer: Body | None = None
    error: str | None = None
    started: int | None = None
    duration: float | None = None
    messages: tuple[Message, ...] = ()
    member: str = ""
    word: str = ""
    asked_by: str = ""
    request_id: str = ""
    began: int | None = None
    ended: int | None = None


def redirect_target(exchange: Exchange) -> str | None:
    """Return the target of a redirect, without fragment; None if the response is no redirect."""
    location = exchange.received.get("location")
    if exchange.status not in (301, 302, 303, 307, 308) or not location:
        return None
    try:
        return urldefrag(urljoin(exchange.url, location))[0]
    except ValueError:
        return None


_TOLD: Final = attrgetter(*(told.name for told in fields(Exchange)))
_PLACES: Final = {told.name: place for place, told in enumerate(fields(Exchange))}
_OF_BODY: Final = attrgetter(*(told.name for told in fields(Body)))
_BODY: Final = _PLACES["body"]
_ANSWER: Final = _PLACES["answer"]
_MESSAGES: Final = _PLACES["messages"]


def pack(exchange: Exchange) -> list[Any]:
    """Convert the exchange to plain values; see `unpack`."""
    values = list(_TOLD(exchange))
    for index in (_BODY, _ANSWER):
        values[index] = values[index] and _OF_BODY(values[index])
    values[_MESSAGES] = [(message.sent, _OF_BODY(message.body), message.at) for message in exchange.messages]
    return values


def unpack(values: list[Any]) -> Exchange:
    """Invert `pack`."""
    for index in (_BODY, _ANSWER):
        values[index] = values[index] and Body(*values[index])
    values[_MESSAGES] = tuple(Message(sent, Body(*body), at) for sent, body, at in values[_MESSAGES])
    return Exchange(*values)
