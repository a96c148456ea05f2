"""Shared parts of the connectors for JSON documents with a session as an array of request and response pairs.

A pair becomes its messages, in order; `wire_session` interprets them. This module is independent of any recorder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trajmill.connectors.connector import Blob
from trajmill.connectors.mcp.wire_session import CLIENT, SERVER, Message
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.large.outline import Shape
from trajmill.connectors.reading.times import microseconds, seconds_of
from trajmill.schemas import ParseError

_BODIES: Final = (dict, list)


def document(blob: Blob, shapes: Sequence[Shape] = ()) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of a log that is one JSON object, and the object; see `reading.documents.json_document`.

    Raises:
        ParseError: the log is no JSON object.
    """
    value, data = json_document(blob, "", shapes)
    if not isinstance(value, dict):
        raise ParseError(blob.uri, 0, "bad_record", f"wanted a JSON object, met {type(value).__name__}")
    return data, value


def pair(offset: int, interaction: dict[str, Any], server_asks: bool = False) -> list[Message]:
    """Return the messages of a pair in order: request, notifications in between, response.

    A response without an id answers its request, since the recorder paired them.
    """
    request, response = interaction.get("request"), interaction.get("response")
    asker, answerer = (SERVER, CLIENT) if server_asks else (CLIENT, SERVER)
    exchanged: list[Message] = []
    if isinstance(request, _BODIES):
        at = microseconds(interaction["timestamp"]) if "timestamp" in interaction else None
        exchanged.append(Message(offset, request, asker, at=at))
    if (notified := interaction.get("notifications")) and isinstance(notified, list):
        exchanged += [Message(offset, note, answerer) for note in notified]
    if isinstance(response, _BODIES):
        if isinstance(response, dict) and response.get("id") is None and isinstance(request, dict):
            response = {**response, "id": request.get("id")}
        seconds = seconds_of(interaction.get("latency_ms"))
        # The sum turns -0.0 into 0.0.
        exchanged.append(Message(offset, response, answerer, seconds=None if seconds is None else seconds + 0.0))
    return exchanged
