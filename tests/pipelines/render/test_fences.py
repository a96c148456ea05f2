"""JSON set out over lines: by the quick way as by the slow one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.pipelines.render.fences import block, fenced, indented, is_structure
from trajmill.schemas import json_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


@given(st.lists(VALUES, max_size=4) | st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_a_value_is_set_out_as_the_slow_way_does_however_it_is_written(value):
    for text in (
        json_text(value),
        json.dumps(value),
        json.dumps(value, indent=1),
        json.dumps(value, separators=(",", ":")),
    ):
        assert block(text) == fenced(indented(text), "json")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"n": 12345678901234567890123, "x": 1e+16, "y": 1e-07, "z": 1.50}',
        '["\\u00e9", "\x7f", "\\u0001", "e+1", {}, []]',
        "[" * 600 + "]" * 600,
        "[" * 601 + "]" * 601,
        '{"a": ',
        "[1] and more",
    ],
)
def test_what_the_quick_way_would_change_stays_as_it_is_written(text):
    assert block(text) == (fenced(indented(text), "json") if is_structure(text) else fenced(text, "text"))
