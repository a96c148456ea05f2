r"""Messages of OpenAI's harmony, as its library prints them: the channel and the recipient tell what a text is.

    {"role": "assistant", "channel": "analysis", "content": [{"type": "text", "text": "I should look."}]}
    {"role": "assistant", "channel": "commentary", "recipient": "functions.look", "content_type": "<|constrain|>json",
     "content": [{"type": "text", "text": "{\"bed\": 2}"}]}
    {"role": "tool", "name": "functions.look", "content": [{"type": "text", "text": "dry"}]}

A call has no id; its answer follows it, and names the tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.conversation.calls import json_of
from trajmill.connectors.conversation.content import spoken_text
from trajmill.connectors.reading.fields import objects_of, text_of

KEYS: Final = frozenset({"channel", "recipient"})
"""Keys of which every harmony message that could be another vendor's has at least one."""

_NOBODY: Final = ("all", "user", "assistant")
_TEXTS: Final = ("model_identity", "instructions", "text")
_FUNCTIONS: Final = "functions."


def plain(message: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Convert a harmony message to chat messages; None for any other message."""
    role, recipient = message.get("role"), text_of(message.get("recipient"))
    blocks = objects_of(message.get("content"))
    if role in ("system", "developer"):
        declarations = [block for block in blocks if block.get("type") in ("system_content", "developer_content")]
        return [{"role": role, "content": _declaration_text(block)} for block in declarations] or None
    if (text_of(message.get("channel")) is None and recipient is None) or message.get("tool_calls"):
        return None
    text = spoken_text(message.get("content"))
    if role == "assistant" and recipient is not None and recipient not in _NOBODY:
        called = {"name": recipient.removeprefix(_FUNCTIONS), "arguments": text}
        return [{"role": role, "content": None, "tool_calls": [called]}]
    if role == "assistant" and message.get("channel") == "analysis":
        return [{"role": role, "content": None, "reasoning_content": text}]
    if role == "tool":
        name = text_of(message.get("name"))
        return [{"role": role, "name": name and name.removeprefix(_FUNCTIONS), "content": message.get("content")}]
    return [{"role": role, "content": message.get("content")}]


def _declaration_text(block: Mapping[str, Any]) -> str:
    """Return the text of a system or developer declaration; its other members follow as JSON."""
    texts = [text for key in _TEXTS if (text := text_of(block.get(key))) is not None]
    rest = {key: value for key, value in block.items() if key not in (*_TEXTS, "type") and value}
    return "\n\n".join([*texts, *([json_of(rest)] if rest else [])])
