"""Answers to actions in the chat messages of agents that solve issues: text and attachments, and how they were cut."""

from __future__ import annotations

from typing import Any

from trajmill.connectors.conversation.content import Shown, shown_by, without_pictures
from trajmill.connectors.conversation.harness_text import ANYONE, truncation
from trajmill.connectors.conversation.opaque import attachment_in
from trajmill.schemas import Attachment, Observation


def content_of(value: Any) -> Shown:
    """The content of a message: text, or a list of parts of which texts are joined by line breaks.

    What is neither text nor an attachment says nothing: these logs mark parts with keys of their harness.
    """
    if isinstance(value, str):
        return without_pictures(value)
    texts: list[str] = []
    attached: list[Attachment] = []
    for part in value if isinstance(value, list) else ():
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            shown = without_pictures(text)
            texts.append(shown.text or "")
            attached += shown.attachments
        elif isinstance(part, dict) and (attachment_in(part) is not None or part.get("type") == "document"):
            seen = shown_by(part)
            texts += [] if seen.text is None else [seen.text]
            attached += seen.attachments
    return Shown("\n".join(texts) if texts else None, tuple(attached))


def observe(
    value: Any, origin: str = "environment", is_error: bool | None = None, uri: str | None = None
) -> Observation | None:
    """The observation that a message's content is; None where it holds nothing at all."""
    return observation_of(content_of(value), origin, is_error, uri)


def observation_of(
    content: Shown, origin: str = "environment", is_error: bool | None = None, uri: str | None = None
) -> Observation | None:
    """As `observe`, of a content that is read already."""
    text, attached, _ = content
    if text is None and not attached:
        return None
    cut = truncation(text or "", ANYONE)
    return Observation(text, origin=origin, is_error=is_error, truncation=cut, uri=uri, attachments=attached)
