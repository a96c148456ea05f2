"""JSON values: one policy for what writers leave beside the standard, and one vocabulary of reasons."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.reading import values
from trajmill.connectors.reading.documents import document_in, iterate_values, json_document, opening
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.reading.values import DEPTH, JsonError, first_value, json_value
from trajmill.schemas import ParseError


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


READ: list[tuple[bytes, Any]] = [
    (b'{"a": NaN, "b": [Infinity, -Infinity, 1e999, -1e999]}', {"a": None, "b": [None] * 4}),
    (b'{"NaN": "NaN, Infinity and 1e999"}', {"NaN": "NaN, Infinity and 1e999"}),
    (b"123456789012345678901", 123456789012345678901),
    (b"[-9223372036854775809, 18446744073709551615, 18446744073709551616]", [-(2**63) - 1, 2**64 - 1, 2**64]),
    (b"9" * 400, int("9" * 400)),
    (b'[NaN, 123456789012345678901, "\\ud800"]', [None, 123456789012345678901, "\ud800"]),
    (b'"\\ud83d\\ude00 \\\\ud800"', "\U0001f600 \\ud800"),
    (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    (b'{"a": 1}\0\0\0', {"a": 1}),
    (b'{"a": 1, "a": 2}', {"a": 2}),
]
REFUSED = [
    (b"", "empty", 0), (b" \n\t", "empty", 0), (b"\0\0", "truncated", 0), (b'{"a": "\xff" "\xc3"}', "bad_json", 10),
    (b'{"a": "\xc3', "truncated", 8), (b'{"a": NaN', "truncated", 9), (b'{"a": NaN]', "bad_json", 9),
    (b"I", "truncated", 1), (b"[NaN, -Infini", "truncated", 13), (b"N", "truncated", 1),
    (b'{"a": nan}', "bad_json", 6), (b'["\\ud800", "', "truncated", 12), (b'{"a": 1} x', "bad_json", 9),
    (b' x NaN "\\ud800"', "bad_json", 1), (b"\xef\xbb\xbf[1,", "truncated", 6),
    (nested(DEPTH + 1), "nested_too_deeply", 0), (nested(5000), "nested_too_deeply", 0),
    (b"[" * 100_000, "nested_too_deeply", 0),
]  # fmt: skip


@pytest.mark.parametrize(("data", "value"), READ)
def test_what_writers_leave_beside_the_standard_is_read(data, value):
    assert json_value(data) == value
    assert document_in(data, "log") == value
    assert json_value(data.decode()) == value
    assert [item for _, item in json_lines(MemoryBlob("log", data + b"\n"))] == [value]


@pytest.mark.parametrize(("data", "reason", "offset"), REFUSED)
def test_what_is_no_value_is_refused_in_one_vocabulary(data, reason, offset):
    with pytest.raises(JsonError) as caught:
        json_value(data)
    assert (caught.value.reason, caught.value.offset) == (reason, offset)
    with pytest.raises(ParseError) as failed:
        json_document(MemoryBlob("log", data))
    assert (failed.value.reason, failed.value.offset) == (reason, offset)


@pytest.mark.parametrize("data", [b"9" * 5000, b'{"a": -' + b"9" * 5000 + b"}", b"[NaN, " + b"9" * 5000 + b"]"])
def test_an_integer_of_more_digits_than_python_takes_is_no_value(data):
    for read in (json_value, lambda raw: first_value(raw.decode())):
        with pytest.raises(JsonError) as caught:
            read(data)
        assert caught.value.reason == "bad_json"


def test_values_nest_up_to_the_depth_and_not_beyond():
    assert json_value(nested(DEPTH)) is not None
    assert json_value(nested(DEPTH).replace(b"[]", b"[NaN]")) is not None
    assert json_value(b'["' + b"[" * 2000 + b'"]') == ["[" * 2000]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def without_strange_numbers(value: Any) -> Any:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {key: without_strange_numbers(item) for key, item in value.items()}
    return [without_strange_numbers(item) for item in value] if isinstance(value, list) else value


@given(VALUES, st.sampled_from([None, 1]), st.data())
def test_whatever_python_writes_is_read_as_it_was(value, indent, data):
    written = json.dumps(value, indent=indent).encode()
    expected = without_strange_numbers(value)
    assert json_value(written) == expected
    assert first_value(written.decode()) == (expected, len(written))
    cut = written[: data.draw(st.integers(0, len(written) - 1))]
    assert reason_of(cut) in (None, "truncated", "empty")


def reason_of(data: bytes) -> str | None:
    try:
        json_value(data)
    except JsonError as error:
        return error.reason
    return None


def test_values_that_follow_each_other_have_their_offsets():
    pairs = list(iterate_values(b'\xef\xbb\xbf{"a": NaN}\n\n [1] "\xc3\xa9"2', "log"))
    assert pairs == [(3, {"a": None}), (16, [1]), (20, "é"), (24, 2)]
    with pytest.raises(ParseError) as failed:
        list(iterate_values(b"1 [2", "log"))
    assert (failed.value.reason, failed.value.offset) == ("truncated", 2)


@pytest.mark.parametrize(
    ("head", "values"),
    [
        (b'[{"a": 1}, {"b": "x, y"', [{"a": 1}]),
        (b'[{"a": 1}, {"b": "x, y', [{"a": 1}]),
        (b'{"a": [1, 2], "b": [3, 4', {"a": [1, 2], "b": [3]}),
        (b'{"a": 1, "b": ' + b"7" * 60_000, {"a": 1}),
        (b"[1, 2}", None),
        (b"[1", None),
    ],
)
def test_of_a_document_that_is_cut_the_whole_elements_are_told(head, values):
    result = opening(head)
    assert (result and result.values) == (None if values is None else (values,))


def repeated(unit: str, size: int) -> str:
    return "[" + unit * (size // len(unit)) + "0]"


@pytest.mark.parametrize("unit", ["[],", "{},", '"",', "0,", '{"":[]},'])
@pytest.mark.parametrize("kind", [str.encode, str])
def test_json_of_too_many_values_is_refused_before_it_is_parsed(monkeypatch, unit, kind):
    monkeypatch.setattr(values, "SMALL_BYTES", 1000)
    monkeypatch.setattr(values, "VALUES", 2000)
    monkeypatch.setattr("orjson.loads", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(JsonError, match="2000") as caught:
        json_value(kind(repeated(unit, 20_000)))
    assert caught.value.reason == "too_many_values"


def test_a_long_text_is_refused_for_a_wide_character_only_where_that_is_in_it(monkeypatch):
    monkeypatch.setattr(values, "SMALL_BYTES", 1000)
    monkeypatch.setattr(values, "WIDE_BYTES", 2 << 20)
    long = "word " * 500_000
    for text in ([long, "\U0001f600"], ["\U0001f600", long], [long + "ü"]):
        data = json.dumps(text, ensure_ascii=False).encode()
        assert json_value(data) == text
    for is_escaped in (False, True):
        with pytest.raises(JsonError) as caught:
            json_value(json.dumps([long + "\U0001f600"], ensure_ascii=is_escaped).encode())
        assert caught.value.reason == "text_too_long"
