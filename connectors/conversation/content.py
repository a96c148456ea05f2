"""Text and attachments of a content: a text, a list of blocks of any vendor, or any other JSON value.

Base64 images, sound and documents become attachments by digest (see `opaque`), whether in a block of their own or as
Markdown within a text. Text documents become their text. API-internal parts of a block are left out. No block is
dropped silently: a block that only refers to its content is reported as lost, and an unknown block becomes its JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from trajmill.connectors.conversation.calls import json_of
from trajmill.connectors.conversation.opaque import (
    ENCRYPTED,
    SEALED,
    attachment_in,
    attachment_of_url,
    reference,
    size_of,
    text_in,
)
from trajmill.connectors.conversation.turns import Result, Time
from trajmill.connectors.reading.fields import objects_of, plain_text, str_of
from trajmill.connectors.reading.json_text import is_json
from trajmill.schemas import Attachment, Observation

_PICTURE: Final = re.compile(r"!\[([^\]\n]{0,200})\]\((data:image/[a-z0-9.+-]{1,40};base64,[A-Za-z0-9+/=]*)\)")
_PICTURES: Final = frozenset(
    {
        "image",
        "image_url",
        "input_image",
        "audio",
        "input_audio",
        "document",
        "file",
        "input_file",
        "computer_screenshot",
    }
)
"""Types of blocks that may only refer to their content."""


class Shown(NamedTuple):
    """Text and attachments of a content; the text is null if there is none.

    `lost` is True if a part of the content is not in the log, such as an image that it only refers to.
    """

    text: str | None
    attachments: tuple[Attachment, ...] = ()
    lost: bool = False


def shown(content: object) -> Shown:
    """Return the visible parts of a content; texts of blocks are joined by a line feed, a JSON value is its text.

    Raises:
        MessageError: A value nests too deeply.
    """
    if content is None:
        return Shown(None)
    if isinstance(content, str):
        return without_pictures(content)
    if not isinstance(content, list):
        return Shown(_drop_sealed(content))
    if not all(isinstance(block, str) or (isinstance(block, dict) and _is_block(block)) for block in content):
        return Shown(_drop_sealed(content))
    texts: list[str] = []
    attached: list[Attachment] = []
    lost = False
    for block in content:
        seen = without_pictures(block) if isinstance(block, str) else shown_by(block)
        texts += [] if seen.text is None else [seen.text]
        attached += seen.attachments
        lost = lost or seen.lost
    return Shown("\n".join(texts) if texts else None, tuple(attached), lost)


def _is_block(block: Mapping[str, Any]) -> bool:
    return isinstance(block.get("type"), str) or block.keys() <= {"text"}


def shown_by(block: Mapping[str, Any]) -> Shown:
    """Return the visible part of a block: its JSON without text or bytes; nothing for an image referred to.

    Raises:
        MessageError: The block nests too deeply.
    """
    block_text = text_in(block)
    if block_text is not None:
        return Shown(block_text)
    block_attachment = attachment_in(block)
    if block_attachment is not None:
        return Shown(None, (block_attachment,))
    text = block.get("text")
    if isinstance(text, str):
        return without_pictures(text)
    source, document, resource = block.get("source"), block.get("document"), block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return Shown(resource["text"])
    if isinstance(source, dict) and source.get("type") == "text" and isinstance(source.get("data"), str):
        return Shown(source["data"])
    if isinstance(source, dict) and source.get("type") == "content":
        return shown(source.get("content"))
    if document is not None:
        return Shown(_document(document))
    if str_of(block.get("type")) in _PICTURES:
        return Shown(None, (), True)
    return Shown(_drop_sealed({key: value for key, value in block.items() if key not in SEALED}))


def _document(document: object) -> str | None:
    """Return the text of a Cohere document: its data, which is text or an object, possibly with a text alone."""
    data = document.get("data", document) if isinstance(document, dict) else document
    if isinstance(data, dict) and data.keys() == {"text"}:
        data = data["text"]
    return data if isinstance(data, str) else _drop_sealed(data)


def _drop_sealed(value: object) -> str | None:
    """Return the JSON text of a value without members that an API sealed, at any level."""
    written = json_of(value)
    return json_of(_without_encrypted(value)) if written is not None and '"encrypted_' in written else written


def _without_encrypted(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_encrypted(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_encrypted(member) for key, member in value.items() if key not in ENCRYPTED}


def spoken_text(content: object) -> str:
    """Return the words of a message: its text, or the texts of its blocks, one per line; otherwise empty."""
    if isinstance(content, str):
        return content
    return "\n".join(str_of(block.get("text")) for block in objects_of(content) if block.get("type") == "text")


def without_pictures(text: str) -> Shown:
    """Return the text with base64 Markdown images replaced by references to attachments, and the attachments."""
    if "](data:image/" not in text:
        return Shown(text)
    images: list[Attachment] = []

    def replace_picture(link: re.Match[str]) -> str:
        picture = attachment_of_url(link[2], "image")
        if picture is None:
            return link[0]
        images.append(picture)
        return f"![{link[1]}]({reference(picture, size_of(link[2]))})"

    return Shown(_PICTURE.sub(replace_picture, text), tuple(images))


def is_server_error(content: object) -> bool:
    """Check if the content of an Anthropic server tool is an error by its type: `web_search_tool_result_error`."""
    return isinstance(content, dict) and plain_text(content.get("type")).endswith("_tool_result_error")


def seen_text(seen: Shown) -> str | None:
    """Return the text of a result: empty if an answer has none, null if it consists of images or the log lost it."""
    return "" if seen.text is None and not seen.attachments and not seen.lost else seen.text


def result_of(
    seen: Shown,
    call_id: str | None,
    offset: int,
    *,
    name: str | None = None,
    is_error: bool | None = None,
    at: Time = None,
    exit_code: int | None = None,
    hosted: bool = False,
) -> Result:
    """Return the result of a call that consists of a content."""
    text = seen_text(seen)
    return Result(call_id, name, text, offset, is_error, seen.attachments, at, exit_code, hosted, lost=seen.lost)


def media_type(content: str | None) -> str:
    """Return `application/json` if the text is a JSON array or object, otherwise `text/plain`."""
    return "application/json" if content and is_json(content) else "text/plain"


def observation(
    text: str | None, is_error: bool | None, attachments: Sequence[Attachment] = (), truncation: str = "none"
) -> Observation:
    """Build the observation of a call's result."""
    return Observation(
        content=text,
        media_type=media_type(text),
        is_error=is_error,
        truncation=truncation,
        attachments=tuple(attachments),
    )
