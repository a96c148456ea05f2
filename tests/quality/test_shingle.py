"""Shingles of many texts at once agree with the plain definition, one text at a time."""

import re

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from trajmill.quality.lines import Lines
from trajmill.quality.shingle import WORDS, shingles

WORD = re.compile(r"[\u3000-\udfff]|[0-9A-Za-z_\x80-\u2fff\ue000-\U0010ffff]+")
TEXT = st.text(st.sampled_from("ab Z_9é日本\n.,-"), max_size=60)


def words(text: str) -> list[str]:
    """The words of a text, from the definition."""
    return [word.lower() if word.isascii() else fold(word) for word in WORD.findall(text)]


def fold(word: str) -> str:
    return "".join(char.lower() if char.isascii() else char for char in word)


def plain(text: str, size: int = WORDS) -> list[tuple[str, ...]]:
    """The shingles of a text as tuples of words, from the definition."""
    tokens = words(text)
    return [tuple(tokens[start : start + size]) for start in range(max(len(tokens) - size + 1, min(len(tokens), 1)))]


@given(st.lists(TEXT, max_size=8), st.sampled_from([1, 2, WORDS, 13]))
def test_texts_share_shingles_exactly_where_they_share_runs_of_words(texts: list[str], size: int):
    hashes, offsets = shingles(pa.array(texts, pa.string()), size)
    meaning: dict[tuple[str, ...], int] = {}
    for number, text in enumerate(texts):
        actual = hashes[offsets[number] : offsets[number + 1]].tolist()
        expected = plain(text, size)
        assert len(actual) == len(expected)
        for name, value in zip(expected, actual, strict=True):
            assert meaning.setdefault(name, value) == value
    assert len(set(meaning.values())) == len(meaning)


def test_case_does_not_matter_and_long_words_are_told_apart():
    base = "x" * 30
    texts = ["Hello WORLD", "hello world", base + "1", base + "2", base + "11", "y" + base, "a" * 9, "a" * 17, "a" * 25]
    hashes, offsets = shingles(pa.array(texts))
    assert np.diff(offsets).tolist() == [1] * len(texts)
    assert hashes[0] == hashes[1]
    assert len(set(hashes[1:].tolist())) == len(texts) - 1


def test_an_underscore_parts_words_where_that_is_asked_for():
    texts = pa.array(["run_test now", "run test now"])
    assert len(set(shingles(texts, parted=True)[0].tolist())) == 1
    assert len(set(shingles(texts)[0].tolist())) == 2


def test_nulls_and_slices_have_their_own_shingles():
    whole = pa.array(["one two three four five six", None, "", "seven"])
    hashes, offsets = shingles(whole)
    assert np.diff(offsets).tolist() == [2, 0, 0, 1]
    part, cut = shingles(whole.slice(2))
    assert np.diff(cut).tolist() == [0, 1]
    assert part.tolist() == hashes[-1:].tolist()


def test_many_blocks_give_what_one_text_at_a_time_gives():
    texts = [" ".join(f"w{number * 7919 % 1000}" for number in range(start, start + 3000)) for start in range(40)]
    hashes, offsets = shingles(pa.array(texts))
    for number in (0, 17, 39):
        alone, _ = shingles(pa.array([texts[number]]))
        assert hashes[offsets[number] : offsets[number + 1]].tolist() == alone.tolist()


@given(st.lists(st.text(st.sampled_from("ab\n é"), max_size=20), max_size=6))
def test_lines_are_equal_exactly_where_their_text_is(texts: list[str]):
    cut = Lines.of(pa.array(texts, pa.string()))
    hashes = cut.hashes()
    meaning: dict[str, int] = {}
    for number, text in enumerate(texts):
        lines = text.split("\n")
        actual = hashes[cut.first[number] : cut.first[number + 1]].tolist()
        assert len(actual) == len(lines)
        for line, value in zip(lines, actual, strict=True):
            assert meaning.setdefault(line, value) == value
    assert len(set(meaning.values())) == len(meaning)


def test_a_line_has_one_hash_wherever_it_stands():
    texts = ["x" * 70000 + "\nhere it is\n" + "y" * 150000 + "\nhere it is", "here it is"]
    cut = Lines.of(pa.array(texts))
    hashes = cut.hashes()
    assert hashes[1] == hashes[3] == hashes[4]
    assert len(set(hashes.tolist())) == 3
