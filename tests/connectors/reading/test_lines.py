import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.lines import json_lines, line_values, lines
from trajmill.schemas import ParseError, action, json_text

TEXT = st.lists(st.sampled_from([b"", b"a", b"bc", b"\n", b"\r\n", b"{}", b"\xef\xbb\xbf"]), max_size=12).map(b"".join)


@given(TEXT)
def test_every_line_lies_at_its_offset(data):
    for line in lines(BytesIO(data)):
        assert line.data is not None
        assert data[line.offset : line.offset + len(line.data)] == line.data
    whole = [line.data or b"" for line in lines(BytesIO(data))]
    expected = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert b"\n".join(whole) == b"\n".join(
        one.removesuffix(b"\r") for one in (expected if expected[-1] else expected[:-1])
    )


@given(TEXT, st.integers(1, 4))
def test_lines_over_the_limit_are_skipped_and_the_rest_keep_their_offsets(data, limit):
    short = {line.offset: line for line in lines(BytesIO(data), limit)}
    for line in lines(BytesIO(data)):
        start = 0 if line.offset == 3 and data.startswith(b"\xef\xbb\xbf") else line.offset
        found = short.get(line.offset) or short[start]
        assert found.data in (line.data, None)
        assert found.ended == line.ended


class Endless(BytesIO):
    """A stream whose first line is longer than what stands in memory of it; it remembers what it was asked for."""

    def __init__(self, size, rest):
        super().__init__(rest)
        self.left, self.asked, self.largest = size, [], 0

    def readline(self, size=-1, /):
        assert size > 0
        self.asked.append(size)
        if not self.left:
            return super().readline(size)
        given = min(size, self.left)
        self.left -= given
        return b"x" * given


def test_a_line_over_the_limit_is_passed_over_in_pieces_and_reading_goes_on():
    stream = Endless(300 << 20, b'\n{"a":1}\n')

    class Held(MemoryBlob):
        def open(self, member=""):
            return stream

    blob = Held("log", b"")
    (offset, error), after = json_lines(blob)
    assert isinstance(error, ParseError)
    assert (offset, error.offset, error.reason) == (0, 0, "line_too_long")
    assert after == ((300 << 20) + 1, {"a": 1})
    assert max(stream.asked[1:-2]) <= 1 << 20


RECORD = b'{"n": "}{\\\\", "m": {"q": "\\""}}'
"""A record whose texts hold brackets, a quote and a backslash."""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xe9 \x96 na\xefve", "café – naïve"),
        ("größe ".encode() + b"\xfcber", "größe über"),
        (b"cut \xe2\x82 here", "cut \ufffd here"),
        (b"\x81", "\ufffd"),
    ],
)
def test_a_byte_that_is_no_utf8_costs_no_record(data, text):
    blob = MemoryBlob("log", b'{"n": "' + data + b'"}{"m": 1}\n{"n": "' + data + b'"}')
    assert [value for _, value in json_lines(blob)] == [{"n": text}, {"m": 1}, {"n": text}]


def test_of_very_many_records_behind_half_a_one_the_last_come_out_and_nothing_is_missing():
    record, count = b'{"a":1}', 3000
    assert sum(1 for _ in json_lines(MemoryBlob("log", record * count))) == count
    found = list(line_values(BytesIO(b'{"half' + record * count), "log"))
    (rest, fault), *values = found
    assert [value for _, value in values] == [{"a": 1}] * 1024
    assert isinstance(fault, ParseError)
    assert rest.data == b'{"half' + record * (count - 1024)


@given(st.lists(st.sampled_from([RECORD, b'{"n": "ha', b"\0\0", b"[1]", b"{", b"\xff", b'"', b"x"]), max_size=8))
def test_every_byte_of_a_damaged_line_is_of_a_value_or_of_a_fault(pieces):
    line = b"".join(pieces)
    parts = [part for part, _ in line_values(BytesIO(line), "log")]
    end = 0
    for part in parts:
        assert part.offset >= end
        assert not line[end : part.offset].strip()
        assert part.data is not None
        assert line[part.offset : part.offset + len(part.data)] == part.data
        end = part.offset + len(part.data)
    assert not line[end:].strip()


class Failing(BytesIO):
    def readline(self, size=-1, /):
        line = super().readline(size)
        if not line:
            raise ParseError("log", self.tell(), "bad_compression", "oh")
        return line


def test_a_stream_that_fails_keeps_the_lines_before():
    blob = MemoryBlob("log", b"1\n2\n")
    blob.open = lambda member="": Failing(b"1\n2\n")  # type: ignore[method-assign]
    found = [value for _, value in json_lines(blob)]
    assert found[:2] == [1, 2]
    assert found[2].reason == "bad_compression"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_json_is_written_as_the_standard_library_does(value):
    expected = json.dumps(value, ensure_ascii=False)
    assert json_text(value) == expected
    assert json_text([value]) == f"[{expected}]"
    numbered: dict[Any, Any] = {"a": value, 1: value}
    assert json_text(numbered) == f'{{"a": {expected}, "1": {expected}}}'
    assert shallow_json(value, 100) == expected
    assert action._writer(None)(value) == expected


def test_numbers_that_json_does_not_have_are_written_as_null():
    value = {"a": float("nan"), "b": [float("inf"), {"c": (float("-inf"), 1.5)}]}
    assert json_text(value) == '{"a": null, "b": [null, {"c": [null, 1.5]}]}'


def test_what_nests_without_end_is_not_written():
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    assert shallow_json(value, 100) is None
