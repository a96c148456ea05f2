"""Event streams of Amazon's services, as tests write them."""

import json
import struct
import zlib
from base64 import b64encode
from typing import Any


def header(name: str, kind: int, value: bytes) -> bytes:
    """A header of a message: its name, the type of its value, and the value as it is written."""
    return bytes([len(name)]) + name.encode() + bytes([kind]) + value


def text_header(name: str, text: str) -> bytes:
    """A header whose value is text."""
    return header(name, 7, struct.pack(">H", len(text.encode())) + text.encode())


def frame_record(headers: bytes, payload: bytes) -> bytes:
    """A message with its two checksums."""
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def event(kind: str, payload: Any) -> bytes:
    """An event of that kind."""
    headers = text_header(":event-type", kind) + text_header(":message-type", "event")
    return frame_record(headers, json.dumps(payload).encode())


def chunk(payload: Any) -> bytes:
    """An event that holds the event of another API."""
    return event("chunk", {"bytes": b64encode(json.dumps(payload).encode()).decode(), "p": "abc"})
