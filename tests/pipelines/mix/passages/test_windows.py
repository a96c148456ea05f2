"""Texts longer than the bound: pieces that are the text again, none over it, in one group."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.mix.passages.corpora import component, prepared, prose, written
from trajmill.pipelines.mix.passages.measuring import cut_text
from trajmill.pipelines.mix.passages.passage import Message, Passage
from trajmill.quality.tokens import TokenCounter

COUNTER = TokenCounter()
BOOK = "\n\n".join(f"Chapter {number}\n{prose(120, number)}" for number in range(30))


def pieces(text: str, most: int) -> list[str]:
    passage = Passage(0, "MIT", (Message("", text),), "book")
    return [piece.messages[0].content for piece in cut_text(passage, most, COUNTER)]


def tokens(texts: list[str]) -> list[int]:
    counts: list[int] = COUNTER.count(pa.array(texts, pa.string())).tolist()
    return counts


def test_a_book_is_cut_between_its_paragraphs():
    cut = pieces(BOOK, 4000)
    assert "".join(cut) == BOOK
    assert len(cut) > 3
    assert max(tokens(cut)) <= 4000
    assert all(piece.startswith("Chapter") for piece in cut)


@given(st.text(alphabet="ab1😀é \n.", min_size=1, max_size=400).filter(str.strip), st.integers(3, 40))
def test_pieces_are_the_text_again_and_none_is_over_the_bound(text, most):
    cut = pieces(text, most)
    assert "".join("".join(cut).split()) == "".join(text.split())
    assert max(tokens(cut)) <= most


@pytest.mark.parametrize("text", ["x" * 100_000, " " * 50_000 + "x" * 50_000, "\n\n" * 20_000 + "end"])
def test_a_text_without_borders_is_cut_all_the_same(text):
    assert max(tokens(pieces(text, 100))) <= 100


def test_pieces_of_a_row_share_its_group_and_have_ids_of_their_own(tmp_path: Path):
    written(tmp_path / "a.jsonl", [{"text": BOOK, "id": "book"}, {"text": prose(30, 90), "id": "leaf"}])
    by_id = component(tmp_path / "a.jsonl", max_tokens=4000, columns={"id": "id"})
    manifest, tables, _ = prepared(tmp_path / "one", by_id)
    rows = tables["corpus"].to_pylist()
    book = [row for row in rows if row["id"].startswith("corpus/book")]
    assert [row["id"] for row in book][:3] == ["corpus/book", "corpus/book@1", "corpus/book@2"]
    assert len({row["group"] for row in book}) == 1
    assert len({row["group"] for row in rows}) == 2
    assert manifest.counts["corpus.windows"] == len(book) - 1
    _, tables, _ = prepared(tmp_path / "two", component(tmp_path / "a.jsonl", max_tokens=4000))
    assert len(set(tables["corpus"]["id"].to_pylist())) == len(rows)
    assert len(set(tables["corpus"]["group"].to_pylist())) == 2
