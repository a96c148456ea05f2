"""Text and attachments of a content: a text, a list of blocks of any maker, or any other JSON value.

Pictures, sound and documents that stand in a content as base64 become attachments by digest (see `opaque`), in a block
of their own or as Markdown within a text; documents that are text are that text. What an API puts into a block for
itself alone is left out. No block is passed over in silence: one that only refers to what it shows is told as lost, and
one of which nobody knows the text is its JSON.
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
"""Blocks that may only refer to what they show."""


class Shown(NamedTuple):
    """The text and the attachments of a content; the text is null where there is none.

    `lost`: a part of what was shown is not in the log, such as a picture that it only refers to.
    """

    text: str | None
    attachments: tuple[Attachment, ...] = ()
    lost: bool = False


def shown(content: object) -> Shown:
    """Return what a content shows; the texts of blocks are joined by a line feed, a JSON value is shown as JSON text.

    Raises:
        MessageError: a value nests too deeply.
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
    """Return what a block shows: the JSON of one without text or bytes; nothing of a picture that is only referred to.

    Raises:
        MessageError: it nests too deeply.
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
    """The text of a document of Cohere: its data, which is text, or members of which one may be all there is."""
    data = document.get("data", document) if isinstance(document, dict) else document
    if isinstance(data, dict) and data.keys() == {"text"}:
        data = data["text"]
    return data if isinstance(data, str) else _drop_sealed(data)


def _drop_sealed(value: object) -> str | None:
    """Return the JSON text of a value without members that an API sealed, at whatever level."""
    written = json_of(value)
    return json_of(_without_encrypted(value)) if written is not None and '"encrypted_' in written else written


def _without_encrypted(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_encrypted(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_encrypted(member) for key, member in value.items() if key not in ENCRYPTED}


def spoken_text(content: object) -> str:
    """Return the words of a message: its text, or the texts of its blocks, a line each; else empty."""
    if isinstance(content, str):
        return content
    return "\n".join(str_of(block.get("text")) for block in objects_of(content) if block.get("type") == "text")


def without_pictures(text: str) -> Shown:
    """A text whose Markdown pictures of base64 refer to attachments, and these."""
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
    """Check if the content of a server tool of Anthropic is an error by its type, such as
    `web_search_tool_result_error`.
    """
    return isinstance(content, dict) and plain_text(content.get("type")).endswith("_tool_result_error")


def seen_text(seen: Shown) -> str | None:
    """The text of a result: empty where an answer has none, null where pictures hold it all or the log lost it."""
    return "" if seen.text is None and not seen.attachments and not seen.lost else seen.text


def media_type(content: str | None) -> str:
    """`application/json` if the text is a JSON array or object."""
    return "application/json" if content and is_json(content) else "text/plain"


def observation(
    text: str | None, is_error: bool | None, attachments: Sequence[Attachment] = (), truncation: str = "none"
) -> Observation:
    """Build the observation of what a call gave."""
    return Observation(
        content=text,
        media_type=media_type(text),
        is_error=is_error,
        truncation=truncation,
        attachments=tuple(attachments),
    )
