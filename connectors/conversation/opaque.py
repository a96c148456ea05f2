"""Values that no model can read: base64 of pictures, sound and documents, and what an API sealed for itself.

The former become attachments: the digest of their bytes, what they are, and their media type. One rule for all makers:
blocks of MCP (`data`, `resource.blob`), Anthropic (`source.data`), OpenAI (`image_url`, `file_data`, `input_audio`) and
Gemini (`inlineData`) are told by their members.
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
"""Members that an API sealed, wherever they stand."""

SEALED: Final = ENCRYPTED | {"citations"}
"""Members of a block that are for the API alone: those it sealed, and its switch for citations."""

UNKNOWN: Final = "application/octet-stream"
"""The media type of bytes of which nobody says what they are."""

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,", re.ASCII)
_DOCUMENTS: Final = ("file", "input_file", "document")


_OF_URLS: Final = str.maketrans("-_", "+/")
"""The two signs that base64 has otherwise where it may stand in a URL, as Google's clients write it."""


def _bytes_of(data: object) -> bytes | None:
    """The bytes that base64 of either alphabet stands for, blanks passed over; None of anything else, and of none."""
    if not isinstance(data, str):
        return None
    if "-" in data or "_" in data:
        data = data.translate(_OF_URLS)
    try:
        return b64decode("".join(data.split()), validate=True) or None
    except (binascii.Error, ValueError):
        return None


def attachment(data: object, media_type: object, role: str, name: object = None) -> Attachment | None:
    """The attachment of base64 data; None where that is no base64, or none at all.

    Args:
        data: base64.
        media_type: kept if it is one.
        role: what it is: image, audio, document or resource.
        name: how the log calls it, such as the uri of a resource.
    """
    content = _bytes_of(data)
    if content is None:
        return None
    kind = media_type if isinstance(media_type, str) and media_type.isascii() and "/" in media_type else None
    return attachment_of_bytes(content, role, kind, name if isinstance(name, str) else None)


def reference(blob: Attachment, size: int) -> str:
    """Return the text that stands for an attachment of so many bytes: type, length and the beginning of its digest."""
    return f"attachment:{blob.media_type or UNKNOWN};bytes={size};sha256={blob.sha256[:16]}"


def size_of(data: str) -> int:
    """Count the bytes that base64, or a URL that ends in it, stands for; 0 of anything else."""
    return len(_bytes_of(data.rpartition(",")[2]) or b"")


def role_of(media_type: object) -> str:
    """Return the role of an attachment of that media type: image, audio or document."""
    role = media_type.partition("/")[0] if isinstance(media_type, str) else ""
    return role if role in ("image", "audio") else "document"


def attachment_of_url(url: object, role: str) -> Attachment | None:
    """The attachment that a data URL holds; None of any other URL."""
    match = _DATA_URL.match(url) if isinstance(url, str) else None
    return None if match is None or not isinstance(url, str) else attachment(url[match.end() :], match[1], role)


def attachment_in(block: Mapping[str, Any]) -> Attachment | None:
    """The attachment that a block holds; None where it holds none, or only refers to one."""
    data = _data_in(block)
    return None if data is None else attachment(*data)


def text_in(block: Mapping[str, Any]) -> str | None:
    """The text that a block holds as base64 of a media type that is text; None where it holds none."""
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
    """Return the arguments of `attachment` for a block: base64, media type, role and name; None where it holds no
    bytes.
    """
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
