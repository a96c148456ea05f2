"""Framework messages converted to the chat messages that `shapes` reads, one module per dialect.

A dialect knows how its framework names a message, a call, a result and an error. It does not depend on the container,
since the same messages occur in files, in attributes of spans and in exports of traces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trajmill.connectors.conversation.dialects import adk, autogen, harmony, langchain, pydantic_ai, smolagents, vercel

Message = Mapping[str, Any]


def plain(message: Message) -> list[dict[str, Any]] | None:
    """Convert a framework's message to chat messages in order; None if no dialect fits."""
    for dialect in (harmony, langchain, pydantic_ai, vercel, smolagents, adk, autogen):
        messages = dialect.plain(message)
        if messages is not None:
            return messages
    return None
