"""HTTP exchanges and web sockets as transitions: a request is an action, what came back the next observation.

A network recording holds no act of a person, so the browser's own requests stand for them. What is carried on and how:

- Documents and data (XHR, fetch, forms, event streams); requests for images, fonts, style sheets and scripts only where
  the recipe asks for them (`Choices.static_assets`), a browser's own preflights never.
- A chain of redirects that the log holds hop by hop is one transition: the browser followed it without asking.
- Requests that began before any answer of their group was there could not depend on one: they are parallel calls of one
  turn. Where the log does not tell when, each request is a turn of its own.
- The messages of a web socket are a trajectory of their own: what was sent up to the next message received is one
  action, and what then came up to the next one sent its observation.

Exchanges are taken in the order in which they are given: `har` and `cdp` say what that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from functools import lru_cache
from heapq import heappop, heappush
from itertools import chain as chained
from operator import attrgetter
from typing import Any, Final
from urllib.parse import urldefrag, urljoin, urlsplit

from connectors.connector import Choices
from connectors.outline import Chosen
from connectors.web.action import HTTP_REQUEST, WEBSOCKET_SEND
from connectors.web.bodies import Body
from connectors.web.markup import html_document
from connectors.web.page import page_of
from schemas import Action, Attachment, Environment, Observation, Step, Steps, Trajectory, json_text
from schemas.record import record

MEDIA_TYPE: Final = "message/http"

DATA, ASSET, PREFLIGHT = "data", "asset", "preflight"

SENT_HEADERS: Final = frozenset(
    {"accept", "content-type", "if-match", "if-modified-since", "if-none-match", "range", "x-requested-with"}
)
"""Request headers that an answer depends on and that are no secret."""

_TOLD_HEADERS: Final = ("content-type", "range", "if-match", "if-none-match", "if-modified-since")
RECEIVED_HEADERS: Final = ("content-type", "location", "retry-after")
READ_HEADERS: Final = SENT_HEADERS.union(
    RECEIVED_HEADERS, ("access-control-request-method", "content-encoding", "content-length", "sec-fetch-dest")
)
"""Headers that anything is told by; a recording has ten times as many."""
_BODILESS: Final = frozenset({101, 204, 205, 304})
_LATER_HOPS: Final = 64
"""How many requests behind a redirect its target is looked for."""

_ASSET_TYPES: Final = ("image/", "font/", "audio/", "video/", "text/css", "application/font", "application/x-font")
_ASSETS: Final = frozenset(
    {
        "text/javascript",
        "application/javascript",
        "application/x-javascript",
        "application/ecmascript",
        "text/ecmascript",
        "application/wasm",
        "application/manifest+json",
        "application/vnd.ms-fontobject",
        "application/vnd.apple.mpegurl",
        "application/dash+xml",
        "application/x-mpegurl",
        "text/vtt",
    }
)
_ASSET_WORDS: Final = frozenset(
    {"image", "imageset", "stylesheet", "script", "font", "media", "manifest", "texttrack", "style", "audio", "video"}
    | {
        "track",
        "worker",
        "serviceworker",
        "sharedworker",
        "paintworklet",
        "audioworklet",
        "css",
        "js",
        "signedexchange",
    }
)
_DATA_WORDS: Final = frozenset(
    {"document", "xhr", "fetch", "eventsource", "websocket", "iframe", "frame", "ping", "beacon", "navigate", "html"}
)
_LOCAL: Final = ("data:", "blob:", "about:", "chrome-extension:", "moz-extension:")
_ENDINGS: Final = frozenset(
    {"css", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "webp", "avif", "ico", "svg", "bmp", "woff", "woff2"}
    | {"ttf", "otf", "eot", "mp3", "mp4", "webm", "ogg", "wav", "m4a", "m4s", "ts"}
)

TREE_DIALECT: Final = "http+uitree/1"
"""The dialect of a response whose body is the compact tree of the page that it is."""


@record
class Message:
    """A message of a web socket; `at` in seconds of any clock, None if not told."""

    sent: bool
    body: Body
    at: float | None = None


@record
class Exchange:
    """A request and what came back, as far as the log holds it.

    Attributes:
        offset: where the log's record of it begins, in `member`.
        page: the log's id of the page it belongs to; empty if none.
        method, url, headers, body: of the request; header names in lower case.
        kind: `DATA`, `ASSET` or `PREFLIGHT`; see `kind_of`.
        status: of the response; None if none came.
        phrase: its reason phrase; empty if there was none.
        received: its headers; `content-type` also where only the recorder told it.
        answer: its body; None if it has none.
        error: why no response came, in the browser's words.
        started: microseconds since 1970 UTC.
        duration: seconds up to the end of the response.
        began, ended: where it began and ended on any one scale of the log, such as microseconds or the number of an
            event; None if that is not known. They tell which requests ran side by side, and nothing else.
        messages: of a web socket.
        request_id: what the log calls the request, which hops of one chain of redirects share; empty if it has no ids.
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
    request_id: str = ""
    began: int | None = None
    ended: int | None = None


