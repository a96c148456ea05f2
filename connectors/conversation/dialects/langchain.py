"""Messages of LangChain and LangGraph: `messages_to_dict`, `model_dump`, and `dumps` of Python and JavaScript.

    {"type": "ai", "data": {"content": …, "tool_calls": [{"name": …, "args": {…}, "id": …}]}}
    {"type": "tool", "content": …, "tool_call_id": …, "status": "error"}
    {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"], "kwargs": {"content": …}}

Calls stand in `tool_calls`, those whose arguments the client could not parse in `invalid_tool_calls`; the blocks of the
content repeat them. Before 2024 only `additional_kwargs` held them, in the words of OpenAI.
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
"""Blocks of a content that repeat calls."""


def plain(message: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The message of a chat that one of LangChain is; None of any other."""
    kind, held = message.get("type"), message
    if isinstance(message.get("kwargs"), dict) and isinstance(message.get("id"), list):
        held = message["kwargs"]
        kind = held.get("type") or (message["id"][-1] if message["id"] else None)
    elif isinstance(message.get("data"), dict):
        held = message["data"]
    word = kind.lower().removesuffix("chunk").removesuffix("message") if isinstance(kind, str) else ""
    role = _ROLES.get(word) or (held.get("role") if word == "chat" else None)
    if role is None or "content" not in held or "role" in message:
        return None
    return [_agents(held) if role == "assistant" else {**held, "role": role}]


def printed(text: str) -> dict[str, Any] | None:
    """The message of a tool that a text is as Python prints it, which spans hold; None of any other text."""
    found = _PRINTED.fullmatch(text)
    content = literal_value(found[1]) if found is not None else None
    if found is None or content is None:
        return None
    return {"type": "tool", "content": content, "tool_call_id": found[2], "status": found[3] or "success"}


def _agents(held: Mapping[str, Any]) -> dict[str, Any]:
    kept, content = held.get("additional_kwargs"), held["content"]
    kept = kept if isinstance(kept, dict) else {}
    calls = objects_of(held.get("tool_calls")) + objects_of(held.get("invalid_tool_calls"))
    calls = calls or objects_of(kept.get("tool_calls"))
    if calls and isinstance(content, list):
        content = [one for one in content if not (isinstance(one, dict) and str_of(one.get("type")) in _CALLS)]
    told = {"role": "assistant", "content": content, "tool_calls": calls}
    return told | {key: kept[key] for key in ("reasoning_content", "function_call") if key in kept}
