"""Opaque values within texts: what is replaced by a reference, and what stays."""

from base64 import b64encode
from hashlib import sha256

import pytest

from trajmill.connectors.conversation.content import shown
from trajmill.connectors.conversation.references import referring

SEALED = b"".join(sha256(bytes([number])).digest() for number in range(9))
WORD = b64encode(SEALED).decode()


@pytest.mark.parametrize("text", [f"{WORD} " * 300, "A" * 500_000, '"data:image/png;base64,' * 20_000, "A" * 255])
def test_opaque_values_are_found_in_linear_time(text):
    referring(text * 3)


def test_what_an_api_sealed_is_left_out_at_any_level():
    found = {"type": "web_search_result", "title": "A", "encrypted_content": "x"}
    assert shown({"results": [found]}).text == '{"results": [{"type": "web_search_result", "title": "A"}]}'
