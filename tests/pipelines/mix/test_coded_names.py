"""Columns of names as numbers: what they say is what the texts said."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trajmill.pipelines.mix.coded_names import Coded, hex_texts, numbers_of

TEXTS = st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "b", "long"])), max_size=12)


@given(st.lists(TEXTS, max_size=4), st.sets(st.sampled_from(["", "a", "z"])))
def test_columns_that_are_joined_hold_their_names(parts, asked):
    whole = Coded.joined([Coded.of(part) for part in parts])
    texts = [text for part in parts for text in part]
    assert whole.tolist() == whole.texts().to_pylist() == texts
    assert set(whole.held()) == set(texts)
    assert whole.is_in(asked).tolist() == [text in asked for text in texts]
    assert whole[1:].tolist() == texts[1:]


def test_more_names_than_a_byte_tells_apart_are_held():
    names = [f"source {number}" for number in range(300)]
    whole = Coded.joined([Coded.alike(name, 2) for name in names])
    assert whole.codes.dtype == np.uint16
    assert whole.tolist() == [name for name in names for _ in range(2)]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_numbers_are_16_digits_and_are_read_again(numbers):
    texts = hex_texts(np.array(numbers, np.uint64))
    assert texts.to_pylist() == [f"{number:016x}" for number in numbers]
    assert numbers_of(texts).tolist() == numbers
