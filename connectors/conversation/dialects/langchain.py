"""Messages of LangChain and LangGraph: `messages_to_dict`, `model_dump`, and `dumps` of Python and JavaScript.

    {"type": "ai", "data": {"content": …, "tool_calls": [{"name": …, "args": {…}, "id": …}]}}
    {"type": "tool", "content": …, "tool_call_id": …, "status": "error"}
    {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"], "kwargs": {"content": …}}

Calls are in `tool_calls`, and in `invalid_tool_calls` if the client could not parse their arguments; the blocks of the
content repeat them. Before 2024 only `additional_kwargs` contained them, in OpenAI's form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.conversation.literals import literal_value
from trajmill.connectors.reading.fields import objects_of, str_of

_ROLES: Final = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
    "function": "function",
}
_PRINTED: Final = re.compile(
    r"content=('(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")(?: name='[^']*')?(?: id='[^']*')? tool_call_id='([^']*)'"
    r"(?: artifact=.*?)?(?: status='(\w+)')?",
    re.DOTALL,
)
_CALLS: Final = frozenset({"tool_use", "tool_call", "function_call", "custom_tool_call", "input_json_delta"})
"""Types of content blocks that repeat calls."""


def plain(message: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Convert a LangChain message to a chat message; None for any other message."""
    kind, fields = message.get("type"), message
    if isinstance(message.get("kwargs"), dict) and isinstance(message.get("id"), list):
        fields = message["kwargs"]
        kind = fields.get("type") or (message["id"][-1] if message["id"] else None)
    elif isinstance(message.get("data"), dict):
        fields = message["data"]
    word = kind.lower().removesuffix("chunk").removesuffix("message") if isinstance(kind, str) else ""
    role = _ROLES.get(word) or (fields.get("role") if word == "chat" else None)
    if role is None or "content" not in fields or "role" in message:
        return None
    return [_agents(fields) if role == "assistant" else {**fields, "role": role}]


def parse_printed(text: str) -> dict[str, Any] | None:
    """Parse a tool's message printed by Python, as in spans; None for any other text."""
    match = _PRINTED.fullmatch(text)
    content = literal_value(match[1]) if match is not None else None
    if match is None or content is None:
        return None
    return {"type": "tool", "content": content, "tool_call_id": match[2], "status": match[3] or "success"}


def _agents(fields: Mapping[str, Any]) -> dict[str, Any]:
    extras, content = fields.get("additional_kwargs"), fields["content"]
    extras = extras if isinstance(extras, dict) else {}
    calls = objects_of(fields.get("tool_calls")) + objects_of(fields.get("invalid_tool_calls"))
    calls = calls or objects_of(extras.get("tool_calls"))
    if calls and isinstance(content, list):
        content = [block for block in content if not (isinstance(block, dict) and str_of(block.get("type")) in _CALLS)]
    answer = {"role": "assistant", "content": content, "tool_calls": calls}
    return answer | {key: extras[key] for key in ("reasoning_content", "function_call") if key in extras}
