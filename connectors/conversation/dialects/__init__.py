"""Messages in the words of a framework, converted to the messages of a chat that `shapes` reads, a module each.

A dialect says how its bytes name a message, a call, a result and an error, and nothing of what holds the messages: the
same words stand in files, in attributes of spans and in exports of traces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trajmill.connectors.conversation.dialects import adk, harmony, langchain, pydantic_ai, smolagents, vercel

Message = Mapping[str, Any]


def plain(message: Message) -> list[dict[str, Any]] | None:
    """Convert a framework's message to the messages of a chat, in their order; None where it is in no framework's
    words.
    """
    for dialect in (harmony, langchain, pydantic_ai, vercel, smolagents, adk):
        messages = dialect.plain(message)
        if messages is not None:
            return messages
    return None
