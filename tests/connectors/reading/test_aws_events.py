"""Event streams of Amazon's services: what their messages hold, and what is damaged."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.aws_streams import event, framed, header, text_header
from trajmill.connectors.reading.aws_events import EventStreamError, aws_events, is_event_stream

TWO = event("messageStart", {"role": "assistant"}) + event("messageStop", {"stopReason": "end_turn"})


def test_headers_of_every_type_are_passed_over():
    sizes = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
    headers = b"".join(header(f"h{kind}", kind, bytes(size)) for kind, size in sizes.items())
    headers += header("h6", 6, struct.pack(">H", 3) + b"\0\1\2") + text_header(":event-type", "metadata")
    assert list(aws_events(framed(headers, b'{"a": 1}'))) == [{"metadata": {"a": 1}}]


@pytest.mark.parametrize("payload", [b"", b"[1]", b"no json", b"\xff"])
def test_a_message_without_an_object_is_left_out(payload):
    assert list(aws_events(framed(text_header(":event-type", "ping"), payload) + TWO)) == list(aws_events(TWO))


@pytest.mark.parametrize("data", [b"", b"\0" * 16, b'{"a": 1, "b": 2222222}', TWO[:11], TWO[1:]])
def test_other_bytes_are_no_event_stream(data):
    assert not is_event_stream(data)


@given(st.integers(0, len(TWO) - 1), st.integers(1, 255))
def test_a_damaged_byte_is_told_or_ends_the_stream(place, change):
    data = bytearray(TWO)
    data[place] ^= change
    with pytest.raises(EventStreamError):
        list(aws_events(bytes(data)))
