"""Values that no model can read: base64 of images, sound and documents, and values that an API sealed for itself.

The former become attachments: the digest of their bytes, their role, and their media type. One rule serves all vendors:
the blocks of MCP (`data`, `resource.blob`), Anthropic (`source.data`), OpenAI (`image_url`, `file_data`, `input_audio`)
and Gemini (`inlineData`) are recognized by their members.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.reading.attached import attachment_of_bytes
from trajmill.schemas import Attachment

ENCRYPTED: Final = frozenset({"encrypted_content", "encrypted_index", "encrypted_stdout"})
"""Members that an API sealed, at any place."""

SEALED: Final = ENCRYPTED | {"citations"}
"""Members of a block for the API alone: sealed ones, and the switch for citations."""

UNKNOWN: Final = "application/octet-stream"
"""Media type of bytes of unknown type."""

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,", re.ASCII)
_DOCUMENTS: Final = ("file", "input_file", "document")


_OF_URLS: Final = str.maketrans("-_", "+/")
"""Two characters that differ in base64 for URLs, as written by Google's clients."""


def _bytes_of(data: object) -> bytes | None:
    """Decode base64 of either alphabet, ignoring white space; None if it is invalid or empty."""
    if not isinstance(data, str):
        return None
    if "-" in data or "_" in data:
        data = data.translate(_OF_URLS)
    try:
        return b64decode("".join(data.split()), validate=True) or None
    except (binascii.Error, ValueError):
        return None


def attachment(data: object, media_type: object, role: str, name: object = None) -> Attachment | None:
    """Return the attachment of base64 data; None if it is invalid or empty.

    Args:
        data: Base64 data.
        media_type: Media type, kept if it is valid.
        role: Role: image, audio, document or resource.
        name: Name in the log, such as the uri of a resource.
    """
    content = _bytes_of(data)
    if content is None:
        return None
    kind = media_type if isinstance(media_type, str) and media_type.isascii() and "/" in media_type else None
    return attachment_of_bytes(content, role, kind, name if isinstance(name, str) else None)


def reference(blob: Attachment, size: int) -> str:
    """Return the text that replaces an attachment of `size` bytes: type, size and the beginning of its digest."""
    return f"attachment:{blob.media_type or UNKNOWN};bytes={size};sha256={blob.sha256[:16]}"


def size_of(data: str) -> int:
    """Count the decoded bytes of base64, or of a URL that ends in it; 0 for any other text."""
    return len(_bytes_of(data.rpartition(",")[2]) or b"")


def role_of(media_type: object) -> str:
    """Return the role of an attachment with that media type: image, audio or document."""
    role = media_type.partition("/")[0] if isinstance(media_type, str) else ""
    return role if role in ("image", "audio") else "document"


def attachment_of_url(url: object, role: str) -> Attachment | None:
    """Return the attachment in a data URL; None for any other URL."""
    match = _DATA_URL.match(url) if isinstance(url, str) else None
    return None if match is None or not isinstance(url, str) else attachment(url[match.end() :], match[1], role)


def attachment_in(block: Mapping[str, Any]) -> Attachment | None:
    """Return the attachment in a block; None if it has none, or only refers to one."""
    data = _data_in(block)
    return None if data is None else attachment(*data)


def text_in(block: Mapping[str, Any]) -> str | None:
    """Return the text in a block that is base64 of a text type; None if there is none."""
    block_data = _data_in(block)
    kind = block_data[1] if block_data is not None else None
    data = (
        _bytes_of(block_data[0])
        if block_data is not None and isinstance(kind, str) and kind.startswith("text/")
        else None
    )
    try:
        return None if data is None else data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _data_in(block: Mapping[str, Any]) -> tuple[object, object, str, object] | None:
    """Return the arguments of `attachment` for a block: base64, media type, role and name; None if it has no bytes."""
    kind = block.get("type")
    if kind == "resource" and isinstance(resource := block.get("resource"), dict):
        return resource.get("blob"), resource.get("mimeType"), "resource", resource.get("uri")
    inline = block.get("inlineData", block.get("inline_data"))
    if isinstance(inline, dict):
        kind = inline.get("mimeType", inline.get("mime_type"))
        return inline.get("data"), kind, role_of(kind), None
    audio = block.get("input_audio")
    if isinstance(audio, dict):
        return audio.get("data"), None, "audio", None
    if not isinstance(kind, str) or not ("image" in kind or kind in ("audio", "computer_screenshot", *_DOCUMENTS)):
        return None
    role = "document" if kind in _DOCUMENTS else "audio" if kind == "audio" else "image"
    source = block.get("source")
    if isinstance(source, dict):
        of_text = source.get("type") == "text"
        return None if of_text else (source.get("data"), source.get("media_type"), role, None)
    for key in ("image_url", "file", "image", "file_data"):
        value = block.get(key)
        if isinstance(value, dict):
            value = value.get("url", value.get("file_data"))
        match = _DATA_URL.match(value) if isinstance(value, str) else None
        if match is not None and isinstance(value, str):
            return value[match.end() :], match[1], role, None
    return block.get("data"), block.get("mimeType", block.get("mime_type")), role, None
