"""Results of calls from messages of role `tool`, as parts with their text; `shapes` reads other messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from trajmill.connectors.conversation.content import result_of, shown
from trajmill.connectors.conversation.failures import content_failed, exit_code, is_failure, tells
from trajmill.connectors.conversation.turns import Result
from trajmill.connectors.reading.fields import key_of

Message = Mapping[str, Any]


def content_of(message: Message) -> Any:
    """Return the content of a message under any of its names; a model's refusal is its content."""
    content = message.get("content")
    return (message.get("value") or message.get("refusal")) if content is None else content


def answer(message: Message, offset: int, at: datetime | None, key: str = "tool_call_id") -> Result:
    """Return the result in a message of role `tool`; `key` names the field of the call's id."""
    content, call_id, error, code = message.get("content"), message.get(key), None, None
    name = message.get("name") or message.get("tool_name")  # as Ollama calls it
    if tells(message):
        error, code = is_failure(message), exit_code(message)
    if type(call_id) is not str or not call_id:
        call_id = key_of(call_id)
    if not isinstance(name, str) or not name:
        name = None
    if error is None:
        error = content_failed(content)
    if type(content) is str:
        return Result(call_id=call_id, name=name, content=content, offset=offset, is_error=error, at=at, exit_code=code)
    result_content = content_of(message)
    if isinstance(result_content, dict) and code is None:
        code = exit_code(result_content)
    seen = shown(message.get("error") if result_content is None and error else result_content)
    return result_of(seen, call_id, offset, name=name, is_error=error, at=at, exit_code=code)
