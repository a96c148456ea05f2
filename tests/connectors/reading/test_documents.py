"""Documents of JSON that are read in parts: arrays, large documents and outlines."""

import io
import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FUZZ, ROOT
from tests.connectors.mutations import damaged
from tests.rows import blob_at
from trajmill.connectors.reading import structure
from trajmill.connectors.reading.arrays import elements
from trajmill.connectors.reading.documents import array_values
from trajmill.connectors.reading.large import damage, outline, parts
from trajmill.connectors.reading.large.outline import MANY, Array, DocumentError, Object, Shape
from trajmill.connectors.reading.values import JsonError, json_value
from trajmill.connectors.registry import connectors
from trajmill.schemas import ParseError, Reject, spool


def test_elements_are_found_across_reads_whatever_their_strings_hold(monkeypatch):
    values = [{"a": 'x"}{[]\\' * n, "b": [{"c": {}}, "\\\\", '\\"']} for n in range(9)] + [{}]
    document = {"x": {"entries": [1]}, "log": {"entries ": [{}], "pages": ["]", {"entries": []}], "entries": values}}
    for indent in (None, 1):
        data = json.dumps({**document, "after": [{"a": 1}]}, indent=indent).encode()
        for chunk in (1, 2, 7, 4096):
            monkeypatch.setattr("trajmill.connectors.reading.arrays._CHUNK", chunk)
            pieces = list(elements(io.BytesIO(data), "x", ("log", "entries")))
            assert [json.loads(piece) for _, piece in pieces] == values
            assert all(data[offset:].startswith(piece) for offset, piece in pieces)


def gathered(items):
    """All that comes, and why and where it ends early."""
    came: list[Any] = []
    try:
        came.extend(items)
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
    pieces, fault = gathered(array_values(io.BytesIO(data), "x", ("log", "entries")))
    assert ([value for _, value, _ in pieces], fault) == (entries, None)
    assert all(data[at:].startswith(raw) and json.loads(raw) == value for at, value, raw in pieces)
    for size in range(0, len(data), 7):
        came, fault = gathered(elements(io.BytesIO(data[:size]), "x", ("log", "entries")))
        assert came == [(at, raw) for at, _, raw in pieces if at + len(raw) <= size]
        last = pieces[-1][0] + len(pieces[-1][2]) if pieces else len(data)
        assert fault is None or fault[0] == "truncated" or size < 4
        assert fault is not None or b"]" in data[last:size] or not pieces


def test_a_long_element_ends_the_array_and_nothing_behind_it_is_read():
    stream = io.BytesIO(b'[{"a": 1}, {"b": "' + b"x" * (9 << 20) + b'"}, {"c": 1}]')
    pieces = elements(stream, "x", (), limit=1 << 20)
    assert next(pieces) == (1, b'{"a": 1}')
    with pytest.raises(ParseError) as caught:
        next(pieces)
    assert (caught.value.reason, caught.value.offset) == ("element_too_long", 11)
    assert stream.tell() < 9 << 20


NAMES = ("inspect", "sweagent", "mini_swe_agent", "mcp_recorder", "tau2", "tau_bench", "chat_tools", "claude_code")
FIXTURES = ROOT / "tests" / "fixtures"


def logs(name: str) -> list[Path]:
    places = (FIXTURES / name / "input", FIXTURES / name / "bad")
    return sorted(path for folder in places for path in folder.iterdir() if path.suffix != ".reason")


def found_in(name, blob):
    """Everything that a connector says of a log, and the offsets apart: small logs may leave them at 0."""
    outcomes: list[object] = []
    offsets: list[int] = []
    try:
        for record in connectors()[name].parse(blob):
            if isinstance(record, Reject):
                outcomes.append(
                    (record.unit, record.reason, record.detail, record.member, record.transitions, record.excerpt)
                )
                offsets.append(record.offset)
            else:
                steps = list(record.steps)
                offsets += [step.offset for step in steps]
                outcomes.append(replace(record, steps=[replace(step, offset=0) for step in steps]))
    except ParseError as error:
        outcomes.append((error.reason, error.detail, error.member, error.excerpt))
        offsets.append(error.offset)
    return outcomes, offsets


def both_ways(name, blob):
    small = found_in(name, blob)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outline, "LARGE_BYTES", 0)
        patch.setattr(outline, "PIECE_BYTES", 0)
        patch.setattr(outline, "BLOCK_BYTES", 300)
        patch.setattr(parts, "READ_BYTES", 300)
        patch.setattr(damage, "NEAR_BYTES", 1)
        patch.setattr(structure, "CHUNK_BYTES", 1000)
        patch.setattr(spool, "HELD_BYTES", 0)
        large = found_in(name, blob)
    assert large[0] == small[0]
    for offset, exact in zip(small[1], large[1], strict=True):
        assert offset <= exact or is_wrapped(blob)


def is_wrapped(blob):
    """Tell a document whose rows stand within an object: a large one does not tell their places."""
    return b'"eval_cases"' in blob.read(blob.members[0])


@pytest.mark.parametrize(("name", "path"), [(name, path) for name in NAMES for path in logs(name)], ids=str)
def test_a_large_document_becomes_what_a_small_one_becomes(name, path):
    both_ways(name, blob_at(path))


SHAPES: tuple[Shape, ...] = ([], {"a": [], "b": MANY, "c": [{"a": [], "b": MANY}]})
LISTED: tuple[Shape, ...] = ([{"a": [[]], "b": MANY}],)


