"""Messages of Pydantic AI: requests and responses, each a list of parts.

    {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": …, "args": …, "tool_call_id": …}]}
    {"kind": "request", "parts": [{"part_kind": "tool-return", "content": …, "tool_call_id": …}]}

A `retry-prompt` answers a call that the framework refused, or asks the model for another answer; since version 2 it is
a `tool-return` with the outcome `retried`. Tools run by a provider are `builtin-tool-call` and `builtin-tool-return`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.conversation.calls import json_of
from trajmill.connectors.reading.fields import objects_of, plain_text

_FAILED: Final = ("failed", "denied", "retried")


def plain(message: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Convert a request or a response to chat messages; None for any other message."""
    parts = objects_of(message.get("parts"))
    if not parts or not all("part_kind" in entry for entry in parts):
        return None
    if message.get("kind") == "request":
        return [_request_message(part) for part in parts]
    answer = {"role": "assistant", "content": [_block(part) for part in parts]}
    return [answer | ({"timestamp": message["timestamp"]} if "timestamp" in message else {})]


def _request_message(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chat message of a part of a request."""
    kind, content = part["part_kind"], part.get("content")
    at = {"timestamp": part["timestamp"]} if "timestamp" in part else {}
    if kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
        failed = kind == "retry-prompt" or part.get("outcome") in _FAILED
        content = json_of(content) if failed and not isinstance(content, str) else content
        key, name = part.get("tool_call_id"), part.get("tool_name")
        return {"role": "tool", "tool_call_id": key, "name": name, "content": content, "is_error": failed, **at}
    if kind == "user-prompt":
        return {"role": "user", "content": _blocks(content), **at}
    return {"role": "system", "content": content if isinstance(content, str) else json_of(content)}


def _blocks(content: Any) -> Any:
    """Return the content of a user's message: a text, or texts, images and other files."""
    if not isinstance(content, list):
        return content
    return [_picture(entry) if isinstance(entry, dict) else entry for entry in content]


def _picture(file: dict[str, Any]) -> dict[str, Any]:
    if file.get("kind") == "binary":
        source = {"type": "base64", "media_type": file.get("media_type"), "data": file.get("data")}
        return {"type": "image", "source": source}
    kind = plain_text(file.get("kind")).removesuffix("-url")
    return {"type": "image_url", "image_url": {"url": file.get("url")}} if kind == "image" else {"type": "file", **file}


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a part of a response to a content block."""
    kind, content = plain_text(part["part_kind"]), part.get("content")
    if kind in ("tool-call", "builtin-tool-call"):
        call = {"id": part.get("tool_call_id"), "name": part.get("tool_name"), "input": part.get("args")}
        return {"type": "tool_use" if kind == "tool-call" else "server_tool_use", **call}
    if kind == "builtin-tool-return":
        return {"type": "server_tool_result", "tool_use_id": part.get("tool_call_id"), "content": content}
    if kind == "thinking":
        return {"type": "thinking", "thinking": content}
    return {"type": "image"} if kind == "file" else {"type": kind, "text": content}
