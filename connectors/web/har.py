"""HTTP archives (HAR 1.1 and 1.2), as browsers, proxies and test tools write them: requests and their responses.

>>> show(Har(), '''
... {"log": {"version": "1.2", "creator": {"name": "WebInspector", "version": "537.36"}, "pages": [], "entries": [
...     {"startedDateTime": "2026-03-01T06:00:00.000Z", "time": 30,
...      "request": {"method": "GET", "url": "https://tides.example/", "httpVersion": "http/2.0", "headers": []},
...      "response": {"status": 200, "statusText": "OK", "httpVersion": "http/2.0", "headers": [], "content":
...          {"size": 48, "mimeType": "text/html", "text": "<h1>Tides</h1><a href=/table?day=2>Tomorrow</a>"}}}]}}
... ''')
action  | GET https://tides.example/
after   | HTTP 200 OK
        | content-type: text/html
        |
        | #1 document value="https://tides.example/"
        |   #2 h1 "Tides"
        |   #3 link "Tomorrow" value="/table?day=2"

A recording holds no actions of a person, so a request is the action and its response the next observation.
`exchange_steps` describes which requests are kept and how they are grouped. The supported dialects are those of Chrome,
Firefox, Safari, Playwright, mitmproxy, Charles, browsertime, WebPageTest and the clients that follow them.

- `content.text` is the body, in base64 if `encoding` says so. Proxies leave a content coding on, and some recorders
  write base64, hex or the characters of packed bytes without a mark (`bodies`). Recorders that were not asked for
  bodies leave `text` out. Such a response has only a status line and headers, and is marked as cut by the recorder. So
  is a response whose text is less than a third of its `size` (removed from the log by hand, or cut). A body without
  text whose size is 0 is no body.
- Playwright keeps bodies in files beside the log (`content._file`), or together with it in a zip archive (`.har.zip`).
  Only files of the same folder or archive are read.
- Status 0: there was no response. `_error`, `_failureText` or similar fields state the reason in the browser's words.
- `_webSocketMessages`: data of opcode 2 is base64; control frames (opcodes 8 to 10) are no messages. Messages are
  sorted by their times.

The order of entries has no meaning: HAR 1.2 (`entries`) leaves sorting to the reader, and recorders list entries by
beginning, by end or in no order. They are read in the order in which they began if all entries of a page state it, else
as they are listed (docs/decisions/requests-without-a-person.md).

Entries are read one at a time and only kept entries are stored, so the log may be larger than memory. An entry that is
no JSON is rejected, and a log that is cut ends after its last complete entry.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, BinaryIO, ClassVar, Final
from urllib.parse import urlencode

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.reading.archive import Archive
from trajmill.connectors.reading.documents import array_values
from trajmill.connectors.reading.fields import number_of, object_of, str_of, whole_number_of
from trajmill.connectors.reading.large.outline import Chosen
from trajmill.connectors.reading.times import microseconds
from trajmill.connectors.reading.values import BOM
from trajmill.connectors.web.bodies import Body, byte_body, is_textual, media_type_of, pieces_of, text_body, unbase64
from trajmill.connectors.web.exchange import Exchange, Message, pack, unpack
from trajmill.connectors.web.exchange_steps import trajectories
from trajmill.connectors.web.exchange_text import READ_HEADERS
from trajmill.connectors.web.request_kind import ASSET, DATA, SHEET, kind_of
from trajmill.schemas import ParseError, Pile, Reject, Trajectory

_BEGINS: Final = re.compile(rb'\s*\{\s*"log"\s*:\s*\{')
_NAMES: Final = re.compile(rb'"(?:creator|entries|browser|pages)"\s*:')
_ATTACHED: Final = re.compile(r"[0-9a-f]{40}(?:\.\w{1,8})?|[0-9a-f]{40}-[\w.-]{1,32}")
_PART: Final = 3
"""Factor by which the stated size exceeds the logged text if the log holds only a part of the text."""

_EXCHANGE_BYTES: Final = 2048
_EXCERPT: Final = 4096
"""Approximate memory of an exchange without its texts in bytes (`_EXCHANGE_BYTES`), and the longest excerpt of an entry
in a reject.
"""

_ZIP: Final = b"PK\x03\x04"
_ERRORS: Final = ("_error", "_failureText", "_errorText", "_errorMessage", "_netError")
_CONTROL: Final = (8, 9, 10)


class Har(Connector):
    """HTTP archives."""

    name: ClassVar[str] = "har"
    version: ClassVar[str] = "12"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "HTTP archive (HAR), also with its bodies in files or as .har.zip"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        named = uri.lower().endswith((".har", ".har.json"))
        if head.startswith(_ZIP):
            first = head[30 : 30 + int.from_bytes(head[26:28], "little")].decode("utf-8", "replace")
            if uri.lower().endswith(".har.zip") or first.endswith(".har"):
                return Sniff(0.9, "a zip archive named as a HAR, or that begins with one")
            if _ATTACHED.fullmatch(first):
                return Sniff(0.6, "a zip archive of files named by digest, as Playwright packs a HAR")
            return None
        data = head.removeprefix(BOM)
        if _BEGINS.match(data) and _NAMES.search(data):
            return Sniff(0.95, "a JSON object `log` with creator, pages or entries")
        if named and data.lstrip()[:1] == b"{":
            return Sniff(0.6, "named as a HAR, and begins as a JSON object")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder that holds HARs beside their bodies, files named by digest."""
        folders: dict[str, tuple[list[str], list[str]]] = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            if name.lower().endswith(".har"):
                folders.setdefault(folder, ([], []))[0].append(path)
            elif _ATTACHED.fullmatch(name):
                folders.setdefault(folder, ([], []))[1].append(path)
        for folder, (logs, bodies) in folders.items():
            if logs and bodies:
                prefix = len(folder) + 1 if folder else 0
                members = {path[prefix:]: path for path in sorted([*logs, *bodies])}
                yield Log(folder, members, logs[0][prefix:])

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        failures: list[ParseError] = []
        is_any = False
        for log in _logs(blob):
            if isinstance(log, Reject):
                yield log
                continue
            reader = _Reader(log, blob.choices.static_assets)
            try:
                for reject in reader.rejects():
                    is_any = True
                    yield reject
            except ParseError as error:
                failures.append(error)
            for trajectory in trajectories(_by_beginning(reader.exchanges), blob.choices, log.native):
                is_any = True
                answered = any(step.next_observation is not None for step in trajectory.steps)
                yield trajectory if answered else _reject_unanswered(trajectory, blob.uri)
        if failures:
            for failure in failures[1:]:
                yield Reject.of(failure, connector=self.name)
            raise failures[0]
        if not is_any:
            raise ParseError(blob.uri, -1, "no_transitions", "the log holds no request for a document or data")


