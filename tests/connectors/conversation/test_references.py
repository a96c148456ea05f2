"""Opaque values within texts: what is replaced by a reference, and what stays."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from hashlib import sha256

import pytest

from trajmill.connectors.conversation.content import shown
from trajmill.connectors.conversation.mcp_answer import answered
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.references import referring, with_references
from trajmill.connectors.conversation.turns import Call, Result
from trajmill.schemas import Observation

SEALED = b"".join(sha256(bytes([number])).digest() for number in range(9))
PNG = b"\x89PNG\r\n\x1a\n" + bytes(300)
WORD = b64encode(SEALED).decode()
ZEROS = b64encode(bytes(200)).decode()


def named(data: bytes, media_type: str) -> str:
    return f"attachment:{media_type};bytes={len(data)};sha256={sha256(data).hexdigest()[:16]}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f'{{"key": "{WORD}"}}', f'{{"key": "{named(SEALED, "application/octet-stream")}"}}'),
        (urlsafe_b64encode(SEALED).decode(), named(SEALED, "application/octet-stream")),
        (f"a {b64encode(PNG).decode()} b", f"a {named(PNG, 'image/png')} b"),
        (f'<img src="data:image/gif;base64,{ZEROS}">', f'<img src="{named(bytes(200), "image/gif")}">'),
        (f"data:;base64,{WORD}", named(SEALED, "application/octet-stream")),
    ],
)  # fmt: skip
def test_an_opaque_value_is_told_by_type_length_and_digest(text, told):
    content, (attached,) = referring(text)
    assert content == told
    assert told.count(attached.sha256[:16]) == 1


@pytest.mark.parametrize(
    "text",
    [
        WORD[:200],
        f"https://example.org/?token={WORD}",
        f"https://example.org/{WORD}",
        "of-a-very-long-title/" * 20,
        "0123456789abcdef" * 32,
        "x" * 999,
        "A" * 257,
        f"{WORD}.{WORD}",
        "",
    ],
)
def test_what_is_short_regular_or_part_of_an_address_stays(text):
    assert referring(text) == (text, ())
    seen = Observation(text)
    assert with_references(seen) is seen


@pytest.mark.parametrize("text", [f"{WORD} " * 300, "A" * 500_000, '"data:image/png;base64,' * 20_000, "A" * 255])
def test_opaque_values_are_found_in_linear_time(text):
    referring(text * 3)


def test_in_any_conversation_an_answer_refers_to_its_opaque_values():
    steps = conversation([Call("look", "{}", "c", 0), Result("c", None, json.dumps({"image": WORD}), 1)]).steps
    assert steps[0].next_observation is not None
    assert steps[0].next_observation.content == f'{{"image": "{named(SEALED, "application/octet-stream")}"}}'
    assert [(one.sha256, one.role) for one in steps[0].next_observation.attachments] == [
        (sha256(SEALED).hexdigest(), "sealed")
    ]


def test_an_mcp_server_s_text_refers_to_them_too():
    result = {"content": [{"type": "text", "text": json.dumps({"image": b64encode(PNG).decode()})}]}
    seen = answered("tools/call", {"result": result})
    assert seen is not None
    assert seen.content == f'{{"image": "{named(PNG, "image/png")}"}}'
    assert [one.role for one in seen.attachments] == ["image"]


def test_what_an_api_sealed_is_left_out_at_any_level():
    found = {"type": "web_search_result", "title": "A", "encrypted_content": "x"}
    assert shown({"results": [found]}).text == '{"results": [{"type": "web_search_result", "title": "A"}]}'
