"""Answers to actions in chat messages of agents that solve issues: text, attachments and cuts."""

from __future__ import annotations

from typing import Any

from trajmill.connectors.conversation.content import Shown, shown_by, without_pictures
from trajmill.connectors.conversation.harness_text import ANYONE, truncation
from trajmill.connectors.conversation.opaque import attachment_in
from trajmill.schemas import Attachment, Observation


def content_of(value: Any) -> Shown:
    """Return the content of a message: a text, or a list of parts whose texts are joined by line breaks.

    Parts that are neither text nor attachment are ignored, since these logs mark parts with keys of their harness.
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
    """Return the content of a message as an observation; None if it is empty."""
    return observation_of(content_of(value), origin, is_error, uri)


def observation_of(
    content: Shown, origin: str = "environment", is_error: bool | None = None, uri: str | None = None
) -> Observation | None:
    """Return content that was already read as an observation; see `observe`."""
    text, attached, _ = content
    if text is None and not attached:
        return None
    cut = truncation(text or "", ANYONE)
    return Observation(text, origin=origin, is_error=is_error, truncation=cut, uri=uri, attachments=attached)
