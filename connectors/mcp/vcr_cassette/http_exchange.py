"""HTTP exchanges in cassettes of VCR: decoded bodies, headers in lower case. Independent of any API.

Bodies are text, possibly compressed bytes, parsed JSON (`parsed_body`), or wrapped in `{string: …}` or `{type: json,
content: …}`; VCR for Ruby adds an encoding and `base64_string`. Lines of JSON objects (NDJSON) become a list. Bodies
are unpacked up to a size limit. An event stream of Amazon's becomes the list of its events.
"""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode
from dataclasses import dataclass
from typing import Any, Final

import zstandard

from trajmill.connectors.reading.aws_events import EventStreamError, aws_events, is_event_stream
from trajmill.connectors.reading.fields import plain_text
from trajmill.connectors.reading.values import json_value

FAILED: Final = 400
"""Lowest HTTP status of a failure."""

UNPACKED_BYTES: Final = 16 << 20
"""Largest unpacked size of a compressed body in bytes; larger ones are not read."""

CASSETTE_BYTES: Final = 64 << 20
"""Largest total of unpacked bytes per cassette; compressed bodies beyond it are not read."""

_TYPED: Final = {"type", "content"}
_KINDS: Final = ("json", "text", "base64")
"""Names of the kinds of a body in newer cassettes: parsed JSON, text, or bytes."""


class BodyError(Exception):
    """Error for a body that cannot be read, with an explanation. It is always turned into a reject."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response. Bodies are JSON values if possible, else text, else None.

    `text` is the text of the response's body if that is one JSON value.
    """

    offset: int
    method: str
    url: str
    sent: dict[str, str]
    asked: Any
    status: int | None
    received: dict[str, str]
    told: Any
    text: str | None = None


class Unpacker:
    """Decompressor of a cassette's bodies in gzip, zlib or zstandard, recognized by their first bytes."""

    def __init__(self) -> None:
        self._left = CASSETTE_BYTES

    def __call__(self, data: bytes) -> bytes:
        """Return the bytes of a body that may be compressed.

        Raises:
            BodyError: the body is damaged, or too long when unpacked, alone or together with those before it.
        """
        limit = min(UNPACKED_BYTES, self._left)
        try:
            if data[:2] == b"\x1f\x8b" or data[:2] in (b"\x78\x01", b"\x78\x9c", b"\x78\xda"):
                engine = zlib.decompressobj(47)
                unpacked = engine.decompress(data, limit + 1)
                is_complete = engine.eof
            elif data[:4] == b"\x28\xb5\x2f\xfd":
                with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                    unpacked = reader.read(limit + 1)
                is_complete = True
            else:
                return data
        except (zlib.error, zstandard.ZstdError) as error:
            raise BodyError(f"a compressed body that is damaged: {error}") from None
        if len(unpacked) > limit or not is_complete:
            raise BodyError("a compressed body that is cut, or too long unpacked")
        self._left -= len(unpacked)
        return unpacked


def exchange(offset: int, value: dict[str, Any], unpack: Unpacker) -> Exchange:
    """Read the exchange of an interaction `{request, response}`.

    Raises:
        BodyError: a body cannot be unpacked or is not UTF-8.
    """
    request, response = value.get("request"), value.get("response")
    request = request if isinstance(request, dict) else {}
    response = response if isinstance(response, dict) else {}
    body, text = _body(response, unpack)
    status = response.get("status")
    code = status.get("code") if isinstance(status, dict) else response.get("status_code")
    return Exchange(
        offset=offset,
        method=plain_text(request.get("method") or "").upper(),
        url=plain_text(request.get("uri") or request.get("url") or ""),
        sent=_headers(request.get("headers")),
        asked=_body(request, unpack)[0],
        status=code if isinstance(code, int) else None,
        received=_headers(response.get("headers")),
        told=body,
        text=text,
    )


def _headers(value: Any) -> dict[str, str]:
    """Return headers by lower-case name, with the first of several values."""
    by_name: dict[str, str] = {}
    for name, values in value.items() if isinstance(value, dict) else ():
        first = values[0] if isinstance(values, list) and values else values
        if isinstance(first, str):
            by_name[str(name).lower()] = first
    return by_name


def _body(message: dict[str, Any], unpack: Unpacker) -> tuple[Any, str | None]:
    """Return the body of a message, and its text if that is one JSON value."""
    for key in ("parsed_body", "body", "content"):
        body = message.get(key)
        if isinstance(body, dict) and body.keys() == _TYPED and body["type"] in _KINDS:
            body = {"base64_string": body["content"]} if body["type"] == "base64" else body["content"]
        if body is not None:
            return _read(body, unpack)
    return None, None


def _read(body: Any, unpack: Unpacker) -> tuple[Any, str | None]:
    if isinstance(body, dict) and ("string" in body or "base64_string" in body):
        packed = body.get("base64_string")
        if isinstance(packed, str):
            try:
                body = b64decode(packed)
            except (binascii.Error, ValueError):
                raise BodyError("a body that is not base64") from None
        else:
            body = body.get("string")
    if isinstance(body, bytes):
        body = unpack(body)
        if is_event_stream(body):
            return _events(body), None
        try:
            body = body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise BodyError(f"a body that is not UTF-8: {error.reason}") from None
    if isinstance(body, str) and body.lstrip()[:1] in ("{", "["):
        try:
            return json_value(body), body
        except ValueError:
            return _lines(body), None
    return body, None


def _lines(text: str) -> Any:
    """Return the objects of a body of several lines, each a JSON object; else the text itself."""
    objects = []
    for line in text.splitlines():
        if line.strip():
            try:
                objects.append(json_value(line))
            except ValueError:
                return text
    return objects if len(objects) > 1 and all(isinstance(item, dict) for item in objects) else text


def _events(body: bytes) -> list[dict[str, Any]]:
    try:
        return list(aws_events(body))
    except EventStreamError as error:
        raise BodyError(f"an event stream that is damaged at byte {error.offset}: {error}") from None
