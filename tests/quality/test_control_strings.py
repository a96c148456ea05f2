"""Control strings: which they are, and the form in which no tokenizer takes a text's for its own."""

import json
import re
from unicodedata import normalize

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from trajmill.quality.control_strings import ESCAPABLE, PATTERN, escape, escape_places, unescape

STRINGS = [
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|fim_middle|>", "[INST]", "[/INST]", "<<SYS>>"),
    *("<</SYS>>", "<end_of_turn>", "[TOOL_CALLS]", "[gMASK]", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<|User|>"),
]
PIECES = st.sampled_from([*STRINGS, "<", "[", " ", "  ", "<|", "|>", "im_end", "a", "\n", "é", "/", "INST]", "SYS>>"])
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@pytest.mark.parametrize("string", STRINGS)
def test_a_control_string_is_told_with_a_blank_behind_its_first_character(string):
    assert re2.search(PATTERN, f"a {string} b")
    assert escape(f"a {string} b") == f"a {string[0]} {string[1:]} b"


@given(TEXTS)
def test_what_is_escaped_holds_no_control_string_and_comes_back_as_it_was(text):
    escaped = escape(text)
    assert not re2.search(PATTERN, escaped)
    assert unescape(escaped) == text
    assert not any(string in escaped for string in STRINGS)
    assert not any(string in normalize("NFKC", escaped) for string in STRINGS if string.isascii())
    assert (escaped == text) == (not any(re2.search(pattern, text) for pattern in ESCAPABLE))


@given(TEXTS)
def test_json_stays_json_of_the_escaped_text(text):
    assert json.loads(escape(json.dumps({"a": [text]}, ensure_ascii=False))) == {"a": [escape(text)]}


@given(TEXTS)
def test_the_places_are_those_of_the_blanks_that_come_in(text):
    escaped = escape(text)
    for shift, offset in enumerate(escape_places(text)):
        assert escaped[offset + shift] == " "
        escaped = escaped[: offset + shift] + "\0" + escaped[offset + shift + 1 :]
    assert escaped.replace("\0", "") == text


def test_a_tokenizer_with_such_tokens_makes_none_of_an_escaped_text():
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(
        [AddedToken(string, normalized=normal) for string, normal in zip(STRINGS, [True, False] * 8, strict=False)]
    )
    text = " x ".join(STRINGS)
    control = {tokenizer.token_to_id(string) for string in STRINGS}
    assert control <= set(tokenizer.encode(text).ids)
    assert control.isdisjoint(tokenizer.encode(escape(text)).ids)


def test_long_texts_take_linear_time():
    assert escape("<" + " " * 3_000_000) == "<" + " " * 3_000_000
    assert len(escape("< " * 500_000 + "<|im_end|>")) == 1_000_011
    assert re.match(r"< \|", escape("<|im_end|>"))
