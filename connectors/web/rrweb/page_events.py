"""Events of an rrweb recording, from all layouts in which they are stored, with their byte offsets.

- A JSON array of events, or an object that holds one (`events`, `snapshots`, `data.snapshots`), read one at a time;
  also as the value of a script (`const events = […];`), as far as it is JSON.
- PostHog's object of windows (`snapshot_data_by_window_id`: window → events), bare, or in `result` or `data`.
- JSON Lines: one event per line; or `[window, event]` or `{"window_id": …, "data": [events]}`, as PostHog writes them.
- Packed events (`packFn: pack` of rrweb): each a string of zlib bytes, one character per byte; and PostHog's events,
  which name a compression version `cv` and hold gzip strings in place of the values.

This module does not interpret the events.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from trajmill.connectors.connector import Blob
from trajmill.connectors.reading.documents import array_values, json_document
from trajmill.connectors.reading.fields import brief, whole_number_of
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.reading.values import json_value, value_or_none
from trajmill.schemas import ParseError

INFLATED_BYTES: Final = 64 << 20
"""Largest unpacked size in bytes of a packed event; larger ones are refused."""

_HEAD: Final = 4096
SCRIPT: Final = (
    rb"(?:export\s+default\s|(?:export\s+)?(?:const|let|var)\s+\w+\s*=|module\.exports\s*=|exports\.\w+\s*=)"
)
"""Beginning of a script that holds events as JSON, before the array."""
_ARRAY_OF_OBJECTS: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:" + SCRIPT + rb"\s*)?\[\s*\{")
_ARRAY: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_PATHS: Final = (("events",), ("snapshots",), ("data", "snapshots"), ("data", "events"))
_BY_WINDOW: Final = "snapshot_data_by_window_id"
_PACKED: Final = ("x\x01", "x\x5e", "x\x9c", "x\xda", "\x1f\x8b")
_COMPRESSED: Final = ("texts", "attributes", "removes", "adds")


@dataclass(frozen=True, slots=True)
class Event:
    """One event as logged, or a `ParseError` if it is invalid; `window` is empty if the log tells none apart."""

    offset: int
    window: str
    value: dict[str, Any] | ParseError


def events(blob: Blob) -> Iterator[Event]:
    """Yield the events in the order of the log.

    Raises:
        ParseError: reading cannot continue; the events yielded before are valid.
    """
    with blob.open() as stream:
        head = stream.read(_HEAD)
    if not head.strip():
        raise ParseError(blob.uri, 0, "empty", "wanted events, met nothing")
    if _ARRAY_OF_OBJECTS.match(head):
        yield from _elements(blob, ())
    elif _ARRAY.match(head):
        yield from _rows(blob)
    elif _is_line(head, blob):
        yield from _lines(blob)
    else:
        yield from _within(blob)


def _is_line(head: bytes, blob: Blob) -> bool:
    """Check if the first line is a complete JSON value, or the file is no JSON object at all."""
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return True
    with blob.open() as stream:
        line = next((line for line in stream if line.strip()), b"")
        more = stream.read(_HEAD).strip()
    try:
        value = json_value(line)
    except ValueError:
        return False
    return bool(more) or (isinstance(value, dict) and ("type" in value or "window_id" in value))


def _within(blob: Blob) -> Iterator[Event]:
    """Yield the events of the array in an object, or of the arrays by window."""
    with blob.open() as stream:
        if f'"{_BY_WINDOW}"'.encode() in stream.read(_HEAD):
            yield from _windows(blob)
            return
    last: ParseError | None = None
    for path in _PATHS:
        entries = _elements(blob, path)
        try:
            first = next(entries, None)
        except ParseError as error:
            if error.reason not in ("no_array", "truncated"):
                raise
            last = last if last is not None and last.reason == "truncated" else error
            continue
        if first is not None:
            yield first
            yield from entries
            return
    if last is not None:
        raise last


def _windows(blob: Blob) -> Iterator[Event]:
    """Yield the events of each window, one window after the other."""
    value, _ = json_document(blob)
    holders = [value, *(value.get(key) for key in ("result", "data"))] if isinstance(value, dict) else []
    windows = next(
        (holder[_BY_WINDOW] for holder in holders if isinstance(holder, dict) and _BY_WINDOW in holder), None
    )
    for window, listed in windows.items() if isinstance(windows, dict) else ():
        for entry in listed if isinstance(listed, list) else [listed]:
            yield _event(entry, 0, window, blob.uri)


def _elements(blob: Blob, path: tuple[str, ...]) -> Iterator[Event]:
    with blob.open() as stream:
        for offset, value, _ in array_values(stream, blob.uri, path):
            yield Event(offset, "", value) if isinstance(value, ParseError) else _event(value, offset, "", blob.uri)


def _rows(blob: Blob) -> Iterator[Event]:
    """Yield the events of an array of packed events, or of lines of `[window, event]`."""
    with blob.open() as stream:
        line = next((line for line in stream if line.strip()), b"")
    value = value_or_none(line)
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict):
        yield from _lines(blob)
        return
    packed, _ = json_document(blob)
    for entry in packed if isinstance(packed, list) else []:
        yield _event(entry, 0, "", blob.uri)


def _lines(blob: Blob) -> Iterator[Event]:
    for offset, value in json_lines(blob):
        if isinstance(value, ParseError):
            yield Event(offset, "", value)
        elif isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
            yield _event(value[1], offset, value[0], blob.uri)
        elif isinstance(value, dict) and isinstance(value.get("data"), list) and "type" not in value:
            window = value.get("window_id")
            for entry in value["data"]:
                yield _event(entry, offset, window if isinstance(window, str) else "", blob.uri)
        else:
            yield _event(value, offset, "", blob.uri)


def _event(value: Any, offset: int, window: str, uri: str) -> Event:
    """Unpack a value and return its event."""
    try:
        if isinstance(value, str):
            value = _inflate(value)
        if isinstance(value, dict) and "cv" in value:
            value = _decompress(value)
    except (ValueError, zlib.error) as error:
        return Event(offset, window, ParseError(uri, offset, "bad_packing", f"wanted a packed event: {error}"))
    if not isinstance(value, dict) or whole_number_of(value.get("type")) is None:
        excerpt = (shallow_json(value, 100) or brief(value, 400))[:400].encode("utf-8", "surrogatepass")
        failure = ParseError(uri, offset, "bad_record", "wanted an event with a type", "", excerpt)
        return Event(offset, window, failure)
    own = value.get("windowId")
    return Event(offset, own if isinstance(own, str) and not window else window, value)


def _decompress(value: dict[str, Any]) -> dict[str, Any]:
    data = value.get("data")
    if isinstance(data, str):
        data = _inflate(data)
    if isinstance(data, dict):
        data = {
            name: _inflate(member) if name in _COMPRESSED and isinstance(member, str) else member
            for name, member in data.items()
        }
    return {**value, "data": data}


def _inflate(text: str) -> Any:
    """Return the JSON value of a packed string.

    Raises:
        ValueError: the string is no packed JSON, or larger than `INFLATED_BYTES`.
        zlib.error: the bytes are damaged.
    """
    if not text.startswith(_PACKED):
        raise ValueError("its bytes are neither zlib nor gzip")
    reader = zlib.decompressobj(wbits=47)
    data = reader.decompress(text.encode("latin-1"), INFLATED_BYTES)
    if not reader.eof:
        raise ValueError(f"it is cut, or holds more than {INFLATED_BYTES} bytes")
    return json_value(data)
