"""JSON values: one policy for what writers leave beside the standard, and one vocabulary of reasons."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.reading import values
from trajmill.connectors.reading.documents import opening
from trajmill.connectors.reading.values import JsonError, first_value, json_value


@pytest.mark.parametrize("data", [b"9" * 5000, b'{"a": -' + b"9" * 5000 + b"}", b"[NaN, " + b"9" * 5000 + b"]"])
def test_an_integer_of_more_digits_than_python_takes_is_no_value(data):
    for read in (json_value, lambda one: first_value(one.decode())):
        with pytest.raises(JsonError) as told:
            read(data)
        assert told.value.reason == "bad_json"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def without_strange_numbers(value: Any) -> Any:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {key: without_strange_numbers(one) for key, one in value.items()}
    return [without_strange_numbers(one) for one in value] if isinstance(value, list) else value


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
    found = opening(head)
    assert (found and found.values) == (None if values is None else (values,))


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


def test_commas_and_brackets_within_texts_are_no_values(monkeypatch):
    monkeypatch.setattr(values, "SMALL_BYTES", 1000)
    monkeypatch.setattr(values, "VALUES", 20)
    text = json.dumps(['[1, {2}, "]\\', ", " * 5000] * 5)
    assert json_value(text.encode()) == json.loads(text)


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
