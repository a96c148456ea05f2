"""HTTP exchanges as cassettes of VCR hold them: bodies decoded, headers in lower case. It knows no API.

Bodies come as text, as bytes that may be compressed, as JSON already parsed (`parsed_body`), or within `{string: …}`
or `{type: json, content: …}`; VCR for Ruby adds an encoding and `base64_string`. Lines of JSON objects (NDJSON) are a
list. A body is unpacked up to a size. An event stream of Amazon's is the list of its events.
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
"""Lowest status of HTTP that is a failure."""

UNPACKED_BYTES: Final = 32 << 20
"""A compressed body that is longer unpacked is not read."""


_TYPED: Final = {"type", "content"}
_KINDS: Final = ("json", "text", "base64")
"""How newer cassettes say what a body is: JSON that is parsed, a text, or bytes."""


class BodyError(Exception):
    """A body that cannot be read: why, for a person. Always turned into a reject."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response; bodies are JSON values where they are JSON, else text, else None.

    `text` is that of the response's body where it is one JSON value.
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


def exchange(offset: int, value: dict[str, Any]) -> Exchange:
    """The exchange of an interaction `{request, response}`.

    Raises:
        BodyError: a body cannot be unpacked or is not UTF-8.
    """
    request, response = value.get("request"), value.get("response")
    request = request if isinstance(request, dict) else {}
    response = response if isinstance(response, dict) else {}
    told, text = _body(response)
    status = response.get("status")
    code = status.get("code") if isinstance(status, dict) else response.get("status_code")
    return Exchange(
        offset=offset,
        method=plain_text(request.get("method") or "").upper(),
        url=plain_text(request.get("uri") or request.get("url") or ""),
        sent=_headers(request.get("headers")),
        asked=_body(request)[0],
        status=code if isinstance(code, int) else None,
        received=_headers(response.get("headers")),
        told=told,
        text=text,
    )


def _headers(value: Any) -> dict[str, str]:
    """Headers by lower-case name; of several values the first."""
    found: dict[str, str] = {}
    for name, given in value.items() if isinstance(value, dict) else ():
        one = given[0] if isinstance(given, list) and given else given
        if isinstance(one, str):
            found[str(name).lower()] = one
    return found


def _body(message: dict[str, Any]) -> tuple[Any, str | None]:
    """The body of a message, and its text where that is one JSON value."""
    for key in ("parsed_body", "body", "content"):
        body = message.get(key)
        if isinstance(body, dict) and body.keys() == _TYPED and body["type"] in _KINDS:
            body = {"base64_string": body["content"]} if body["type"] == "base64" else body["content"]
        if body is not None:
            return _read(body)
    return None, None


def _read(body: Any) -> tuple[Any, str | None]:
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
        body = _unpacked(body)
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
    """The objects of a body of several lines, each a JSON object; the text itself if it is none."""
    found = []
    for line in text.splitlines():
        if line.strip():
            try:
                found.append(json_value(line))
            except ValueError:
                return text
    return found if len(found) > 1 and all(isinstance(one, dict) for one in found) else text


def _events(body: bytes) -> list[dict[str, Any]]:
    try:
        return list(aws_events(body))
    except EventStreamError as error:
        raise BodyError(f"an event stream that is damaged at byte {error.offset}: {error}") from None


def _unpacked(data: bytes) -> bytes:
    """The bytes of a body that may be compressed by gzip, zlib or zstandard, told by how it begins."""
    try:
        if data[:2] == b"\x1f\x8b" or data[:2] in (b"\x78\x01", b"\x78\x9c", b"\x78\xda"):
            engine = zlib.decompressobj(47)
            made = engine.decompress(data, UNPACKED_BYTES)
            if engine.unconsumed_tail or not engine.eof:
                raise BodyError("a compressed body that is cut, or too long unpacked")
            return made
        if data[:4] == b"\x28\xb5\x2f\xfd":
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                made = reader.read(UNPACKED_BYTES + 1)
            if len(made) > UNPACKED_BYTES:
                raise BodyError("a compressed body that is too long unpacked")
            return made
    except (zlib.error, zstandard.ZstdError) as error:
        raise BodyError(f"a compressed body that is damaged: {error}") from None
    return data
