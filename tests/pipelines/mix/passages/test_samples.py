"""Samples of passages: the columns of all samples, and spans over what bears the loss and nothing else."""

from typing import Any

import pyarrow as pa
import pytest

from trajmill.pipelines.mix.passages.drawing import samples_of_passages
from trajmill.pipelines.mix.passages.passage import PASSAGE_SCHEMAS
from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS

COMMON = {
    "id": "law/1", "source": "statutes", "licence": "CC0-1.0", "uri": "a.jsonl", "row": 0, "group": "0" * 16,
    "text_bytes": 40, "tokens": 12, "loss_tokens": 7,
}  # fmt: skip
TEXT = pa.Table.from_pylist([{**COMMON, "text": "Wer 😀 eine Störung bemerkt …\n"}], PASSAGE_SCHEMAS["text"])
SAID: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief.", "loss": None},
    {"role": "user", "content": "Wie heißt 😀?", "loss": None},
    {"role": "assistant", "content": "Lächeln 😀.", "loss": True},
    {"role": "user", "content": "And then?", "loss": None},
    {"role": "assistant", "content": "", "loss": True},
    {"role": "assistant", "content": "Nothing.", "loss": True},
]
CHAT = pa.Table.from_pylist([{**COMMON, "tools": None, "messages": SAID}], PASSAGE_SCHEMAS["messages"])


@pytest.mark.parametrize("pool", ["cpt", "sft"])
@pytest.mark.parametrize("part", [TEXT, CHAT], ids=["text", "messages"])
def test_samples_have_the_columns_of_their_pool_and_tell_where_they_are_from(part, pool):
    (sample,) = samples_of_passages(part, "law", pool)
    (row,) = pa.Table.from_pylist([sample], SAMPLE_SCHEMAS[pool]).to_pylist()
    assert {name: row[name] for name in row if row[name] != sample[name]} == {}
    assert (row["domain"], row["source"], row["group"], row["template"]) == ("law", "statutes", "0" * 16, "")
    assert (row["num_tokens"], row["num_loss_tokens"]) == (12, 7)


def test_a_text_bears_the_loss_from_its_first_character_to_its_last():
    (sample,) = samples_of_passages(TEXT, "law", "cpt")
    assert sample["text"] == TEXT["text"][0].as_py()
    assert sample["spans"] == [{"begin": 0, "end": len(sample["text"]), "label": None}]
    assert sample["num_turns"] == 1


def test_a_text_in_sft_is_one_message_of_the_assistant():
    (sample,) = samples_of_passages(TEXT, "law", "sft")
    (message,) = sample["messages"]
    assert (message["role"], message["content"], message["loss"]) == ("assistant", TEXT["text"][0].as_py(), True)
    assert sample["spans"] == [{"message": 0, "begin": 0, "end": len(message["content"]), "label": None}]


def test_what_the_assistant_said_bears_the_loss_in_messages_and_in_their_text():
    (chat,) = samples_of_passages(CHAT, "law", "sft")
    (document,) = samples_of_passages(CHAT, "law", "cpt")
    expected = ["Lächeln 😀.", "Nothing."]
    assert chat["messages"] == SAID
    assert [SAID[span["message"]]["content"][span["begin"] : span["end"]] for span in chat["spans"]] == expected
    assert [document["text"][span["begin"] : span["end"]] for span in document["spans"]] == expected
    assert all(message["content"] in document["text"] for message in SAID)
    assert chat["num_turns"] == document["num_turns"] == 3
