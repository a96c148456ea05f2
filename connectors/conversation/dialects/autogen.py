"""Messages of AutoGen's AgentChat, and those of its model's context.

    {"source": "assistant", "type": "ToolCallRequestEvent", "content": [{"id": …, "name": …, "arguments": "{…}"}]}
    {"source": "assistant", "type": "ToolCallExecutionEvent", "content": [{"call_id": …, "content": …, "is_error": …}]}
    {"source": "assistant", "type": "AssistantMessage", "thought": …, "content": "…" or calls}
    {"type": "FunctionExecutionResultMessage", "content": [{"call_id": …, …}]}

Every source that is no user is an agent. A summary of calls repeats their results, and pieces of a stream its message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.reading.fields import objects_of

_TEXTS: Final = frozenset({"TextMessage", "MultiModalMessage", "HandoffMessage", "StopMessage", "UserMessage"})
_CALLS: Final = frozenset({"ToolCallRequestEvent", "AssistantMessage"})
_RESULTS: Final = frozenset({"ToolCallExecutionEvent", "FunctionExecutionResultMessage"})
_REPEATED: Final = frozenset({"ToolCallSummaryMessage", "ModelClientStreamingChunkEvent", "UserInputRequestedEvent"})
_USERS: Final = frozenset({"user", "user_proxy"})


def plain(message: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Convert a message or an event to chat messages; None for any other message."""
    kind, content = message.get("type"), message.get("content")
    if "role" in message or not isinstance(kind, str) or ("source" not in message and kind not in _RESULTS):
        return None
    if kind in _RESULTS:
        return [{**result, "role": "tool", "tool_call_id": result.get("call_id")} for result in objects_of(content)]
    if kind in _TEXTS:
        return [{"role": "user" if message["source"] in _USERS else "assistant", "content": content}]
    if kind == "ThoughtEvent":
        return [{"role": "assistant", "content": None, "reasoning_content": content}]
    if kind in _CALLS:
        spoken = (
            {"content": None, "tool_calls": objects_of(content)} if isinstance(content, list) else {"content": content}
        )
        return [{"role": "assistant", "reasoning_content": message.get("thought"), **spoken}]
    return [] if kind in _REPEATED else None
