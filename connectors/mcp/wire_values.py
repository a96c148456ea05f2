"""What wire logs write into values: times, JSON text of bounded depth, base64, server-sent events, places of elements.

Nothing here knows a message of the protocol; see `wire_content` and `wire_session`.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from connectors.reading.json_text import shallow_json
from connectors.reading.values import json_value

NUMBERS: Final = (int, float)
"""Types of JSON numbers; a union of them takes three times as long to check."""

_NUMBER: Final = frozenset(NUMBERS)
_LONGEST_MS: Final = 10**12
_INDENTED: Final = re.compile(rb"\s*[\[{]\n([ \t]+)[\"{]")
_EVENT_END: Final = re.compile(r"\r\n\r\n|\n\n|\r\r")
_LINE_END: Final = re.compile(r"\r\n|\n|\r")

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_Signs = np.ndarray[Any, np.dtype[np.bool_]]
_Places = np.ndarray[Any, np.dtype[np.int64]]


def seconds_of(milliseconds: Any) -> float | None:
    """Seconds of a duration in milliseconds, None of what is none."""
    kind = type(milliseconds)
    if kind not in _NUMBER or not 0 <= milliseconds < _LONGEST_MS:
        return None
    seconds: float = milliseconds / 1000
    return seconds if kind is int else round(seconds, 9)


def as_object(text: str) -> str | None:
    """`text` if it is JSON of an object that is carried on as it is, else None."""
    if text[:1] != "{":
        return None
    try:
        value = json_value(text)
    except ValueError:
        return None
    return shallow_json(value) if isinstance(value, dict) else None


def blob_digest(data: str) -> str:
    """sha256 of the bytes that base64 `data` stands for, of the text itself if it is not base64; 64 hex digits."""
    try:
        return hashlib.sha256(b64decode(data, validate=True)).hexdigest()
    except (binascii.Error, ValueError):
        return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()


def sse_data(text: str) -> Iterator[str]:
    """The data of each server-sent event in order; events without data and comments are left out.

    Lines end in LF, CRLF or CR; several data lines of one event are joined by LF (WHATWG HTML, 9.2.6).
    """
    for event in _EVENT_END.split(text):
        data = [line[5:].removeprefix(" ") for line in _LINE_END.split(event) if line.startswith("data:")]
        if data:
            yield "\n".join(data)


def places_of(data: bytes, values: Sequence[Any], key: bytes = b"", depth: int = 0) -> list[int]:
    """Byte offsets of the elements of an array, which are objects, by its indents if it has some; else as below.

    Returns:
        empty if they are not all found.
    """
    indented = _INDENTED.match(data)
    if indented is not None:
        line = b"\n" + indented[1] * depth
        begin = data.find(line + key + b": [") if key else 0
        raw = np.frombuffer(data, np.uint8)
        ends = raw == ord("\n")
        end = next(_before(line + b"]", data, raw, ends, max(0, begin)), len(data) - 1)
        inner, place = line + indented[1] + b"{", len(line + indented[1])
        found = [at + place for at in _before(inner, data, raw, ends, max(0, begin)) if at < end - place]
        if begin >= 0 and len(found) == len(values):
            return found
    found = element_offsets(data, key, depth)
    return found if len(found) == len(values) else []


def _before(start: bytes, data: bytes, raw: _Bytes, ends: _Signs, begin: int) -> Iterator[int]:
    """Those line ends from `begin` on at which `start` stands; it begins with one.

    `bytes.find` and `re` for the whole take several times as long, since all lines begin alike.
    """
    reach = len(start) - 1
    alike = (ends[:-reach] & (raw[reach:] == start[-1])).tobytes()
    at = alike.find(1, begin)
    while at >= 0:
        if data.startswith(start, at):
            yield at
        at = alike.find(1, at + 1)


def element_offsets(data: bytes, key: bytes = b"", depth: int = 0) -> list[int]:
    """Byte offsets of the objects in an array of a JSON document; empty if there is no such array.

    Args:
        data: the document, which has to be JSON.
        key: the array's name with its quotes; empty if the document is the array.
        depth: levels around the array, 1 for a member of the document's object.
    """
    raw = np.frombuffer(data, np.uint8)
    opens = (raw == ord("{")) | (raw == ord("["))
    places = np.flatnonzero(opens | (raw == ord("}")) | (raw == ord("]")))
    places = places[np.searchsorted(_quotes(data, raw), places) % 2 == 0]
    after = np.cumsum(np.where(opens[places], 1, -1))
    for found in re.finditer(re.escape(key) + rb"\s*:\s*\[" if key else rb"\[", data):
        at = int(np.searchsorted(places, found.end() - 1))
        if at < len(places) and places[at] == found.end() - 1 and after[at] == depth + 1:
            ends = np.flatnonzero(after[at:] == depth)
            stop = at + (int(ends[0]) if len(ends) else len(after) - at)
            inner = places[at + 1 : stop]
            starts = inner[(after[at + 1 : stop] == depth + 2) & (raw[inner] == ord("{"))]
            return [int(place) for place in starts]
    return []


def _quotes(data: bytes, raw: _Bytes) -> _Places:
    """Where the strings of a JSON document begin and end, in order."""
    quotes = np.flatnonzero(raw == ord('"'))
    escaped = (quotes > 0) & (raw[quotes - 1] == ord("\\"))
    # Most are escaped by one backslash; an even run of them before a quote escapes only itself.
    for index in np.flatnonzero(escaped & (quotes > 1) & (raw[quotes - 2] == ord("\\"))):
        place = int(quotes[index])
        start = place
        while start > 0 and data[start - 1] == ord("\\"):
            start -= 1
        escaped[index] = (place - start) % 2 == 1
    return quotes[~escaped]
