"""What a content shows, and what of it nobody can read: one rule for the blocks of all makers."""

import hashlib
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest

from trajmill.connectors.conversation.content import Shown, shown
from trajmill.connectors.conversation.mcp_content import tool_result
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
    text, attached, _ = shown([block])
    assert text is None
    assert [(one.sha256, one.role) for one in attached] == [(DIGEST, role)]


NOTE = "The ferry leaves at nine."
NOTE_DATA = b64encode(NOTE.encode()).decode()

DOCUMENTS: list[dict[str, Any]] = [
    {"type": "document", "title": "n", "source": {"type": "text", "media_type": "text/plain", "data": NOTE}},
    {"type": "document", "source": {"type": "content", "content": NOTE}},
    {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": NOTE}]}},
    {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": NOTE_DATA}},
    {"type": "document", "document": {"id": "n", "data": {"text": NOTE}}},
    {"type": "document", "document": {"id": "n", "data": NOTE}},
    {"type": "document", "document": NOTE},
    {"type": "document", "text": NOTE},
    {"type": "input_file", "filename": "n.txt", "file_data": f"data:text/plain;base64,{NOTE_DATA}"},
    {"type": "file", "file": {"filename": "n.txt", "file_data": f"data:text/plain;base64,{NOTE_DATA}"}},
    {"type": "resource", "resource": {"uri": "file:///n", "text": NOTE}},
    {"type": "resource", "resource": {"uri": "file:///n", "mimeType": "text/plain", "blob": NOTE_DATA}},
    {"type": "file", "inlineData": {"mimeType": "text/plain", "data": NOTE_DATA}},
    {"type": "what_nobody_knows", "text": NOTE},
]


@pytest.mark.parametrize("block", DOCUMENTS)
def test_a_document_that_is_text_is_that_text(block):
    assert shown([block]) == Shown(NOTE)
    (found,) = parts({"role": "tool", "tool_call_id": "c", "content": [block]}, 0)
    assert isinstance(found, Result)
    assert (found.content, found.attachments, found.lost) == (NOTE, (), False)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "image", "data": "<omitted>"}, '{"type": "image", "data": "<omitted>"}'),
        ({"type": "resource", "resource": {"uri": "a:b"}}, '{"type": "resource", "resource": {"uri": "a:b"}}'),
        ({"type": "resource", "resource": {"mimeType": "text/csv", "blob": NOTE_DATA}}, NOTE),
    ],
)
def test_a_result_of_mcp_is_never_emptied(block, text):
    assert tool_result({"content": [block]}) == (text, [])


def test_a_picture_within_a_text_is_named_where_it_stood():
    text, attached, _ = shown(f"before ![screen]({URL}) after")
    assert text == f"before ![screen](attachment:image/png;bytes={len(PICTURE)};sha256={DIGEST[:16]}) after"
    assert [one.sha256 for one in attached] == [DIGEST]


@pytest.mark.parametrize(("response", "content"), [({}, None), ({"output": "Here it is."}, "Here it is.")])
@pytest.mark.parametrize("name", ["inlineData", "inline_data"])
def test_what_a_function_of_gemini_returns_beside_its_json_is_attached(response, content, name):
    data = b"%PDF-\xfb\xff\xfe"
    inline = {"data": urlsafe_b64encode(data).decode(), "mime_type": "application/pdf"}
    back = {"name": "get_file", "response": response, "parts": [{name: inline}, "not a part"]}
    (found,) = parts({"role": "user", "parts": [{"function_response": back}]}, 0)
    assert isinstance(found, Result)
    assert found.content == content
    (told,) = parts({"role": "user", "parts": [{"function_response": {**back, "parts": [{"text": NOTE}]}}]}, 0)
    assert isinstance(told, Result)
    assert told.content == (NOTE if content is None else f"{content}\n{NOTE}")
    assert [(one.sha256, one.role) for one in found.attachments] == [(hashlib.sha256(data).hexdigest(), "document")]
