"""What answered a call, as a part: a message of role `tool`, and the text of what it shows; others: `shapes`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from connectors.mcp.parts import Result, Shown, key_of, shown

Message = Mapping[str, Any]


def content_of(message: Message) -> Any:
    """The content of a message by any of its names; what a model declines to do is what it says."""
    content = message.get("content")
    return (message.get("value") or message.get("refusal")) if content is None else content


def answer(message: Message, offset: int, at: datetime | None, key: str = "tool_call_id") -> Result:
    """The result that a message of role `tool` is; `key` names the field of the call's id."""
    content = content_of(message)
    seen = None if isinstance(content, str) else shown(content)
    name, call_id = message.get("name"), message.get(key)
    error = message.get("is_error")
    if error is None and isinstance(message.get("status"), str):
        error = {"error": True, "success": False}.get(message["status"])
    return Result(
        key_of(call_id),
        name if isinstance(name, str) and name else None,
        content if seen is None else seen_text(seen),
        offset,
        error if isinstance(error, bool) else None,
        () if seen is None else seen.attachments,
        at,
    )


def seen_text(seen: Shown) -> str | None:
    """The text of a result: empty where the log holds an answer without text, null where pictures hold it all."""
    return "" if seen.text is None and not seen.attachments else seen.text
