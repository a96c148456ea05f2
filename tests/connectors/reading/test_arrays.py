"""Elements of arrays in JSON documents, with their places, whatever stands around them and however they are read."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.reading.arrays import elements
from trajmill.connectors.reading.documents import array_values
from trajmill.schemas import ParseError


def test_elements_are_found_across_reads_whatever_their_strings_hold(monkeypatch):
    values = [{"a": 'x"}{[]\\' * n, "b": [{"c": {}}, "\\\\", '\\"']} for n in range(9)] + [{}]
    document = {"x": {"entries": [1]}, "log": {"entries ": [{}], "pages": ["]", {"entries": []}], "entries": values}}
    for indent in (None, 1):
        data = json.dumps({**document, "after": [{"a": 1}]}, indent=indent).encode()
        for chunk in (1, 2, 7, 4096):
            monkeypatch.setattr("trajmill.connectors.reading.arrays._CHUNK", chunk)
            found = list(elements(io.BytesIO(data), "x", ("log", "entries")))
            assert [json.loads(piece) for _, piece in found] == values
            assert all(data[offset:].startswith(piece) for offset, piece in found)


def gathered(found):
    """All that comes, and why and where it ends early."""
    came: list[Any] = []
    try:
        came.extend(found)
    except ParseError as error:
        return came, (error.reason, error.offset)
    return came, None


OBJECTS = st.recursive(
    st.dictionaries(st.sampled_from(["a", "b", 'q"', "{", "é"]), st.sampled_from([1, '{"a":', "\\", "]"]), max_size=2),
    lambda inner: st.dictionaries(
        st.sampled_from(["a", "b", "entries"]), inner | st.lists(inner, max_size=2), max_size=2
    ),
    max_leaves=4,
)


@given(
    st.lists(OBJECTS, max_size=3), st.lists(OBJECTS, max_size=1), OBJECTS, st.sampled_from([None, 0, 2]), st.booleans()
)
def test_elements_are_those_of_the_document_and_of_one_that_is_cut_the_first(entries, before, after, indent, bom):
    text = json.dumps({"x": before, "log": {"pages": before, "entries": entries, "z": after}}, indent=indent)
    data = b"\xef\xbb\xbf" * bom + text.encode()
    found, fault = gathered(array_values(io.BytesIO(data), "x", ("log", "entries")))
    assert ([one for _, one, _ in found], fault) == (entries, None)
    assert all(data[at:].startswith(held) and json.loads(held) == one for at, one, held in found)
    for size in range(0, len(data), 7):
        came, fault = gathered(elements(io.BytesIO(data[:size]), "x", ("log", "entries")))
        assert came == [(at, held) for at, _, held in found if at + len(held) <= size]
        last = found[-1][0] + len(found[-1][2]) if found else len(data)
        assert fault is None or fault[0] == "truncated" or size < 4
        assert fault is not None or b"]" in data[last:size] or not found


def test_a_long_element_ends_the_array_and_nothing_behind_it_is_read():
    stream = io.BytesIO(b'[{"a": 1}, {"b": "' + b"x" * (9 << 20) + b'"}, {"c": 1}]')
    found = elements(stream, "x", (), limit=1 << 20)
    assert next(found) == (1, b'{"a": 1}')
    with pytest.raises(ParseError) as caught:
        next(found)
    assert (caught.value.reason, caught.value.offset) == ("element_too_long", 11)
    assert stream.tell() < 9 << 20
