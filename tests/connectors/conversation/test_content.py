"""What a content shows, and what of it nobody can read: one rule for the blocks of all makers."""

from __future__ import annotations

import hashlib
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest

from trajmill.connectors.conversation.content import shown
from trajmill.connectors.conversation.opaque import attachment
from trajmill.connectors.conversation.shapes import parts
from trajmill.connectors.conversation.turns import Result

PICTURE = b"\x89PNG it is"
DATA = b64encode(PICTURE).decode()
DIGEST = hashlib.sha256(PICTURE).hexdigest()
URL = f"data:image/png;base64,{DATA}"

BLOCKS: list[tuple[dict[str, Any], str]] = [
    ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}, "image"),
    ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": DATA}}, "document"),
    ({"type": "image_url", "image_url": {"url": URL}}, "image"),
    ({"type": "input_image", "image_url": URL}, "image"),
    ({"type": "computer_screenshot", "image_url": URL}, "image"),
    ({"type": "file", "file": {"file_data": URL}}, "document"),
    ({"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}, "audio"),
    ({"type": "image", "data": DATA, "mimeType": "image/png"}, "image"),
    ({"type": "audio", "data": DATA, "mimeType": "audio/wav"}, "audio"),
    ({"type": "resource", "resource": {"uri": "file:///a", "blob": DATA}}, "resource"),
    ({"type": "picture", "inlineData": {"data": DATA, "mimeType": "image/png"}}, "image"),
]


@pytest.mark.parametrize(("block", "role"), BLOCKS)
def test_bytes_of_a_block_become_an_attachment_and_no_text(block, role):
    text, attached = shown([block])
    assert text is None
    assert [(one.sha256, one.role) for one in attached] == [(DIGEST, role)]


def test_a_picture_within_a_text_is_named_where_it_stood():
    text, attached = shown(f"before ![screen]({URL}) after")
    assert text == f"before ![screen](attachment:image/png;bytes={len(PICTURE)};sha256={DIGEST[:16]}) after"
    assert [one.sha256 for one in attached] == [DIGEST]


def test_base64_with_line_breaks_is_the_same_bytes_and_what_is_none_is_no_attachment():
    found = attachment(f"{DATA[:4]}\n{DATA[4:]}", "image/png", "image")
    assert found is not None
    assert found.sha256 == DIGEST
    assert attachment("<omitted>", "image/png", "image") is None
    assert attachment("", "image/png", "image") is None


def test_what_an_api_sealed_for_itself_is_not_shown():
    block = {"type": "web_search_result", "title": "A", "encrypted_content": "x" * 99, "citations": {"enabled": True}}
    assert shown([block]).text == '{"type": "web_search_result", "title": "A"}'


def test_a_list_that_is_no_list_of_blocks_is_a_json_value():
    assert shown([{"a": 1}, 2]).text == '[{"a": 1}, 2]'
    assert shown([{"type": "text", "text": "a"}, "b"]).text == "a\nb"


@pytest.mark.parametrize(("response", "content"), [({}, None), ({"output": "Here it is."}, "Here it is.")])
@pytest.mark.parametrize("name", ["inlineData", "inline_data"])
def test_what_a_function_of_gemini_returns_beside_its_json_is_attached(response, content, name):
    data = b"%PDF-\xfb\xff\xfe"
    inline = {"data": urlsafe_b64encode(data).decode(), "mime_type": "application/pdf"}
    back = {"name": "get_file", "response": response, "parts": [{name: inline}, "not a part"]}
    (found,) = parts({"role": "user", "parts": [{"function_response": back}]}, 0)
    assert isinstance(found, Result)
    assert found.content == content
    assert [(one.sha256, one.role) for one in found.attachments] == [(hashlib.sha256(data).hexdigest(), "document")]
