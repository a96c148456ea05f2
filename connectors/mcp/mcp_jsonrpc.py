"""Captures of the Model Context Protocol: JSON-RPC messages, one per line, concatenated or in an array.

>>> show(McpJsonRpc(), '''
... --> {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "arguments": {"bed": 2}}}
... <-- {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "dry"}]}}
... ''')
action  | {"name": "look", "arguments": {"bed": 2}}
after   | dry

A message may be bare or in an envelope with a direction, a time and a session (`{"direction": …, "timestamp": …,
"message": {…}}`). It may be text in the envelope, part of a pair of request and response, or the body of an HTTP
exchange, including a stream of server-sent events. Lines of a stdio capture may have a prefix (`--> {…}`); the word
before the message is then its direction. The meaning of such a word is learned from methods that only one side sends:
`sent` is the client in one log and the server in another, depending on the recorder.

A capture of stdio with `tee` holds one direction. Two such files whose names differ only in the word for the direction
(`x.in.jsonl` and `x.out.jsonl`) are one log. Answers are placed after the requests with their ids, since the times are
unknown. A file of one direction without the other is refused (`one_direction`).

Lines without a message (a server's standard error) are skipped without a reject. Single messages, such as the examples
of the specification, are refused, since nothing answers them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, MemoryBlob, Sniff
from trajmill.connectors.mcp.wire_find import Found, is_message, messages
from trajmill.connectors.mcp.wire_reader import SessionReader
from trajmill.connectors.mcp.wire_session import ACTIONS, CLIENT, PING, SERVER, Message, sender_of
from trajmill.connectors.reading.arrays import places_of
from trajmill.connectors.reading.documents import iterate_values
from trajmill.connectors.reading.fields import whole_number_of
from trajmill.connectors.reading.lines import Line, first_line, lines, values_of_line
from trajmill.connectors.reading.times import microseconds, seconds_of
from trajmill.connectors.reading.values import JsonError, first_value, json_value
from trajmill.schemas import ParseError, Reject, Trajectory

_DIRECTIONS: Final = (
    "direction",
    "dir",
    "from",
    "sender",
    "source",
    "side",
    "origin",
    "stream",
    "type",
    "kind",
    "event",
)
_TIMES: Final = ("timestamp", "ts", "time", "@timestamp", "at")
_SESSIONS: Final = (
    "session_id",
    "sessionId",
    "session",
    "mcp-session-id",
    "mcp_session_id",
    "mcpSessionId",
    "connection_id",
    "connectionId",
    "connection",
    "server",
    "server_name",
    "serverName",
)
_SIDES: Final = ("client", "server", "sent", "received", "send", "recv", "in", "out", "tx", "rx", "c2s", "s2c")
"""Members that hold a message and whose name is its direction."""

_HALF: Final = re.compile(
    r"((?:.*/)?(?:[^/]*[._-])?)(?P<word>stdin|in|requests?|client|c2s|sent|tx)((?:[._-][^/]*)?)", re.DOTALL
)
_OTHER_HALF: Final = {
    "stdin": "stdout",
    "in": "out",
    "request": "response",
    "requests": "responses",
    "client": "server",
    "c2s": "s2c",
    "sent": "received",
    "tx": "rx",
}
"""Word for the answers in the name of a capture, by the word for the requests in the name of its counterpart."""

_TEXTS: Final = ("message", "msg", "line", "text", "log")
_MESSAGE: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_HEADERS: Final = ("headers", "request_headers", "requestHeaders", "response_headers", "responseHeaders")
_ARRAYS: Final = (
    "messages",
    "events",
    "entries",
    "records",
    "frames",
    "log",
    "traffic",
    "interactions",
    "exchanges",
    "requests",
    "calls",
    "transcript",
    "history",
)
_OPENS: Final = re.compile(r"\ufeff?\s*(?:\{|\[\s*(?:[\[{]|$))")
"""Beginning of a line with a JSON object or an array of objects, as opposed to a time in brackets."""

_BEGINS: Final = re.compile(r'\{\s*"|\[\s*\{')
_ZONED: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)(?!\d)", re.ASCII)
_BEFORE: Final = 256
"""Number of characters before a message that are read for its direction and time."""

_NOISE: Final = re.compile(r"[\d:.,+\s]+")
_TRIES: Final = 16
"""Largest number of positions in a line that are searched for a message."""

_SNIFFED_LINES: Final = 64
_PLAIN: Final = re.compile(
    rb'"method"\s*:\s*"(?:initialize|tools/call|tools/list|resources/read|prompts/get)"|"jsonrpc"\s*:\s*"2\.0"'
)


_ANSWER: Final = re.compile(
    rb'^\{(?=[^\n]*"jsonrpc"\s*:\s*"2\.0")(?=[^\n]*"id"\s*:)[^\n]*"result"\s*:\s*\{\s*'
    rb'"(?:protocolVersion|capabilities|serverInfo|tools|resources|prompts|content|structuredContent|isError)"',
    re.MULTILINE,
)


class McpJsonRpc(Connector):
    """JSON-RPC messages of the Model Context Protocol, bare or in envelopes."""

    name: ClassVar[str] = "mcp_jsonrpc"
    version: ClassVar[str] = "9"
    domains: ClassVar[tuple[str, ...]] = ("mcp", "search")
    title: ClassVar[str] = "MCP wire capture (JSON-RPC messages)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if b"method" not in head and b"\\u00" not in head:  # JSON may say any letter by its number
            answers = len(_ANSWER.findall(head)) if b'"jsonrpc"' in head else 0
            return Sniff(0.6, f"{answers} answers of an MCP server, and no request") if answers > 1 else None
        text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
        opens = _OPENS.match(text.partition("\n")[0]) is not None
        if opens and (value := _first(text)) is not None:
            sniff = _sniff_value(value)
            if sniff:
                return sniff
        elif opens:
            plain = {kind.split(b'"', 2)[1] for kind in _PLAIN.findall(head[:4096])}
            return Sniff(0.5, "begins with a long JSON-RPC message of MCP") if len(plain) == 2 else None
        for line in text.split("\n")[:_SNIFFED_LINES]:
            for _, value, _ in _in_line(line):
                sniff = _sniff_value(value)
                if sniff:
                    return sniff
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each file of requests with the file of answers whose name differs only in the word for the direction.

        A folder with one such pair gives it its name; if there are several, the file of requests does.
        """
        known, pairs = set(paths), dict[str, list[tuple[str, str]]]()
        for path in paths:
            half = _HALF.fullmatch(path)
            answers_path = None if half is None else f"{half[1]}{_OTHER_HALF[half['word']]}{half[3]}"
            if answers_path is not None and answers_path in known:
                pairs.setdefault(path.rpartition("/")[0], []).append((path, answers_path))
        for folder, folder_pairs in pairs.items():
            for pair in folder_pairs:
                names = [path.removeprefix(f"{folder}/") for path in pair]
                uri = folder if folder and len(folder_pairs) == 1 else pair[0]
                yield Log(uri, dict(zip(names, pair, strict=True)), names[0])

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        if len(blob.members) > 1:
            yield from self._halves(blob)
            return
        reader = SessionReader(self.name, blob.uri)
        failure: ParseError | None = None
        sides: set[bool] = set()
        lone: list[Trajectory | Reject] = []  # of one direction: told once, not message by message
        try:
            for offset, value, label, text in _values(blob):
                if isinstance(value, ParseError):
                    yield Reject.of(value, connector=self.name)
                    continue
                for message, channel in _messages(offset, value, label, text):
                    bodies = message.body if isinstance(message.body, list) else [message.body]
                    sides |= {"method" in body for body in bodies if isinstance(body, dict) and "id" in body}
                    lone += reader.take(message, channel)
                    if len(sides) > 1:
                        yield from lone
                        lone = []
        except ParseError as error:
            failure = error
        lone += reader.finish()
        if failure is None and not reader.found and len(sides) == 1:
            present, missing = ("requests", "answers") if sides.pop() else ("answers", "requests")
            detail = f"{present} alone; wanted the {missing} too, here or in a file beside it (x.in.jsonl, x.out.jsonl)"
            raise ParseError(blob.uri, -1, "one_direction", detail)
        yield from lone
        if failure is not None:
            raise failure
        if not reader.found:
            raise ParseError(blob.uri, -1, "no_transitions", "the log holds no answered call of MCP")

    def _halves(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        """Read two captures that hold one direction each."""
        first = next(name for name in blob.members if _HALF.fullmatch(name))
        halves: list[list[tuple[str, Message]]] = []
        for name in (first, *(name for name in blob.members if name != first)):
            sender = SERVER if halves else CLIENT
            halves.append([])
            for offset, value, label, text in _values(MemoryBlob(blob.uri, blob.read(name))):
                if isinstance(value, ParseError):
                    yield replace(Reject.of(value, connector=self.name), member=name)
                    continue
                for message, _ in _messages(offset, value, label, text):
                    halves[-1].append((name, replace(message, sender=sender, label=None)))
        asked = sum(
            sender_of(_method(message_sent)) == SERVER or _method(message_sent) == PING for _, message_sent in halves[1]
        )
        if (
            sum(_answered_id(message_sent) is not None for _, message_sent in halves[0]) > asked
        ):  # each holds both directions
            for name in blob.members:
                yield from (
                    _set_member(output_read, name) for output_read in self.parse(MemoryBlob(blob.uri, blob.read(name)))
                )
            return
        reader = SessionReader(self.name, blob.uri, in_memory=True)
        for name, message in _interleave(*halves):
            for output in reader.take(message):
                yield _set_member(output, first if isinstance(output, Trajectory) else name)
        for output in reader.finish():
            yield _set_member(output, first)
        if not reader.found:
            raise ParseError(blob.uri, -1, "no_transitions", "the captures hold no answered call of MCP", first)


def _set_member(output: Trajectory | Reject, member: str) -> Trajectory | Reject:
    if isinstance(output, Reject):
        return replace(output, member=member)
    return replace(output, steps=[replace(step, member=member) for step in output.steps])


def _interleave(
    requests: Sequence[tuple[str, Message]], answers: Sequence[tuple[str, Message]]
) -> Iterator[tuple[str, Message]]:
    """Yield the messages of both directions: each request, the server's messages before its answer, then the answer."""
    waiting: dict[str, list[int]] = {}
    for index, (_, message) in enumerate(answers):
        if (key := _answered_id(message)) is not None:
            waiting.setdefault(key, []).append(index)
    done = 0
    for request in requests:
        yield request
        body = request[1].body
        places = waiting.get(repr(body.get("id")), []) if isinstance(body, dict) and "method" in body else []
        if places:
            index = places.pop(0)
            yield from (answer for answer in answers[done:index] if _answered_id(answer[1]) is None)
            done = max(done, index)
            yield answers[index]
    yield from (answer for answer in answers[done:] if _answered_id(answer[1]) is None)
    yield from (answers[index] for places in waiting.values() for index in places)


def _method(message: Message) -> str:
    """Return the method of a request; empty for any other message."""
    body = message.body
    method = body.get("method") if isinstance(body, dict) and "id" in body else None
    return method if isinstance(method, str) else ""


def _answered_id(message: Message) -> str | None:
    """Return the id of the request that a message answers; None if it answers none."""
    body = message.body
    return repr(body["id"]) if isinstance(body, dict) and "method" not in body and "id" in body else None


def _sniff_value(value: Any) -> Sniff | None:
    """Return a sniff if the value contains a message of MCP."""
    key = _array_of(value)
    listed = value[key] if key else value if isinstance(value, list) and not is_message(value) else [value]
    for message in islice((part.body for element in listed[:8] for part, _ in _messages(0, element, None)), 8):
        for body in message if isinstance(message, list) else [message]:
            method = body.get("method") if isinstance(body, dict) else None
            params = body.get("params") if isinstance(body, dict) else None
            opens = method == "initialize" and isinstance(params, dict) and "protocolVersion" in params
            known = isinstance(method, str) and (method in ACTIONS or sender_of(method) is not None)
            if opens or (known and method != "initialize"):
                bare = is_message(value)
                return Sniff(0.85 if bare else 0.7, f"a JSON-RPC message of MCP: {method}")
    return None


def _first(text: str) -> Any:
    """Return the JSON value at the beginning of the text; None if it is cut or not JSON."""
    try:
        return first_value(text)[0]
    except JsonError:
        return None


def _values(blob: Blob) -> Iterator[tuple[int, Any, str | None, bytes | None]]:
    """Yield (offset, value, label, line) of each JSON value; the value is a `ParseError` if it is invalid.

    Raises:
        ParseError: a document that is not in lines ends in something other than JSON.
    """
    if not _is_lines(blob):
        yield from ((position, value, None, None) for position, value in _document(blob))
        return
    with blob.open() as stream:
        for line in lines(stream):
            text = (line.data or b"").decode("utf-8", "replace")
            if line.data is None or _OPENS.match(text.lstrip("\0")) is not None:
                yield from _in_json(line, blob.uri)
            else:
                yield from (
                    (line.offset + position, value, label, line.data) for position, value, label in _in_line(text)
                )


def _in_json(line: Line, uri: str) -> Iterator[tuple[int, Any, str | None, bytes | None]]:
    """Yield the values and errors of a line that begins like JSON; the elements of a batch are separate values.

    If a line holds no complete record, as in a damaged envelope, the messages within it are its values.
    """
    for part, value in values_of_line(line, uri):
        if isinstance(value, list) and not is_message(value):
            yield from ((part.offset, element, None, part.data) for element in value)
        elif not isinstance(value, ParseError) or part.data is None or b'"' in part.data or b"\0" in part.data:
            yield part.offset, value, None, part.data
        if isinstance(value, ParseError) and part is line and line.data is not None:
            within = _in_line(line.data.decode("utf-8", "replace"))
            yield from ((line.offset + position, element, label, line.data) for position, element, label in within)


def _is_lines(blob: Blob) -> bool:
    """Return True unless the first line that is not blank begins a value without ending it."""
    line = first_line(blob)
    if line is None or line.data is None:
        return True
    text = line.data.decode("utf-8-sig", "replace")
    if _OPENS.match(text) is None:
        return True
    try:
        value = json_value(line.data)
    except ValueError:
        # A last line without a line end is a cut line, not the beginning of a document.
        return not line.ended or _first(text.lstrip()) is not None
    # A document of one line is read as a document, so that its elements have their own offsets.
    return line.ended or not (isinstance(value, list) or _array_of(value))


def _in_line(text: str) -> Iterator[tuple[int, Any, str | None]]:
    """Yield (offset in UTF-8, value, text before it) of the JSON objects and batches in a line."""
    position = 0
    for _ in range(_TRIES):
        begin = _BEGINS.search(text, position)
        if begin is None:
            return
        try:
            value, end = first_value(text, begin.start())
        except JsonError:
            position = begin.end()
            continue
        before = text[max(position, begin.start() - _BEFORE) : begin.start()].strip()
        yield len(text[: begin.start()].encode("utf-8", "surrogatepass")), value, before or None
        position = end


def _document(blob: Blob) -> Iterator[tuple[int, Any]]:
    """Yield the elements of a document that is an array or holds one, else its consecutive values.

    Raises:
        ParseError: the document is not UTF-8, or something other than JSON stands between its values.
    """
    data = blob.read()
    try:
        value = json_value(data)
    except ValueError:
        yield from iterate_values(data, blob.uri)
        return
    key = _array_of(value)
    elements = value if isinstance(value, list) else value[key] if key else None
    if elements is None:
        yield 0, value
        return
    places = places_of(data, elements, (key,) if key else ()) or [0] * len(elements)
    yield from zip(places, elements, strict=True)


def _array_of(value: Any) -> str | None:
    """Return the member of a document that holds its messages as an array; None if there is none."""
    if not isinstance(value, dict) or is_message(value):
        return None
    return next((key for key in _ARRAYS if isinstance(value.get(key), list)), None)


def _messages(offset: int, value: Any, label: str | None, text: bytes | None = None) -> Iterable[tuple[Message, str]]:
    """Return the messages of a value, each with its channel; `label` is the text before it in its line, `text`."""
    if label is None and type(value) is dict and value.keys() <= _MESSAGE and is_message(value):
        return ((Message(offset, value, text=text), ""),)
    return _within(offset, value, label, text)


def _within(offset: int, value: Any, label: str | None, text: bytes | None) -> Iterator[tuple[Message, str]]:
    """Yield the messages of a value that is not just a message; see `_messages`."""
    begun = None if label is None else _time_in(label)
    label = None if label is None else _words(label)
    is_whole = is_message(value)
    if is_whole and (isinstance(value, list) or value.keys() <= _MESSAGE):
        yield Message(offset, value, label=label, at=begun, text=text), ""
        return
    if not isinstance(value, dict | str):
        return
    envelope = value if isinstance(value, dict) else {}
    # Some logs put direction, time and session among the members of the message itself.
    parts = [Found({key: envelope[key] for key in envelope if key in _MESSAGE})] if is_whole else list(messages(value))
    direction = next((envelope[key] for key in _DIRECTIONS if isinstance(envelope.get(key), str)), label)
    if not parts:
        parts, side = _beside(envelope)
        direction = side or direction
    at = next((at for key in _TIMES if (at := microseconds(envelope.get(key))) is not None), begun)
    channel = _session_name(envelope)
    for number, (body, own) in enumerate(parts):
        paired = len(parts) > 1 or isinstance(body, list)
        seconds = _latency(envelope) if paired and isinstance(body, dict) and "method" not in body else None
        begun = at if number == 0 else None
        told_by = None if paired else direction
        yield Message(offset, body, None, told_by, begun, seconds, text=text if own is None else own), channel


def _words(before: str) -> str | None:
    """Return the text before a message without numbers (times and positions), which may be a word for the direction."""
    return _NOISE.sub(" ", before).strip()[-64:] or None


def _time_in(before: str) -> int | None:
    """Return the time with a time zone in the text before a message, in microseconds since 1970 UTC."""
    match = _ZONED.search(before)
    return None if match is None else microseconds(match[0])


def _session_name(envelope: dict[str, Any]) -> str:
    """Return the envelope's name of its session; empty if it has none."""
    if not envelope.keys().isdisjoint(_SESSIONS):
        for key in _SESSIONS:
            if _is_name(session_name := envelope.get(key)):
                return str(session_name)
    return _header(envelope)


def _beside(envelope: dict[str, Any]) -> tuple[list[Found], str | None]:
    """Return (messages, word for their direction or None) of an envelope in which `messages` found none.

    The envelope may be a message itself, whose recorder left out `jsonrpc`. Messages may also be stored under a name
    that is a direction (`sent`), or in a logger's text after some words.
    """
    if _is_bare(envelope):
        return [Found({"jsonrpc": "2.0", **{key: envelope[key] for key in envelope if key in _MESSAGE}})], None
    for key in _SIDES:
        if isinstance(envelope.get(key), dict | str) and (parts := list(messages(envelope[key]))):
            return parts, key
    text = next((envelope[key] for key in _TEXTS if isinstance(envelope.get(key), str)), "")
    if '"jsonrpc"' not in text or "role" in envelope:
        return [], None
    in_text_found = [(value, words) for _, value, words in _in_line(text) if is_message(value)]
    before = in_text_found[0][1] if in_text_found else None
    return [Found(value, text) for value, _ in in_text_found], None if before is None else _words(before)


def _is_bare(envelope: dict[str, Any]) -> bool:
    """Return True if the value is a message of MCP by its method, or a response, that only lacks `jsonrpc`."""
    if "jsonrpc" in envelope:
        return False
    method = envelope.get("method")
    if isinstance(method, str):
        return method in ACTIONS or sender_of(method) is not None
    answer = isinstance(envelope.get("result"), dict) or isinstance(envelope.get("error"), dict)
    return method is None and _is_name(envelope.get("id")) and answer


def _is_name(value: Any) -> bool:
    return isinstance(value, str) or whole_number_of(value) is not None


def _header(envelope: dict[str, Any]) -> str:
    """Return the session's id in the headers of an HTTP exchange; empty if there is none."""
    for holder in (envelope, envelope.get("request"), envelope.get("response")):
        if not isinstance(holder, dict) or holder.keys().isdisjoint(_HEADERS):
            continue
        for key in _HEADERS:
            headers = holder.get(key)
            for name, value in headers.items() if isinstance(headers, dict) else ():
                if name.lower() == "mcp-session-id" and isinstance(value, str):
                    return value
    return ""


def _latency(envelope: dict[str, Any]) -> float | None:
    values = (seconds_of(envelope.get(key)) for key in ("latency_ms", "duration_ms", "elapsed_ms"))
    return next((seconds for seconds in values if seconds is not None), None)