def _reject_unanswered(trajectory: Trajectory, uri: str) -> Reject:
    first = trajectory.steps[0]
    detail = f"none of the {len(trajectory.steps)} requests of page {trajectory.native_id!r} has a response"
    return Reject("record", "no_observation", detail, uri, first.member, first.offset, Har.name)


def _by_beginning(exchanges: Sequence[Exchange]) -> Sequence[Exchange]:
    """Sort the exchanges of each page by their beginning; leave a page as listed if any beginning is unknown.

    Pages stay in the order in which the log first names them.
    """
    pages: dict[str, list[tuple[int, int | None]]] = {}
    for number, exchange in enumerate(exchanges):
        pages.setdefault(exchange.page, []).append((number, exchange.began))
    for of_page in pages.values():
        if all(began is not None for _, began in of_page):
            of_page.sort(key=lambda numbered_time: numbered_time[1] or 0)
    return Chosen(exchanges, (number for of_page in pages.values() for number, _ in of_page))


@dataclass(frozen=True, slots=True)
class _Log:
    """One HAR with the files that may hold its bodies.

    Attributes:
        uri, member: URI and member, for errors and provenance.
        open: opens the bytes of the HAR.
        file: returns the bytes of a body's file; None if the input holds no file of that name.
        native: prefix of its page ids if an input has several HARs.
        base: offset in the input if the HAR was decompressed from an archive.
    """

    uri: str
    member: str
    open: Callable[[], BinaryIO]
    file: Callable[[str], bytes | None]
    native: str = ""
    base: int | None = None


def _logs(blob: Blob) -> Iterator[_Log | Reject]:
    """Yield the HARs of an input: its only file, or those of a folder or zip archive; rejects for damaged parts.

    Raises:
        ParseError: the archive cannot be read, or holds no HAR.
    """
    if blob.members == ("",):
        with blob.open() as stream:
            packed = stream.read(len(_ZIP)) == _ZIP
        if packed:
            yield from _open_archive(blob)
        else:
            yield _Log(blob.uri, "", blob.open, lambda _: None)
        return
    names = [name for name in blob.members if name.lower().endswith(".har")]
    if not names:
        raise ParseError(blob.uri, -1, "no_entries", "wanted a .har file, met none")
    for name in names:
        native = f"{name}#" if len(names) > 1 else ""
        yield _Log(blob.uri, name, partial(blob.open, name), partial(_beside, blob, name), native)


def _beside(blob: Blob, log: str, name: str) -> bytes | None:
    path = posixpath.normpath(posixpath.join(posixpath.dirname(log), name))
    return blob.read(path) if path in blob.members else None


