import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.reading import values
from trajmill.connectors.reading.documents import iterate_values, json_document
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.lines import is_by_line, json_lines, line_values, lines
from trajmill.connectors.reading.yaml_values import YamlDocument
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
        piece.removesuffix(b"\r") for piece in (expected if expected[-1] else expected[:-1])
    )


@given(TEXT, st.integers(1, 4))
def test_lines_over_the_limit_are_skipped_and_the_rest_keep_their_offsets(data, limit):
    short = {line.offset: line for line in lines(BytesIO(data), limit)}
    for line in lines(BytesIO(data)):
        start = 0 if line.offset == 3 and data.startswith(b"\xef\xbb\xbf") else line.offset
        short_line = short.get(line.offset) or short[start]
        assert short_line.data in (line.data, None)
        assert short_line.ended == line.ended


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
        count = min(size, self.left)
        self.left -= count
        return b"x" * count


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


def test_bad_lines_are_parse_errors_at_their_offset_and_reading_goes_on():
    blob = MemoryBlob("log", b'{"a":1}\n\nnot json\n{"b":2}\n{"c":')
    pairs = list(json_lines(blob))
    assert [(offset, value.reason if isinstance(value, ParseError) else value) for offset, value in pairs] == [
        (0, {"a": 1}),
        (9, "bad_json"),
        (18, {"b": 2}),
        (26, "truncated"),
    ]


RECORD = b'{"n": "}{\\\\", "m": {"q": "\\""}}'
"""A record whose texts hold brackets, a quote and a backslash."""

DAMAGED = {
    "two records without a line end": (b"AA", [0, 1], []),
    "three of them and blanks": (b"A A\tA", [0, 1, 2], []),
    "half a record, then a whole one": (b'{"n": "half AA', [0, 1], [(0, "bad_json")]),
    "half a record that ends in a bracket, then a whole one": (b'{"m": {"x": 1},A', [0], [(0, "bad_json")]),
    "half a record that wants a value, then a whole one": (b'{"n": A', [0], [(0, "bad_json")]),
    "a whole record, then half a one": (b'A{"m": [{"x": 1}, {"y": 2}', [0], [(len(RECORD), "bad_json")]),
    "whole ones around half a one": (b'A{"n": "halfA', [0, 1], [(len(RECORD), "bad_json")]),
    "zeros, then a record": (b"\0\0\0\0A", [0], [(0, "bad_json")]),
    "zeros between two records": (b"A\0\0A", [0, 1], [(len(RECORD), "bad_json")]),
    "the end of a lost record, then a whole one": (b'st"}]}A', [0], [(0, "bad_json")]),
    "half a record with whole values in it": (b'{"m": [{"x": 1}, {"y": 2}', [], [(0, "bad_json")]),
    "a fault within a record": (b'{"m": oh, "x": {"y": 1}}', [], [(0, "bad_json")]),
    "a fault within a record that is cut": (b'{"m": oh, "x": {"y": 1}', [], [(0, "bad_json")]),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_of_a_damaged_line_the_whole_records_come_out_and_the_rest_is_a_fault_at_its_offset(name):
    shape, numbers, faults = DAMAGED[name]
    line = shape.replace(b"A", RECORD)
    places = [offset for offset in range(len(line)) if line.startswith(RECORD, offset)]
    pairs = list(json_lines(MemoryBlob("log", b'{"a": 1}\n' + line + b'\n{"b": 2}\n')))
    assert [value for _, value in (pairs[0], pairs[-1])] == [{"a": 1}, {"b": 2}]
    whole = [(at - 9, value) for at, value in pairs[1:-1] if not isinstance(value, ParseError)]
    assert whole == [(places[number], json.loads(RECORD)) for number in numbers]
    assert [(at - 9, fault.reason) for at, fault in pairs if isinstance(fault, ParseError)] == faults


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
    record = b'{"n": "' + data + b'"}'
    blob = MemoryBlob("log", record + b'{"m": 1}\n' + record)
    assert [value for _, value in json_lines(blob)] == [{"n": text}, {"m": 1}, {"n": text}]
    assert json_document(MemoryBlob("log", record))[0] == {"n": text}
    assert YamlDocument(record + b"\n", "log").value == {"n": text}
    assert list(iterate_values(record + b" [1]", "log")) == [(0, {"n": text}), (len(record) + 1, [1])]


def test_of_very_many_records_behind_half_a_one_the_last_come_out_and_nothing_is_missing():
    record, count = b'{"a":1}', 3000
    assert sum(1 for _ in json_lines(MemoryBlob("log", record * count))) == count
    pairs = list(line_values(BytesIO(b'{"half' + record * count), "log"))
    (rest, fault), *values = pairs
    assert [value for _, value in values] == [{"a": 1}] * 1024
    assert isinstance(fault, ParseError)
    assert rest.data == b'{"half' + record * (count - 1024)


def test_a_line_of_too_many_values_is_one_fault_and_is_not_searched_for_records(monkeypatch):
    monkeypatch.setattr(values, "SMALL_BYTES", 100)
    monkeypatch.setattr(values, "VALUES", 50)
    line = b"[" + b"1," * 200 + b"1]" + RECORD.strip()
    ((part, fault),) = line_values(BytesIO(line + b"\n"), "log")
    assert part.data == line
    assert isinstance(fault, ParseError)
    assert fault.reason == "too_many_values"


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
    results = [value for _, value in json_lines(blob)]
    assert results[:2] == [1, 2]
    assert results[2].reason == "bad_compression"


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


@pytest.mark.parametrize(
    ("data", "by_line"),
    [
        (b'\n{"a": 1}\n{"a": 2}', True),
        (b'{"a": 1}', True),
        (b'{"a": \n{"a": 2}\n', True),
        (b'{\n"a": 1}', False),
        (b'[{"a": 1}]\n', False),
        (b'{"a": ', False),
        (b"", False),
    ],
)
def test_objects_stand_one_a_line_if_the_first_line_is_one_or_a_damaged_one(data, by_line):
    assert is_by_line(MemoryBlob("log", data)) is by_line
