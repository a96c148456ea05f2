"""Texts and attachments of messages from a server of the Model Context Protocol (specification 2024-11-05 to
2026-07-28).

Text blocks are joined by a newline; structured content replaces them only if there is no text, since it repeats them.
Images, audio and binary resources become attachments by digest; any other block becomes its JSON.
"""

from __future__ import annotations

from typing import Any, Final

from trajmill.connectors.conversation.opaque import attachment, reference, size_of, text_in
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.schemas import Attachment

_EMPTY: Final = frozenset({"content", "isError", "structuredContent", "_meta", "meta", "_type", "resultType"})
"""Members of a result that carry no information without content."""


def tool_result(result: dict[str, Any]) -> tuple[str | None, list[Attachment]]:
    """Return the text and attachments of a tool's result; both are empty only if it is nested too deeply."""
    content = result.get("content")
    if type(content) is list and len(content) == 1:
        block = content[0]
        if type(block) is dict and block.get("type") == "text" and type(text := block.get("text")) is str:
            return text, []  # as `blocks` reads it; most results are so
    texts, attached = blocks(content)
    if texts:
        return "\n".join(texts), attached
    structured = result.get("structuredContent")
    if structured is not None:
        return shallow_json(structured), attached
    if attached:
        return None, attached
    if "toolResult" in result:  # version 2024-10-07 of the protocol
        value = result["toolResult"]
        return value if isinstance(value, str) else shallow_json(value), attached
    if _EMPTY.issuperset(result):
        return "", attached
    return shallow_json(result), attached


def resource_text(contents: list[Any]) -> tuple[str | None, list[Attachment]]:
    """Return the text and attachments of the contents of resources."""
    texts: list[str] = []
    attached: list[Attachment] = []
    for resource in contents:
        _read_resource(resource, texts, attached)
    if texts:
        return "\n".join(texts), attached
    return (None if attached else ""), attached


def blocks(content: Any) -> tuple[list[str], list[Attachment]]:
    """Return the texts and attachments of content blocks, in order; a block of an unknown type is JSON text."""
    texts: list[str] = []
    attached: list[Attachment] = []
    if isinstance(content, str):
        return [content], attached
    for block in content if isinstance(content, list) else [content] if isinstance(content, dict) else []:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif kind in ("image", "audio") and (blob := _blob(block.get("data"), kind, block.get("mimeType"))):
            attached += blob
        elif kind == "resource" and _read_resource(block.get("resource"), texts, attached):
            continue
        elif block is not None:
            text = block if isinstance(block, str) else shallow_json(block)
            texts += [text] if text is not None else []
    return texts, attached


def _read_resource(resource: Any, texts: list[str], attached: list[Attachment]) -> bool:
    """Add the contents of a resource: text, also as base64 of a text type, or bytes; return False if it has neither."""
    if not isinstance(resource, dict):
        return False
    text = resource.get("text")
    text = text if isinstance(text, str) else text_in({"type": "resource", "resource": resource})
    if text is not None:
        texts.append(text)
        return True
    blobs = _blob(resource.get("blob"), "resource", resource.get("mimeType"), resource.get("uri"))
    attached += blobs
    return bool(blobs)


def _blob(data: Any, role: str, media_type: Any, name: Any = None) -> list[Attachment]:
    blob = attachment(data, media_type, role, name)
    return [] if blob is None else [blob]


def without_data(value: Any, attached: list[Attachment], depth: int = 8) -> Any:
    """Replace the base64 of content blocks in `value` by references, and add their attachments to `attached`.

    Levels below `depth` are not changed.
    """
    if depth == 0:
        return value
    if isinstance(value, list):
        return [without_data(element, attached, depth - 1) for element in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    for key, role in (("data", kind), ("blob", "resource")):
        if isinstance(value.get(key), str) and role in ("image", "audio", "resource"):
            for blob in _blob(value[key], str(role), value.get("mimeType"), value.get("uri")):
                attached.append(blob)
                return {**value, key: reference(blob, size_of(value[key]))}
    return {key: without_data(member, attached, depth - 1) for key, member in value.items()}
