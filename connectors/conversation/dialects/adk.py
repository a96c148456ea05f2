"""Events of Google's Agent Development Kit: sessions, answers of its server, and evaluation sets.

    {"author": "gardener", "invocationId": …, "content": {"role": "model", "parts": [{"functionCall": …}]}}
    {"user_content": …, "intermediate_data": {"tool_uses": [{"name": …, "args": {…}}], "tool_responses": […]},
        "final_response": …}

The content of an event is a Gemini message, whichever agent is its author. Events without content change the session's
state, and partial events are repeated as a whole. An invocation of an evaluation set contains the user's words, calls,
their results, and the last answer; its calls and answers may also be `invocation_events`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trajmill.connectors.reading.fields import object_of, objects_of

_USER: Final = "user"
_MARKS: Final = ("invocationId", "invocation_id", "actions")


def plain(message: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Convert an event or an invocation to chat messages; None for any other message."""
    if isinstance(message.get("user_content"), dict) and {"intermediate_data", "final_response"} & message.keys():
        return list(_invocation(message))
    if not isinstance(message.get("author"), str) or not any(key in message for key in _MARKS):
        return None
    return list(_event(message))


def _event(event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = object_of(event.get("content"))
    if isinstance(content.get("parts"), list) and event.get("partial") is not True:
        role = content.get("role") or (_USER if event["author"] == _USER else "model")
        yield {"role": role, "parts": [_drop_empty(part) for part in objects_of(content["parts"])]}


def _invocation(invocation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    between = object_of(invocation.get("intermediate_data"))
    yield {"role": _USER, "parts": [_drop_empty(part) for part in objects_of(invocation["user_content"].get("parts"))]}
    for event in objects_of(between.get("invocation_events")):
        yield from _event({"author": "model", **event})
    for key, role, member in (("tool_uses", "model", "functionCall"), ("tool_responses", _USER, "functionResponse")):
        if parts := [{member: value} for value in objects_of(between.get(key))]:
            yield {"role": role, "parts": parts}
    if parts := objects_of(object_of(invocation.get("final_response")).get("parts")):
        yield {"role": "model", "parts": [_drop_empty(part) for part in parts]}


def _drop_empty(part: dict[str, Any]) -> dict[str, Any]:
    """Return the part without null members."""
    return {key: value for key, value in part.items() if value is not None}


def is_unanswered(value: Mapping[str, Any]) -> bool:
    """Check whether an evaluation case has only expected calls and no results."""
    between = [object_of(turn.get("intermediate_data")) for turn in objects_of(value.get("conversation"))]
    asked = any(turn.get("tool_uses") for turn in between)
    return asked and not any(turn.get("tool_responses") or turn.get("invocation_events") for turn in between)