@pytest.fixture(autouse=True)
def _nothing_is_small(monkeypatch):
    monkeypatch.setattr(outline, "PIECE_BYTES", 0)
    monkeypatch.setattr(outline, "BLOCK_BYTES", 5)
    monkeypatch.setattr(parts, "READ_BYTES", 5)
    monkeypatch.setattr(damage, "NEAR_BYTES", 1)
    monkeypatch.setattr(structure, "CHUNK_BYTES", 7)


def plain(value):
    """The value with every part that stands in a file read."""
    if isinstance(value, Array | list):
        return [plain(item) for item in value]
    if isinstance(value, Object | dict):
        return {key: plain(value[key]) for key in value}
    return value


def outlined(data, shapes=SHAPES):
    return outline.outline(BytesIO(data), "log", "", shapes)


def said_of(data, shapes=SHAPES):
    """The value, or what is said against it: by the outline."""
    try:
        return plain(outlined(data, shapes))
    except DocumentError as fault:
        return fault.reason, str(fault), fault.offset


def said_whole(data):
    """The value, or what is said against it: by the reader of whole documents."""
    try:
        return json_value(data)
    except JsonError as error:
        return error.reason, str(error), error.offset


TEXTS = st.text(st.sampled_from('abc"\\{}[],: \n\té€\U0001f600\x7f'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc") | TEXTS, inner, max_size=4),
    max_leaves=20,
)
DOCUMENTS = st.lists(VALUES) | st.dictionaries(st.sampled_from("abc"), VALUES) | VALUES


def written(value, indent, ascii_only):
    return json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()


@settings(max_examples=40 * FUZZ)
@given(value=DOCUMENTS, indent=st.sampled_from([None, 1]), ascii_only=st.booleans(), listed=st.booleans())
def test_an_outline_holds_what_the_document_holds(value, indent, ascii_only, listed):
    data = written(value, indent, ascii_only)
    assert said_of(data, LISTED if listed else SHAPES) == said_whole(data)


@settings(max_examples=60 * FUZZ)
@given(value=DOCUMENTS, indent=st.sampled_from([None, 1]), data=st.data())
def test_a_damaged_document_is_refused_in_the_words_of_one_that_is_read_whole(value, indent, data):
    log = damaged(written(value, indent, data.draw(st.booleans())), data, 3, 1)
    shapes = data.draw(st.sampled_from([SHAPES, LISTED, ()]))
    assert said_of(log, shapes) == said_whole(log)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": [1, 2 3]}', b'{"a": [1,]}', b'{"a": [,]}', b'{"a": [1}', b'{"a": {"b": 1]}', b'{"c": [{"a": [1]} x]}',
        b'{"c": [{"a": [1]} {"a": 2}]}', b'{"a": [1]} {', b'{"a": [1]} x', b'{"a": [1]},', b'{"a" [1]}',
        b'{"a": 1: 2}', b"{1: 2}", b'{"a": }', b'{"a": [1], }', b'{"b": {"x": [}}', b'{"c": [x{"a": 1}]}', b"[", b"]",
        b" ", b'"text', b'{"a": ["\\ud800", }', b'{"a": [NaN, }', b'{"a": [NaN', b'{"a": [1]}\0\n', b"\0",
        b'{"a": ["\\ud800"], "b": }', '{"a": ["é\n", "€€", x]}'.encode(), b'\xef\xbb\xbf{"a": [x]}',
        b'{"a": [1, "\xff", x]}', b'{"a": ["\xe2\x82', b"[" * 1030 + b"1" + b"]" * 1030,
        b'{"a": ' * 1030 + b"1" + b"}" * 1030,
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_as_of_the_whole_document(data):
    fault = said_of(data)
    assert isinstance(fault, tuple)
    assert fault == said_whole(data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": ["\\ud800", 1]}',
        b'\xef\xbb\xbf{"a": [1]} \n',
        b'{"a": [1], "a": [2]}',
        b'{"b": {"x": 1, "x": 2}}',
        b'{"a": [NaN, -Infinity, 1e999], "b": {"x": NaN}}',
        b'{"a": [123456789012345678901, -9223372036854775809]}',
        b'{"a": [1]}\0\0',
        b"12",
    ],
)
def test_what_json_allows_is_read(data):
    assert said_of(data) == said_whole(data)


def test_elements_have_their_offsets_and_are_read_in_any_order():
    data = b'{"c": [ {"a": [1, {"x": 2}]},\n 5, "t",{"b": {"k": "v"}}]}'
    array = outlined(data)["c"]
    assert [data[offset : offset + 3] for offset in array.offsets] == [b'{"a', b"5, ", b'"t"', b'{"b']
    assert [data[offset : offset + 2] for offset in array[0]["a"].offsets] == [b"1,", b'{"']
    assert array[-1]["b"]["k"] == "v"
    assert array[1:3] == [5, "t"]
    assert plain(array[0]) == {"a": [1, {"x": 2}]}


def test_small_parts_of_elements_are_plain_values(monkeypatch):
    monkeypatch.setattr(outline, "PIECE_BYTES", 20)
    document = outlined(b'{"a": [1, 2, 3], "c": [{"a": [1]}, {"a": [1, 2, 3, 4, 5, 6, 7, 8]}]}')
    assert isinstance(document["a"], Array)
    assert isinstance(document["c"][0]["a"], list)
    assert isinstance(document["c"][1]["a"], Array)


def test_a_part_that_is_too_long_and_of_no_shape_is_refused(monkeypatch):
    monkeypatch.setattr(outline, "WHOLE_BYTES", 30)
    assert plain(outlined(b'{"a": [%s 1]}' % (b"1, " * 50)))["a"][-1] == 1
    with pytest.raises(ParseError) as met:
        outlined(b'{"x": [%s 1]}' % (b"1, " * 50))
    assert (met.value.reason, met.value.offset) == ("value_too_long", 5)
