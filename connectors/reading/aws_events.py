"""Event streams of Amazon's services (`application/vnd.amazon.eventstream`), the bodies of streamed HTTP answers.

A message is a binary frame: its length, the length of its headers, a checksum of both, headers, a payload, and a
checksum of the whole message. A payload is JSON; if it contains the bytes of another API's event (`chunk`), that event
is returned. Source: the specification of the encoding in the documentation of Amazon Transcribe and of the SDKs.
"""

from __future__ import annotations

import binascii
import struct
import zlib
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, Final

from trajmill.connectors.reading.values import JsonError, json_value

_PRELUDE: Final = struct.Struct(">III")
_CHECKSUM: Final = struct.Struct(">I")
_LEAST: Final = _PRELUDE.size + _CHECKSUM.size
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type; values of types 6 and 7 follow two bytes with their size."""

_TEXTS: Final = (6, 7)
_KIND: Final = ":event-type"
_CHUNK: Final = "chunk"


class EventStreamError(ValueError):
    """Error of bytes that are framed as an event stream but damaged, at `offset`."""

    def __init__(self, offset: int, detail: str) -> None:
        super().__init__(detail)
        self.offset = offset


def is_event_stream(data: bytes) -> bool:
    """Check whether the bytes begin with the frame of a message with a correct checksum."""
    if len(data) < _LEAST:
        return False
    length, headers, checksum = _PRELUDE.unpack_from(data)
    return length >= _LEAST + headers and checksum == zlib.crc32(data[: _PRELUDE.size - _CHECKSUM.size])


def aws_events(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream in order, each an object of its kind and payload, or the event in a chunk.

    A truncated last message, as after a client's disconnect, is left out, and so are messages without JSON.

    Raises:
        EventStreamError: A message is damaged.
    """
    position = 0
    while position + _LEAST <= len(data):
        length, headers, _ = _PRELUDE.unpack_from(data, position)
        if not is_event_stream(data[position : position + _LEAST]):
            raise EventStreamError(position, "the frame of a message is damaged")
        end = position + length
        if end > len(data):
            return
        if _CHECKSUM.unpack_from(data, end - _CHECKSUM.size)[0] != zlib.crc32(data[position : end - _CHECKSUM.size]):
            raise EventStreamError(position, "a message is damaged")
        begin = position + _PRELUDE.size
        event = _event(_headers(data[begin : begin + headers], position), data[begin + headers : end - _CHECKSUM.size])
        if event is not None:
            yield event
        position = end


def _headers(data: bytes, at: int) -> dict[str, str]:
    """Return the text headers of a message."""
    texts: dict[str, str] = {}
    position = 0
    try:
        while position < len(data):
            begin = position + 1 + data[position]
            name, kind = data[position + 1 : begin].decode(), data[begin]
            position = begin + 1
            if kind in _TEXTS:
                size = int.from_bytes(data[position : position + 2], "big")
                texts[name] = data[position + 2 : position + 2 + size].decode("utf-8", "replace")
                position += 2 + size
            else:
                position += _SIZES[kind]
    except (IndexError, KeyError, UnicodeDecodeError):
        raise EventStreamError(at, "the headers of a message are damaged") from None
    return texts


def _event(headers: dict[str, str], payload: bytes) -> dict[str, Any] | None:
    value = _value(payload)
    if not isinstance(value, dict):
        return None
    kind = headers.get(_KIND) or headers.get(":exception-type") or ""
    if kind == _CHUNK and isinstance(value.get("bytes"), str):
        try:
            inner = _value(b64decode(value["bytes"]))
        except (binascii.Error, ValueError):
            return None
        return inner if isinstance(inner, dict) else None
    return {kind: value}


def _value(data: bytes) -> Any:
    try:
        return json_value(data)
    except JsonError:
        return None
