"""The values of JSON texts are those that a JSON reader finds, whatever the texts beside them hold."""

import json
import re

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from trajmill.quality.shingle import shingles
from trajmill.quality.values import leaves

WORDS = st.text('ab é日"\\/{}[],:\n\t1-', max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.floats(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


def plain(value: object) -> list[str]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in plain(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in plain(item)]
    return [re.sub(r'[\\"\n\t]', " ", value) if isinstance(value, str) else json.dumps(value)]


@given(st.lists(JSON, max_size=5), st.sampled_from([None, 2]))
def test_leaves_are_the_strings_numbers_and_words_one_a_line(values: list[object], indent: int | None):
    texts = [json.dumps(value, ensure_ascii=False, indent=indent) for value in values]
    decoded = leaves(pa.array(texts, pa.string())).to_pylist()
    assert [text.removesuffix("\n") for text in decoded] == ["\n".join(plain(value)) for value in values]


def test_texts_of_many_blocks_are_read_as_one_by_one():
    texts = [json.dumps({"path": f"a/{n}\\b", "n": [n, "x" * (n % 977)]}) for n in range(1500)]
    together = leaves(pa.array(texts, pa.string())).to_pylist()
    assert together == [leaves(pa.array([text], pa.string()))[0].as_py() for text in texts]


def test_a_sliced_column_gives_the_leaves_of_its_rows():
    texts = pa.array(['{"a": "one"}', '"two"', "3"])
    assert leaves(texts[1:]).to_pylist() == ["two\n", "3"]
    assert shingles(texts[1:])[1].tolist() == [0, 1, 2]