def _open_archive(blob: Blob) -> Iterator[_Log | Reject]:
    archive = Archive(blob.read(), blob.uri)
    names = [name for name in archive.members if name.lower().endswith(".har")]
    if not names:
        reason = "no_entries" if archive.whole else "truncated"
        raise ParseError(blob.uri, 0, reason, "wanted a .har in the archive, met none")
    yield from archive.rejects(Har.name)

    def member(log: str, name: str) -> bytes | None:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(log), name))
        if path not in archive.members:
            return None
        try:
            return archive.read(path)
        except ParseError:
            return None  # a damaged body is lost, and no reason to leave its request out

    for name in names:
        native = f"{name}#" if len(names) > 1 else ""
        offset = archive.members[name].offset
        yield _Log(blob.uri, "", partial(archive.open, name), partial(member, name), native, offset)


class _Reader:
    """Reader of one HAR; `exchanges` is complete when `rejects` has ended, or as far as reading came."""

    def __init__(self, log: _Log, static_assets: bool) -> None:
        self._log = log
        self._static_assets = static_assets
        self.exchanges: Pile[Exchange] = Pile(pack, unpack)

    def rejects(self) -> Iterator[Reject]:
        """Yield a reject for each entry that cannot be read.

        Raises:
            ParseError: the log ends early, or is no HAR.
        """
        log = self._log
        seen: set[int] = set()
        with log.open() as stream:
            for begin, entry, raw in self._entries(stream):
                offset = begin if log.base is None else log.base
                try:
                    exchange = self._exchange(offset, entry, raw)
                except ParseError as error:
                    yield Reject.of(error, connector=Har.name)
                    continue
                # Safari lists some requests twice, with the same times.
                same = hash(
                    (exchange.page, exchange.started, exchange.duration, exchange.method, exchange.url, exchange.body)
                )
                if exchange.started is None or same not in seen:
                    seen.add(same)
                    self.exchanges.append(exchange, _EXCHANGE_BYTES + len(raw))

    def _entries(self, stream: BinaryIO) -> Iterator[tuple[int, Any, bytes]]:
        log = self._log
        try:
            yield from array_values(stream, log.uri, ("log", "entries"), log.member)
        except ParseError as error:
            if log.base is None:
                raise
            detail = f"{error.detail} (byte {error.offset} of the decompressed log)"
            raise ParseError(log.uri, log.base, error.reason, detail, log.member, error.excerpt) from None

    def _exchange(self, offset: int, entry: Any, raw: bytes) -> Exchange:
        log = self._log
        if isinstance(entry, ParseError):
            raise ParseError(entry.uri, offset, entry.reason, entry.detail, entry.member, entry.excerpt)
        request, response = object_of(entry.get("request")), object_of(entry.get("response"))
        url = request.get("url")
        if not isinstance(url, str) or not url:
            detail = "wanted a request with its url"
            raise ParseError(log.uri, offset, "bad_entry", detail, log.member, raw[:_EXCERPT])
        sent, received = _headers(request.get("headers")), _headers(response.get("headers"))
        content = object_of(response.get("content"))
        mime_type = str_of(content.get("mimeType"))
        if "content-type" not in received and media_type_of(mime_type):
            received["content-type"] = mime_type
        if "location" not in received and isinstance(response.get("redirectURL"), str):
            received["location"] = response["redirectURL"]
        method = str_of(request.get("method")).upper() or "GET"
        status = whole_number_of(response.get("status"), range(100, 1000))
        media_type = media_type_of(mime_type or received.get("content-type", ""))
        kind = kind_of(_word(entry), method, url, sent, media_type)
        keeps_bodies = kind == DATA or (kind == ASSET and (self._static_assets or method not in ("GET", "HEAD")))
        answered = keeps_bodies or media_type == SHEET
        started, took = microseconds(entry.get("startedDateTime")), number_of(entry.get("time"), 1e9, 0)
        duration = round(took / 1000, 6) if took is not None else None
        return Exchange(
            offset=offset,
            page=str_of(entry.get("pageref")),
            method=method,
            url=url,
            headers=sent,
            body=self._sent(object_of(request.get("postData")), sent) if keeps_bodies else None,
            kind=kind,
            status=status,
            phrase=str_of(response.get("statusText")) if status is not None else "",
            received=received,
            answer=self._response_body(content, received, mime_type) if answered and status is not None else None,
            error=_error(entry, response) if status is None else None,
            started=started,
            duration=duration,
            began=started,
            ended=started + round(duration * 1_000_000) if started is not None and duration is not None else None,
            messages=_in_order(_messages(entry.get("_webSocketMessages"))),
            member=log.member,
            word=_word(entry),
            asked_by=sent.get("referer") or sent.get("origin", ""),
        )

    def _sent(self, post: dict[str, Any], headers: Mapping[str, str]) -> Body | None:
        """Return the body of a request; None if it has none."""
        kind = str_of(post.get("mimeType")) or headers.get("content-type", "")
        text, name, params = post.get("text"), post.get("_file"), post.get("params")
        if isinstance(name, str) and name:
            data = self._log.file(name)
            return Body(media_type=media_type_of(kind), lost=True) if data is None else byte_body(data, kind)
        if isinstance(text, str) and text:
            if post.get("encoding") == "base64" or post.get("_encoding") == "base64":
                return _from_base64(text, kind, headers.get("content-encoding", ""))
            return text_body(text, kind, headers.get("content-encoding", ""))
        if isinstance(params, list) and params:
            fields = [(str_of(param.get("name")), _parameter(param)) for param in params if isinstance(param, dict)]
            return Body(urlencode(fields), media_type_of(kind))
        return None

    def _response_body(self, content: dict[str, Any], headers: Mapping[str, str], mime_type: str) -> Body | None:
        """Return the body of a response; None if it has none, lost if the log does not hold it."""
        declared = headers.get("content-type", "")
        kind = declared if media_type_of(declared) == media_type_of(mime_type) or not mime_type else mime_type
        coding = headers.get("content-encoding", "")
        text, name, size = content.get("text"), content.get("_file") or content.get("_sha1"), content.get("size")
        if isinstance(name, str) and name and not isinstance(text, str):
            data = self._log.file(name)
            return Body(media_type=media_type_of(kind), lost=True) if data is None else byte_body(data, kind, coding)
        if isinstance(text, str) and text:
            if content.get("encoding") == "base64":
                return _from_base64(text, kind, coding)
            body = text_body(text, kind, coding, size)
            return replace(body, lost=True) if body.text and _is_part(body.text, size) else body
        # An empty text, or a size of 0, means that there was no body.
        return None if (isinstance(text, str) and size in (0, -1, None)) or size == 0 else Body(lost=True)


