"""Ranks of byte pairs become a tokenizer that merges as they say."""

from __future__ import annotations

from benchmarks.published_tokenizer import merges, ranks

TEXT = "YQ== 0\nYg== 1\nYw== 2\nYmM= 3\nYWI= 4\nYWJj 5\nYWJjYWI= 6\n"


def test_ranks_are_read_from_lines_of_base64_and_number():
    assert ranks(TEXT)[b"abc"] == 5


def test_a_token_is_merged_of_what_its_bytes_are_before_it_is_known():
    assert list(merges(ranks(TEXT))) == [(b"b", b"c"), (b"a", b"b"), (b"a", b"bc"), (b"abc", b"ab")]