_TOLD: Final = attrgetter(*(told.name for told in fields(Exchange)))
_PLACES: Final = {told.name: place for place, told in enumerate(fields(Exchange))}
_OF_BODY: Final = attrgetter(*(told.name for told in fields(Body)))
_BODY: Final = _PLACES["body"]
_ANSWER: Final = _PLACES["answer"]
_MESSAGES: Final = _PLACES["messages"]


def packed(one: Exchange) -> list[Any]:
    """The exchange as plain values; see `unpacked`."""
    values = list(_TOLD(one))
    for place in (_BODY, _ANSWER):
        values[place] = values[place] and _OF_BODY(values[place])
    values[_MESSAGES] = [(message.sent, _OF_BODY(message.body), message.at) for message in one.messages]
    return values


def unpacked(values: list[Any]) -> Exchange:
    """The inverse of `packed`."""
    for place in (_BODY, _ANSWER):
        values[place] = values[place] and Body(*values[place])
    values[_MESSAGES] = tuple(Message(sent, Body(*body), at) for sent, body, at in values[_MESSAGES])
    return Exchange(*values)


def kind_of(word: str, method: str, url: str, headers: Mapping[str, str], media_type: str) -> str:
    """`DATA`, `ASSET` or `PREFLIGHT`: whether a request is one for data or for what a page is drawn with.

    Args:
        word: the recorder's own word for it, lower case; empty if it has none.
        method: upper case.
        url: of the request.
        headers: of the request, names in lower case.
        media_type: of the response, without parameters; empty if not told.
    """
    if url.startswith(_LOCAL):
        return ASSET
    if word == "preflight" or (method == "OPTIONS" and "access-control-request-method" in headers):
        return PREFLIGHT
    for told in (word, headers.get("sec-fetch-dest", "").lower()):
        if told in _ASSET_WORDS:
            return ASSET
        if told in _DATA_WORDS:
            return DATA
    if method not in ("GET", "HEAD") or "x-requested-with" in headers:
        return DATA
    if media_type in _ASSETS or media_type.startswith(_ASSET_TYPES):
        return ASSET
    if media_type and media_type not in ("application/octet-stream", "binary/octet-stream", "text/plain"):
        return DATA
    accept = headers.get("accept", "")
    path = urlsplit_safe(url)[1]
    ending = path.rpartition("/")[2].rpartition(".")[2].lower() if "." in path else ""
    return ASSET if accept.startswith(("text/css", "image/")) or ending in _ENDINGS else DATA


