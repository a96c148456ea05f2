r"""Event logs of the Chrome DevTools Protocol: requests and web sockets, assembled from the events of their parts.

>>> show(Cdp(), '''
... [{"method": "Network.requestWillBeSent", "params": {"requestId": "7.1", "type": "XHR", "timestamp": 5.25,
...   "request": {"method": "GET", "url": "https://tides.example/low", "headers": {}}}},
...  {"method": "Network.responseReceived", "params": {"requestId": "7.1", "type": "XHR", "timestamp": 5.5,
...   "response": {"status": 200, "statusText": "", "headers": {}, "mimeType": "text/plain"}}},
...  {"method": "Network.getResponseBody", "params": {"requestId": "7.1"}, "result": {"body": "Low at 12:50"}}]
... ''')
action  | GET https://tides.example/low
after   | HTTP 200
        | content-type: text/plain
        |
        | Low at 12:50

Events (`{"method": "Network.requestWillBeSent", "params": {…}}`) are in an array or one per line, bare, or in the
entries of a driver's performance log (`{"level": …, "message": "{\"message\": {…}}"}`). A request is an action and its
response the next observation, as described in `exchange_steps`. Events are paired as follows (DevTools Protocol,
Network domain):

- All events of a request have its `requestId`, which a redirect keeps: `redirectResponse` ends one hop and begins the
  next. `responseReceived` states the response, `loadingFailed` why there was none. Each target (`sessionId`: a tab, a
  frame, a worker) numbers its requests itself, so one id in two targets means two requests.
- `requestWillBeSentExtraInfo` has the headers that were really sent, and may come before or after its request. In a
  chain of redirects the nth belongs to the nth hop; if their number differs from that of the hops, none is used. The
  status of `responseReceivedExtraInfo` is used if it is 304, which the browser shows as the 200 of its cache.
- Events are processed in the order of the log. A request whose event comes before the first answer of its group began
  without knowledge of that answer. `timestamp` counts seconds from an unknown beginning, which follows from the
  `wallTime` of any request. Times are kept, but not used for sorting.
- Bodies are not part of the protocol's events. They are read if the recorder added them: `response.body` of
  `responseReceived`, or the answer of `Network.getResponseBody`. Otherwise the response is marked as cut by the
  recorder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.documents import array_values
from trajmill.connectors.reading.fields import number_of, object_of, str_of
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.reading.values import BOM, value_or_none
from trajmill.connectors.web.bodies import Body, byte_body, media_type_of, text_body, unbase64
from trajmill.connectors.web.exchange import Exchange, Message
from trajmill.connectors.web.exchange_steps import trajectories
from trajmill.connectors.web.exchange_text import READ_HEADERS
from trajmill.connectors.web.request_kind import kind_of
from trajmill.schemas import ParseError, Reject, Trajectory

_DOMAINS: Final = rb"(?:Network|Page|Target|Runtime|Log|Security|DOM|Fetch|Inspector|Performance)"
_PLAIN: Final = re.compile(rb'\\?"method\\?"\s*:\s*\\?"(?:Network|Page)\.[a-z]\w+\\?"')
_FIRST: Final = re.compile(rb'\s*\[?\s*\{\s*"method"\s*:\s*"' + _DOMAINS + rb'\.[a-z]\w+"')
_READ: Final = frozenset(
    f"Network.{name}"
    for name in (
        "requestWillBeSent",
        "requestWillBeSentExtraInfo",
        "responseReceived",
        "responseReceivedExtraInfo",
        "loadingFinished",
        "loadingFailed",
        "getResponseBody",
        "eventSourceMessageReceived",
        "webSocketCreated",
        "webSocketWillSendHandshakeRequest",
        "webSocketHandshakeResponseReceived",
        "webSocketFrameSent",
        "webSocketFrameReceived",
    )
)
_FRAME: Final = "Page.frameAttached"
_TARGET: Final = "Target.attachedToTarget"
_MAX_TIME: Final = 1e11
_ENVELOPES: Final = 3


class Cdp(Connector):
    """Event logs of the Chrome DevTools Protocol."""

    name: ClassVar[str] = "cdp"
    version: ClassVar[str] = "13"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "Chrome DevTools Protocol events (performance logs)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        data = head.removeprefix(BOM).lstrip()
        if data[:1] not in (b"[", b"{"):
            return None
        if _FIRST.match(data):
            return Sniff(0.92, "begins with an event of the DevTools Protocol")
        named = b'"Network.' in data or b'"Page.' in data
        if named and len(_PLAIN.findall(data)) > 1 and (b'"params' in data or b'\\"params' in data):
            return Sniff(0.7, "holds events of the DevTools Protocol")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        reader = _Reader()
        is_any, failure = False, None
        try:
            for offset, value in _values(blob):
                if isinstance(value, ParseError):
                    is_any = True
                    yield Reject.of(value, connector=self.name)
                else:
                    reader.take(offset, value)
        except ParseError as error:
            failure = error
        for trajectory in trajectories(reader.exchanges(), blob.choices):
            is_any = True
            if any(step.next_observation is not None for step in trajectory.steps):
                yield trajectory
            else:
                detail = f"none of the {len(trajectory.steps)} requests has a response"
                first_offset = trajectory.steps[0].offset
                yield Reject("record", "no_observation", detail, blob.uri, "", first_offset, self.name)
        if failure is not None:
            raise failure
        if not is_any:
            raise ParseError(blob.uri, -1, "no_transitions", "the log holds no request for a document or data")


def _values(blob: Blob) -> Iterator[tuple[int, Any]]:
    """Yield (offset, value) of each element or line; the value is a `ParseError` if it is no JSON."""
    with blob.open() as stream:
        head = stream.read(4096).removeprefix(BOM).lstrip()
    if head[:1] != b"[":
        yield from json_lines(blob)
        return
    with blob.open() as stream:
        for offset, value, _ in array_values(stream, blob.uri, ()):
            yield offset, value


def _event(value: Any) -> dict[str, Any] | None:
    """Return an event with its method, taken out of its envelopes; None if the value is no event."""
    for _ in range(_ENVELOPES):
        if isinstance(value, str):
            value = value_or_none(value)
        if not isinstance(value, dict):
            break
        if isinstance(value.get("method"), str):
            return value
        value = value.get("message")
    return None


def _session(value: Any) -> str:
    """Return the target of an event; empty if the log does not distinguish targets."""
    session = value.get("sessionId") if isinstance(value, dict) else None
    if session is None and isinstance(value, dict) and isinstance(value.get("message"), dict):
        session = value["message"].get("sessionId")
    return session if isinstance(session, str) else ""


@dataclass(slots=True)
class _Hop:
    """A request, filled by its events. Times are in the log's seconds; `first` and `last` are event numbers."""

    offset: int
    first: int
    method: str
    url: str
    headers: dict[str, str]
    body: Body | None
    word: str
    began: float | None
    ended: float | None = None
    response: dict[str, Any] | None = None
    answer: Body | None = None
    error: str | None = None
    told: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    status: int | None = None
    last: int | None = None
    session: str = ""
    asked_by: str = ""
    framed: bool = False


