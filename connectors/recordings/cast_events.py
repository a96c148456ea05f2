r"""The header and the events of an asciicast, versions 1, 2 and 3, in the order of the file, with their byte offsets.

Format: docs.asciinema.org/manual/asciicast/{v1,v2,v3}. The checks cover everything that a screen depends on: version
and size, and the arity, time, code and data of each event, as in the importer of the format's author (the fixture
folders `2` and `3` of asciinema-server). That importer accepts or refuses a whole file; this module returns the events
before a bad one. Themes are ignored. Times are never sorted: the file order is right, and a clock that steps back
counts as no time.

This module does not know what a terminal does with the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from trajmill.connectors.connector import Blob
from trajmill.connectors.reading.fields import brief, object_of, text_of
from trajmill.connectors.reading.lines import WHOLE_BYTES, Line, line_values
from trajmill.connectors.reading.values import BOM, first_value
from trajmill.connectors.recordings.screen import check_size
from trajmill.connectors.recordings.session import Event
from trajmill.schemas import ParseError

MAX_SECONDS: Final = 1e10
"""Largest time of an event in seconds (three centuries); a later one means a broken clock."""

_KNOWN: Final = frozenset("oirx")
_SIZE: Final = re.compile(r"(\d{1,5})x(\d{1,5})", re.ASCII)
_VERSION_1: Final = re.compile(rb'\s*\{[^][]*"version"\s*:\s*1\s*[,}]')
_PEEK: Final = 4096
_BLANK: Final = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Header:
    """Description of a recording in its header; None for unstated values.

    `timestamp` is in seconds since 1970 UTC; `term` is the value of TERM, `shell` that of SHELL.
    """

    version: int
    columns: int
    rows: int
    timestamp: float | None = None
    command: str | None = None
    shell: str | None = None
    term: str | None = None


def size_of(data: str) -> tuple[int, int] | None:
    """Parse (columns, rows) from the data of a resize event, such as `80x24`; None if the size is invalid."""
    match = _SIZE.fullmatch(data)
    if match is None:
        return None
    return check_size(int(match[1]), int(match[2]))


def read_cast(stream: BinaryIO, blob: Blob) -> tuple[Header, Iterator[Event]]:
    """Return the header of the recording and an iterator over its events, which reads `stream` lazily.

    The iterator yields events of the codes `o` (output), `i` (input), `r` (resize) and `x` (exit status). Markers and
    unknown codes are left out, as the format requires. It raises a `ParseError` at the first invalid event (`truncated`
    if the file ends within it, else `bad_json`, `bad_event`, `bad_size` or `line_too_long`).

    Raises:
        ParseError: there is no header, or it lacks version or size (`empty`, `no_header`, `bad_header`,
            `unknown_version`, `truncated`, `line_too_long`).
    """
    with blob.open() as peek:
        if _VERSION_1.match(peek.read(_PEEK).removeprefix(BOM)):
            return _read_version_1(stream, blob)
    values = line_values(stream, blob.uri)
    first = next(values, None)
    if first is None:
        raise _error(blob, 0, "empty", "no line with a header")
    header = _header(*first, blob)
    return header, _events(values, blob, header.version)


def _error(blob: Blob, offset: int, reason: str, detail: str, excerpt: bytes = b"") -> ParseError:
    return ParseError(blob.uri, offset, reason, detail, excerpt=excerpt[:4096])


def _header(line: Line, value: Any, blob: Blob) -> Header:
    """Read the header of version 2 or 3 from the first line."""
    data = line.data or b""
    offset = line.offset + len(data) - len(data.lstrip())
    if isinstance(value, ParseError):
        reason = value.reason if value.reason in ("line_too_long", "truncated") else "bad_header"
        raise _error(blob, offset, reason, f"wanted a JSON object in the first line: {value.detail}", data)
    if not isinstance(value, dict):
        raise _error(blob, offset, "no_header", "wanted a JSON object in the first line", data)
    try:
        return header_of(value)
    except ValueError as error:
        reason = "bad_header" if value.get("version") in (2, 3) else "unknown_version"
        raise _error(blob, offset, reason, str(error), data) from None


def header_of(value: dict[str, Any]) -> Header:
    """Read the header in a JSON object. Optional fields of a wrong type count as absent.

    Raises:
        ValueError: version or size is missing or invalid.
    """
    version = value.get("version")
    if type(version) is not int or version not in (1, 2, 3):
        raise ValueError(f"wanted version 1, 2 or 3, met {brief(version, 40)}")
    term = object_of(value.get("term")) if version == 3 else {}
    columns, rows = (term.get("cols"), term.get("rows")) if version == 3 else (value.get("width"), value.get("height"))
    size = check_size(columns, rows)
    if size is None:
        raise ValueError(f"wanted columns and rows from 1, met {brief(columns, 40)} and {brief(rows, 40)}")
    environment = object_of(value.get("env"))
    return Header(
        version=version,
        columns=size[0],
        rows=size[1],
        timestamp=_seconds(value.get("timestamp")),
        command=text_of(value.get("command")),
        shell=text_of(environment.get("SHELL")),
        term=text_of(term.get("type")) or text_of(environment.get("TERM")),
    )


def _seconds(value: object) -> float | None:
    return value if isinstance(value, int | float) and 0 < value < MAX_SECONDS else None


def _events(values: Iterable[tuple[Line, Any]], blob: Blob, version: int) -> Iterator[Event]:
    """Yield the events of the lines after the header, with the time since the beginning."""
    states_delta = version == 3
    now = before = 0.0
    for line, event in values:
        offset, data = line.offset, line.data or b""
        if event is None or (version == 3 and data.startswith(b"#")):
            continue
        if isinstance(event, ParseError):
            reason = event.reason if event.reason in ("line_too_long", "truncated") else "bad_json"
            raise _error(blob, offset, reason, event.detail, data)
        if type(event) is not list or len(event) != 3:
            raise _error(blob, offset, "bad_event", "wanted an array of three: seconds, code, data", data)
        time, code, text = event
        if type(time) not in (int, float) or not 0 <= time <= MAX_SECONDS:
            raise _error(blob, offset, "bad_event", "wanted a time in seconds from 0", data)
        now += time if states_delta else max(0.0, time - before)
        before = time
        if _is_known(code, text, offset, blob, data):
            yield offset, now, code, text


def _is_known(code: object, text: object, offset: int, blob: Blob, line: bytes) -> bool:
    """Check if an event has a known code; raise an error if its data are malformed."""
    if type(code) is not str:
        raise _error(blob, offset, "bad_event", "wanted a code that is text", line)
    if code not in _KNOWN:
        return False
    if type(text) is not str:
        raise _error(blob, offset, "bad_event", f"wanted data that is text for code {code}", line)
    if code == "r" and size_of(text) is None:
        raise _error(blob, offset, "bad_size", f"wanted columns and rows as in 80x24, met {text[:40]}", line)
    return True


def _read_version_1(stream: BinaryIO, blob: Blob) -> tuple[Header, Iterator[Event]]:
    """Read header and events of a version 1 recording, which is one JSON object and is read whole."""
    raw = stream.read(WHOLE_BYTES + 1)
    if len(raw) > WHOLE_BYTES:
        raise _error(blob, 0, "line_too_long", f"a version 1 recording of more than {WHOLE_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error(blob, error.start, "bad_json", f"not UTF-8: {error.reason}", raw[error.start :]) from None
    skipped = len(raw) - len(text.encode())
    members: dict[str, Any] = {}
    events, cut = _version_1(text, members)
    try:
        header = header_of(members)
    except ValueError as error:
        reason = "truncated" if cut is not None else "bad_header"
        raise _error(blob, skipped, reason, str(error), raw) from None
    return header, _add_offsets(text, events, cut, skipped, blob)


def _version_1(text: str, members: dict[str, Any]) -> tuple[list[tuple[int, Any]], int | None]:
    """Return (offset, event) of each event in the `stdout` array, and the position of invalid JSON, if any.

    The object is read member by member, since a JSON decoder would neither return the offsets of events nor the events
    before a cut. The other members are stored in `members`.
    """
    decode = first_value
    events: list[tuple[int, Any]] = []
    at = _skip(text, 0)
    try:
        at = _past(text, at, "{")
        while text[at : at + 1] != "}":
            key, at = decode(text, at)
            at = _skip(text, _past(text, _skip(text, at), ":"))
            if key == "stdout" and text[at : at + 1] == "[":
                at = _skip(text, at + 1)
                while text[at : at + 1] != "]":
                    value, end = decode(text, at)
                    events.append((at, value))
                    at = _comma(text, end, "]")
                at += 1
            else:
                members[str(key)], at = decode(text, at)
            at = _comma(text, at, "}")
    except ValueError:
        return events, at
    return events, None


def _skip(text: str, at: int) -> int:
    blanks = _BLANK.match(text, at)
    return blanks.end() if blanks else at


def _past(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise ValueError(f"wanted {mark}")
    return _skip(text, at + 1)


def _comma(text: str, at: int, end: str) -> int:
    at = _skip(text, at)
    return at if text[at : at + 1] == end else _past(text, at, ",")


def _add_offsets(
    text: str, events: list[tuple[int, Any]], cut: int | None, skipped: int, blob: Blob
) -> Iterator[Event]:
    """Yield the events of version 1 in the form of later versions, with byte offsets."""
    offset, before, now = skipped, 0, 0.0
    for at, event in events:
        offset, before = offset + len(text[before:at].encode()), at
        shaped = isinstance(event, list) and len(event) == 2 and type(event[0]) in (int, float)
        if not shaped or not 0 <= event[0] <= MAX_SECONDS or type(event[1]) is not str:
            raise _error(blob, offset, "bad_event", "wanted [seconds from 0, output]", text[at : at + 200].encode())
        now += event[0]
        yield offset, now, "o", event[1]
    if cut is not None:
        offset += len(text[before:cut].encode())
        reason = "bad_json" if text.rstrip().endswith("}") else "truncated"
        raise _error(blob, offset, reason, "wanted one JSON object", text[cut : cut + 200].encode())