def urlsplit_safe(url: str) -> tuple[str, str]:
    """(host with port, path) of a URL; empty where it has none or cannot be read."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.netloc.rpartition("@")[2], parts.path


def trajectories(exchanges: Sequence[Exchange], choices: Choices, native: str = "") -> Iterator[Trajectory]:
    """The trajectories of a recording: one a page, in the order in which pages begin, then one a web socket of it.

    Trajectories without any answer are yielded too: whether they are carried on is for the caller to say.

    Args:
        exchanges: in the order in which they began.
        choices: whether static assets are carried on, and whether bodies of HTML become the compact tree.
        native: stands before each page's id in the native ids.
    """
    pages: dict[str, list[tuple[int, bool]]] = {}
    for place, one in enumerate(exchanges):
        pages.setdefault(one.page, []).append((place, bool(one.messages)))
    for page, found in pages.items():
        requests = Chosen(exchanges, (place for place, socket in found if not socket))
        carried = (chain for chain in _chains(requests) if _is_carried(chain, choices.static_assets))
        name = f"{native}{page}"
        first = next(carried, None)
        if first is not None:
            steps = _steps(chained([first], carried), choices.screen == "tree")
            yield Trajectory(name, "web", steps, Environment(id=_host(first[0].url)))
        for number, place in enumerate(place for place, socket in found if socket):
            one = exchanges[place]
            sent = list(_socket_steps(one))
            if not sent:
                continue
            yield Trajectory(f"{name}#websocket-{number}", "web", sent, Environment(id=_host(one.url)))


def _host(url: str) -> str | None:
    return urlsplit_safe(url)[0] or None


def _is_carried(chain: Sequence[Exchange], static_assets: bool) -> bool:
    kind = chain[-1].kind
    if kind == ASSET and chain[0].method not in ("GET", "HEAD"):
        return True
    return kind == DATA or (kind == ASSET and static_assets)


def _chains(exchanges: Sequence[Exchange]) -> Iterator[list[Exchange]]:
    """The exchanges, each with the hops that its redirects led to."""
    taken: set[int] = set()
    for place, one in enumerate(exchanges):
        if place in taken:
            continue
        chain, at = [one], place
        while (target := _target(chain[-1])) is not None:
            near = range(at + 1, min(len(exchanges), at + 1 + _LATER_HOPS))
            hop = next((n for n in near if n not in taken and _leads(chain[-1], target, exchanges[n])), None)
            if hop is None:
                break
            taken.add(hop)
            chain.append(exchanges[hop])
            at = hop
        yield chain


def _target(one: Exchange) -> str | None:
    """Where a redirect leads, without fragment; None if it is none."""
    location = one.received.get("location")
    if one.status not in (301, 302, 303, 307, 308) or not location:
        return None
    try:
        return urldefrag(urljoin(one.url, location))[0]
    except ValueError:
        return None


def _leads(before: Exchange, target: str, after: Exchange) -> bool:
    try:
        url = urldefrag(after.url)[0]
    except ValueError:
        return False
    same = before.method == after.method
    kept = before.status in (307, 308)
    return (
        url == target
        and before.request_id == after.request_id
        and (same or (not kept and after.method in ("GET", "HEAD")))
    )


def _turns(chains: Iterable[list[Exchange]]) -> Iterator[list[list[Exchange]]]:
    """The chains in groups within which no request began after an answer was there."""
    group: list[list[Exchange]] = []
    until: int | None = None
    for chain in chains:
        begin, end = chain[0].began, chain[-1].ended
        together = until is not None and begin is not None and begin < until and end is not None
        if group and not together:
            yield group
            group, until = [], None
        group.append(chain)
        until = end if len(group) == 1 else None if until is None or end is None else min(until, end)
    if group:
        yield group


def _steps(chains: Iterable[list[Exchange]], tree: bool) -> Steps:
    steps = Steps()
    seen = _Seen()
    for turn, group in enumerate(_turns(chains)):
        before = seen.before(group[0][0].began)
        for index, chain in enumerate(group):
            first, last = chain[0], chain[-1]
            step = Step(
                action=_action(first),
                observation=before,
                next_observation=_answer(chain, tree),
                turn=turn,
                offset=first.offset,
                member=first.member,
                call_index=index,
                num_calls=len(group),
                started_at=first.started,
                duration_s=_duration(first, last),
            )
            steps.append(step)
            seen.add(last.ended, step.next_observation)
    return steps


class _Seen:
    """The answers so far, for the one that had come last when a request began; requests are asked in their order."""

    def __init__(self) -> None:
        self._last: Observation | None = None
        self._coming: list[tuple[int, int, Observation | None]] = []
        self._number = 0

    def add(self, ended: int | None, answer: Observation | None) -> None:
        """Takes in the answer of a request of the turn that was asked for last, and when it had come."""
        self._number += 1
        if ended is None:
            self._last = answer
        else:
            heappush(self._coming, (ended, self._number, answer))

    def before(self, began: int | None) -> Observation | None:
        """The answer that came last before then; where that is not known, the last of the turn before."""
        while self._coming and (began is None or self._coming[0][0] <= began):
            self._last = heappop(self._coming)[2]
        return self._last


def _duration(first: Exchange, last: Exchange) -> float | None:
    """Seconds from the beginning of a chain to its end; None where one is not known or they are turned."""
    if first.started is None or last.started is None or last.duration is None:
        return None
    took = last.started + round(last.duration * 1_000_000) - first.started
    return took / 1_000_000 if took >= 0 else None


def _action(one: Exchange) -> Action:
    """The request as an action: `GET url`, the headers its answer depends on, and its body."""
    kept = {name: value for name, value in one.headers.items() if name in SENT_HEADERS}
    arguments: dict[str, Any] = {"method": one.method, "url": one.url}
    if kept:
        arguments["headers"] = kept
    lines = [f"{one.method} {one.url}".strip()]
    body = one.body
    lines += [f"{name}: {kept[name]}" for name in _TOLD_HEADERS if name in kept and (name != "content-type" or body)]
    if body is not None:
        text = _body_text(body)
        arguments["body"] = body.text
        if body.sha256 is not None:
            arguments |= {"body_sha256": body.sha256, "body_bytes": body.size}
        lines += ["", text]
    return Action(HTTP_REQUEST, "\n".join(lines), json_text(arguments))


def _body_text(body: Body) -> str:
    """A body as its text, or a line that says what it is."""
    if body.text is not None:
        return body.text
    size = f"{body.size} bytes" if body.size is not None else "not in the log"
    return f"({body.media_type or 'body'}, {size})"


def _answer(chain: Sequence[Exchange], tree: bool) -> Observation | None:
    """What came back: status line, headers and body of each hop of a chain; None if nothing did.

    An error of the browser, such as `net::ERR_NAME_NOT_RESOLVED`, is shown in place of a response.
    """
    parts: list[str] = []
    attachments: list[Attachment] = []
    lost, dialect = False, None
    for one in chain:
        if one.status is None:
            continue
        head = [f"HTTP {one.status} {one.phrase}".rstrip()]
        head += [f"{name}: {one.received[name]}" for name in RECEIVED_HEADERS if one.received.get(name)]
        body = one.answer
        bodiless = one.method == "HEAD" or one.status in _BODILESS or one is not chain[-1]
        lost = body is not None and body.lost and not bodiless
        if body is not None and (found := body.attachment()):
            attachments.append(found)
        text = body.text if body is not None else None
        if text and tree and body is not None and "html" in body.media_type and (shown := _page(text, one.url)):
            text, dialect = shown, TREE_DIALECT
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
        attachments=tuple(attachments),
    )


def _page(text: str, url: str) -> str:
    """The compact tree of a page of HTML; empty where it shows nothing, or nests too deeply to be a page."""
    return _known_page(text, url) if len(text) <= _REMEMBERED else _new_page(text, url)


def _new_page(text: str, url: str) -> str:
    try:
        return page_of(html_document(text), url).text
    except ValueError:
        return ""


_REMEMBERED: Final = 1 << 17
"""Characters of a page that is remembered: what a page asks for again and again is short."""
_known_page: Final = lru_cache(maxsize=32)(_new_page)


def _socket_steps(one: Exchange) -> Iterator[Step]:
    """The steps of a web socket: its opening, then each run of messages sent with the run received after it.

    A socket without a URL was opened before the log began: what was received first is then an observation only.
    """
    runs: list[tuple[list[Message], list[Message]]] = [([], [])]
    for message in one.messages:
        if message.sent and (runs[-1][1] or len(runs) == 1):
            runs.append(([], []))
        runs[-1][0 if message.sent else 1].append(message)
    before = _answer([one], tree=False)
    greeting = runs[0][1]
    if greeting:
        told = _received(one, greeting)
        if before is None:
            before = told
        else:
            content = f"{before.content}\n\n{told.content}"
            before = Observation(content, MEDIA_TYPE, uri=one.url, attachments=told.attachments)
    opened = bool(one.url)
    if opened:
        yield Step(_action(one), None, before, 0, one.offset, one.member, started_at=one.started)
    for turn, (sent, received) in enumerate(runs[1:], int(opened)):
        after = _received(one, received) if received else None
        at, end = sent[0].at, received[0].at if received else None
        duration = round(end - at, 6) if at is not None and end is not None and end >= at else None
        action = _sent(one, sent)
        yield Step(action, before, after, turn, one.offset, one.member, duration_s=duration)
        before = after


def _sent(one: Exchange, messages: Sequence[Message]) -> Action:
    texts = [_body_text(message.body) for message in messages]
    return Action(WEBSOCKET_SEND, "\n".join(texts), json_text({"url": one.url or None, "messages": texts}))


def _received(one: Exchange, messages: Sequence[Message]) -> Observation:
    attachments = [found for message in messages if (found := message.body.attachment())]
    lost = any(message.body.lost for message in messages)
    return Observation(
        "\n".join(_body_text(message.body) for message in messages),
        form="stream",
        truncation="recorder" if lost else "none",
        uri=one.url or None,
        attachments=tuple(attachments),
    )