class _Reader:
    """Requests in the order in which they began, built from the events processed so far."""

    def __init__(self) -> None:
        self._hops: dict[str, list[_Hop]] = {}
        self._order: list[_Hop] = []
        self._sent: dict[str, list[dict[str, str]]] = {}
        self._statuses: dict[str, list[Any]] = {}
        self._wall: float | None = None
        self._number = 0
        self._session = ""
        self._apart: dict[tuple[str, str], str] = {}
        self._asked: dict[tuple[str, int], dict[str, Any]] = {}
        self._frames: set[str] = set()
        self._frame_sessions: set[str] = set()

    def take(self, offset: int, value: Any) -> None:
        """Process one event; anything that is no event of a request is ignored."""
        self._number += 1
        event = _event(value)
        if event is None:
            event = self._answered(value) if self._asked and isinstance(value, dict) else None
        if event is not None and event["method"] == _FRAME:
            self._frames.add(str_of(object_of(event.get("params")).get("frameId")))
        elif event is not None and event["method"] == _TARGET:
            params = object_of(event.get("params"))
            if object_of(params.get("targetInfo")).get("type") == "iframe":
                self._frame_sessions.add(str_of(params.get("sessionId")))
        elif event is not None and event["method"] in _READ:
            self._session = _session(value)
            self._of_request(offset, event)

    def _of_request(self, offset: int, event: dict[str, Any]) -> None:
        method, params = event["method"], object_of(event.get("params"))
        key = params.get("requestId")
        if not isinstance(key, str):
            return
        if method == "Network.getResponseBody" and "result" not in event:
            if isinstance(event.get("id"), int):
                self._asked[self._session, event["id"]] = params
            return
        key = self._known_apart(key, method, params)
        if method == "Network.requestWillBeSent":
            self._begin(offset, key, params)
        elif method == "Network.webSocketCreated":
            self._add(key, _Hop(offset, self._number, "GET", str_of(params.get("url")), {}, None, "websocket", None))
        elif method == "Network.requestWillBeSentExtraInfo":
            self._sent.setdefault(key, []).append(_headers(params.get("headers")))
        elif method == "Network.responseReceivedExtraInfo":
            self._statuses.setdefault(key, []).append(params.get("statusCode"))
        elif method in ("Network.webSocketFrameSent", "Network.webSocketFrameReceived"):
            self._frame(offset, key, params, method.endswith("Sent"))
        elif key in self._hops:
            self._continue(self._hops[key][-1], method, params, object_of(event.get("result")))

    def _answered(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a request for a body, which names the request only by its number, as an event."""
        ident = value.get("id")
        asked = self._asked.pop((_session(value), ident), None) if isinstance(ident, int) else None
        if asked is None:
            return None
        return {"method": "Network.getResponseBody", "params": asked, "result": value.get("result")}

    def _known_apart(self, key: str, method: str, params: dict[str, Any]) -> str:
        """Return the request's id, made unique if a request of another target has the same id."""
        if method != "Network.requestWillBeSent":
            return self._apart.get((self._session, key), key) if self._apart else key
        begins = not isinstance(params.get("redirectResponse"), dict)
        if begins and key in self._hops and self._hops[key][-1].session != self._session:
            self._apart[self._session, key] = f"{key} {self._session}"
        return self._apart.get((self._session, key), key)

    def _add(self, key: str, hop: _Hop) -> None:
        hop.session = self._session
        self._hops.setdefault(key, []).append(hop)
        self._order.append(hop)

    def _begin(self, offset: int, key: str, params: dict[str, Any]) -> None:
        request = object_of(params.get("request"))
        url, at, wall = str_of(request.get("url")), _time(params.get("timestamp")), _time(params.get("wallTime"))
        redirected = params.get("redirectResponse")
        if isinstance(redirected, dict) and key in self._hops:
            before = self._hops[key][-1]
            before.response, before.ended, before.last = redirected, at, self._number
        if not url:
            return
        if self._wall is None and at is not None and wall is not None:
            self._wall = wall - at
        headers = _headers(request.get("headers"))
        method = str_of(request.get("method")).upper() or "GET"
        word = str_of(params.get("type")).lower()
        hop = _Hop(offset, self._number, method, url, headers, _request_body(request, headers), word, at)
        # A frame of another process is not attached in the log of its page: its target or the page's parser tells.
        by_parser = object_of(params.get("initiator")).get("type") == "parser"
        in_frame = str_of(params.get("frameId")) in self._frames or self._session in self._frame_sessions
        hop.framed = by_parser or in_frame
        hop.asked_by = str_of(params.get("documentURL"))
        self._add(key, hop)

    def _frame(self, offset: int, key: str, params: dict[str, Any], sent: bool) -> None:
        if key not in self._hops:
            # The socket was opened before the log began, so its address is unknown.
            self._add(key, _Hop(offset, self._number, "GET", "", {}, None, "websocket", None))
        frame = object_of(params.get("response"))
        data = str_of(frame.get("payloadData"))
        raw = unbase64(data) if frame.get("opcode") == 2 else None
        body = Body(data) if raw is None else byte_body(raw, "")
        self._hops[key][-1].messages.append(Message(sent, body, _time(params.get("timestamp"))))

    def _continue(self, hop: _Hop, method: str, params: dict[str, Any], result: dict[str, Any]) -> None:
        at = _time(params.get("timestamp"))
        if method in ("Network.responseReceived", "Network.webSocketHandshakeResponseReceived"):
            hop.response = object_of(params.get("response"))
            hop.word = str_of(params.get("type")).lower() or hop.word
            hop.ended, hop.last = at, self._number
            hop.answer = _body_beside(hop.response, hop.response) or hop.answer
        elif method == "Network.loadingFinished":
            hop.ended, hop.last = at, self._number
        elif method == "Network.loadingFailed":
            hop.ended, hop.last, hop.error = at, self._number, str_of(params.get("errorText")) or None
        elif method == "Network.webSocketWillSendHandshakeRequest":
            hop.headers, hop.began = _headers(object_of(params.get("request")).get("headers")), at
            wall = _time(params.get("wallTime"))
            if self._wall is None and at is not None and wall is not None:
                self._wall = wall - at
        elif method == "Network.getResponseBody":
            hop.answer = _body_beside(result, hop.response or {}) or hop.answer
        elif method == "Network.eventSourceMessageReceived":
            name = str_of(params.get("eventName"))
            lines = [f"event: {name}"] * bool(name) + [
                f"data: {line}" for line in str_of(params.get("data")).split("\n")
            ]
            hop.told.append("\n".join(lines))

    def exchanges(self) -> list[Exchange]:
        """Return the requests in the order in which they began."""
        for key, hops in self._hops.items():
            sent, statuses = self._sent.get(key, []), self._statuses.get(key, [])
            for number, hop in enumerate(hops):
                if len(sent) == len(hops):
                    hop.headers = hop.headers | sent[number]
                if len(statuses) == len(hops) and statuses[number] == 304:
                    hop.status = 304
        keys = {id(hop): key for key, hops in self._hops.items() for hop in hops}
        return [self._exchange(hop, keys[id(hop)]) for hop in self._order]

    def _exchange(self, hop: _Hop, key: str) -> Exchange:
        response = hop.response or {}
        received = _headers(response.get("headers"))
        mime_type = str_of(response.get("mimeType"))
        if "content-type" not in received and mime_type:
            received["content-type"] = mime_type
        status = number_of(hop.status or response.get("status"), 1000, 100)
        answer = hop.answer
        if hop.told:
            answer = Body("\n\n".join(hop.told), "text/event-stream")
        if answer is None and hop.word != "websocket" and received.get("content-length") != "0":
            answer = Body(media_type=media_type_of(mime_type), lost=True)
        duration = hop.ended - hop.began if hop.ended is not None and hop.began is not None else None
        return Exchange(
            offset=hop.offset,
            page="",
            method=hop.method,
            url=hop.url,
            headers=hop.headers,
            body=hop.body,
            kind=kind_of(hop.word, hop.method, hop.url, hop.headers, media_type_of(mime_type)),
            status=int(status) if status is not None else None,
            phrase=str_of(response.get("statusText")),
            received=received,
            answer=answer if status is not None else None,
            error=hop.error,
            started=self._microseconds(hop.began),
            duration=round(duration, 6) if duration is not None and duration >= 0 else None,
            messages=tuple(hop.messages),
            word="iframe" if hop.framed and hop.word == "document" else hop.word,
            asked_by=hop.asked_by,
            request_id=key,
            began=hop.first,
            # A request without an end ran beside all that followed.
            ended=self._number + 1 if hop.last is None else hop.last,
        )

    def _microseconds(self, at: float | None) -> int | None:
        if at is None or self._wall is None or not 31_536_000 < at + self._wall < 250_000_000_000:
            return None
        return round((at + self._wall) * 1_000_000)


def _body_beside(holder: dict[str, Any], response: dict[str, Any]) -> Body | None:
    """Return the body that a recorder put beside a response; None if there is none."""
    text = holder.get("body")
    if not isinstance(text, str):
        return None
    headers = _headers(response.get("headers"))
    kind, coding = headers.get("content-type") or str_of(response.get("mimeType")), headers.get("content-encoding", "")
    if holder.get("base64Encoded") is True or holder.get("encoding") == "base64":
        data = unbase64(text)
        return Body(media_type=media_type_of(kind), lost=True) if data is None else byte_body(data, kind, coding)
    return text_body(text, kind, coding)


def _request_body(request: dict[str, Any], headers: dict[str, str]) -> Body | None:
    """Return the body of a request; None if it has none, lost if the log states one but does not hold it."""
    kind = headers.get("content-type", "")
    if isinstance(request.get("postData"), str):
        return text_body(request["postData"], kind, headers.get("content-encoding", ""))
    entries = request.get("postDataEntries")
    parts = [unbase64(str_of(object_of(entry).get("bytes"))) for entry in entries] if isinstance(entries, list) else []
    decoded = [part for part in parts if part is not None]
    if decoded and len(decoded) == len(parts):
        return byte_body(b"".join(decoded), kind, headers.get("content-encoding", ""))
    return Body(media_type=media_type_of(kind), lost=True) if request.get("hasPostData") is True else None


def _headers(value: Any) -> dict[str, str]:
    """Return the headers that are read, by lower-case name."""
    pairs = value.items() if isinstance(value, dict) else ()
    return {low: text for name, text in pairs if (low := name.lower()) in READ_HEADERS and isinstance(text, str)}


def _time(value: Any) -> float | None:
    return number_of(value, _MAX_TIME, 0)