def _is_part(text: str, size: Any) -> bool:
    """Check if a text is much shorter than its response in bytes. A factor of two may come from another encoding."""
    stated = whole_number_of(size, range(1, 1 << 53))
    return stated is not None and stated > len(text.encode("utf-8", "replace")) * _PART + _PART


def _from_base64(text: str, kind: str, coding: str) -> Body:
    pieces = [unbase64(piece) for piece in pieces_of(text)]
    decoded = [piece for piece in pieces if piece is not None]
    if len(decoded) < len(pieces):
        # Some recorders mark plain text as base64.
        plain = is_textual(media_type_of(kind)) and any(mark in text for mark in " {<")
        return text_body(text, kind) if plain else Body(media_type=media_type_of(kind), lost=True)
    return byte_body(b"".join(decoded), kind, coding)


def _parameter(param: dict[str, Any]) -> str:
    value = str_of(param.get("value"))
    return value or (f"@{param['fileName']}" if isinstance(param.get("fileName"), str) and param["fileName"] else "")


def _headers(value: Any) -> dict[str, str]:
    """Return the headers that are read, by lower-case name; the first of several of one name."""
    headers: dict[str, str] = {}
    for header in value if isinstance(value, list) else ():
        name = header.get("name") if isinstance(header, dict) else None
        if isinstance(name, str) and (name := name.lower()) in READ_HEADERS and isinstance(header.get("value"), str):
            headers.setdefault(name, header["value"])
    return headers


def _word(entry: dict[str, Any]) -> str:
    """Return the recorder's own word for the request's purpose, lower case; empty if it has none."""
    for key in ("_resourceType", "_request_type", "_initiator_type"):
        if isinstance(entry.get(key), str) and entry[key]:
            return entry[key].lower()
    return "fetch" if entry.get("_apiRequest") is True else ""


def _error(entry: dict[str, Any], response: dict[str, Any]) -> str | None:
    for holder in (response, entry):
        for key in _ERRORS:
            if isinstance(holder.get(key), str) and holder[key]:
                return holder[key]
    return None


def _in_order(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Sort the messages by time; leave them as listed if one has no time."""
    listed = tuple(messages)
    times = [message.at for message in listed if message.at is not None]
    if len(times) < len(listed) or all(earlier <= later for earlier, later in pairwise(times)):
        return listed
    return tuple(sorted(listed, key=lambda message: message.at or 0.0))


def _messages(value: Any) -> Iterator[Message]:
    for frame in value if isinstance(value, list) else ():
        if not isinstance(frame, dict) or frame.get("opcode") in _CONTROL:
            continue
        if frame.get("type") in ("send", "receive", "request", "response"):
            data = str_of(frame.get("data"))
            raw = unbase64(data) if frame.get("opcode") == 2 else None
            body = Body(data) if raw is None else byte_body(raw, "")
            yield Message(frame["type"] in ("send", "request"), body, number_of(frame.get("time"), 1e12, 0))
