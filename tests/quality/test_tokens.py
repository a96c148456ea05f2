import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.quality.tokens import TokenCounter, text_bytes
from trajmill.schemas import ConfigError

TEXTS = st.lists(
    st.one_of(st.none(), st.text(st.sampled_from("ab09é \n\t(){}_жא日한ก─\U0001f600\x1b"), max_size=24)), max_size=10
)


@pytest.fixture
def bytes_tokenizer(tmp_path):
    """A tokenizer with one token a byte."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path / "tokenizer.json")


def kind_of(letter: str) -> str:
    if not letter.isascii():
        return "other"
    if letter.isdigit() or letter.isalpha():
        return "digit" if letter.isdigit() else "letter"
    return "space" if letter == " " else "break" if letter in "\t\n\r" else "sign"


def twentieths(text: str) -> int:
    """The rule of docs/decisions/tokens.md, a character at a time."""
    others = ((0x400, 14), (0x800, 7), (0x2000, 22), (0x3000, 24), (0xA000, 12), (0xE000, 14), (0x110000, 40))
    total, before = 0, "start"
    for letter in text:
        kind = kind_of(letter)
        if kind == "other":
            total += next(units for end, units in others if ord(letter) < end)
        elif kind == "letter":
            total += 2 if before == "letter" else 14
        elif kind in ("digit", "sign"):
            total += 0 if before == kind == "sign" else 20
        elif kind == "break":
            total += 0 if before == "break" else 12
        before = kind
    return total


@given(TEXTS)
def test_the_estimate_follows_runs_of_signs_words_and_scripts(texts):
    expected = [-(-twentieths(text or "") // 20) for text in texts]
    column = pa.array(texts, pa.string())
    assert TokenCounter().count(column).tolist() == expected
    assert TokenCounter().count(column.dictionary_encode()).tolist() == expected
    assert TokenCounter().count(column.slice(1)).tolist() == expected[1:]


def test_the_estimate_of_texts_longer_than_a_block_is_that_of_their_parts():
    texts = ["word, 12\n" * 100_000, "", "(", "\n", "\U0001f600" * 9, "9" * 700_000]
    expected = [-(-twentieths(text) // 20) for text in texts]
    assert TokenCounter().count(pa.array(texts)).tolist() == expected


@given(TEXTS)
def test_bytes_are_those_of_utf_8(texts):
    expected = [len((text or "").encode()) for text in texts]
    column = pa.array(texts, pa.string())
    assert text_bytes(column).tolist() == text_bytes(column.dictionary_encode()).tolist() == expected


def test_a_tokenizer_file_counts_exactly(bytes_tokenizer):
    column = pa.array(["abc", None, "é", "abc"])
    counter = TokenCounter(bytes_tokenizer)
    assert counter.count(column).tolist() == [3, 0, 2, 3]
    assert np.array_equal(counter.count(column.dictionary_encode()), counter.count(column))


def test_a_column_is_counted_once_within_a_block(bytes_tokenizer, monkeypatch):
    counter = TokenCounter(bytes_tokenizer)
    encoded = []

    def encode(texts):
        encoded.append(texts)
        return text_bytes(texts)

    monkeypatch.setattr(counter, "_encoded", encode)
    column = pa.array(["abc", None, "é"]).dictionary_encode()
    with counter.remember_columns():
        assert counter.count(column).tolist() == counter.count(column[::-1])[::-1].tolist() == [3, 0, 2]
        assert counter.count(column.dictionary).tolist() == [3, 2]
        assert counter.count(column.dictionary[1:]).tolist() == [2]
    assert len(encoded) == 2
    counter.count(column)
    assert len(encoded) == 3


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps({"a": 1}))
    with pytest.raises(ConfigError):
        TokenCounter(str(tmp_path / "tokenizer.json"))
