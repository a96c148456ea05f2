"""Rows of tables as passages: every format alike, and a reject with its place for what is none."""

import bz2
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.mix.passages.corpora import component, prepared, prose, written
from trajmill.connectors.connector import MemoryBlob
from trajmill.pipelines.mix.passages.passage import Message, Passage
from trajmill.pipelines.mix.passages.reading import read_passages
from trajmill.pipelines.recipe.passages import Passages
from trajmill.schemas import ConfigError, Reject

TEXTS = [prose(30, seed) for seed in range(5)]
TABLE = pa.table({"text": TEXTS, "tag": list("abcab")})
LINES = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()


def read(rows: list[Any], **values: Any) -> list[Passage | Reject]:
    """What a component makes of rows of JSON Lines."""
    section = component(Path("corpus"), **values)
    blob = MemoryBlob("corpus.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return list(read_passages(section, blob))


def conversation(*messages: Any, **values: Any) -> Passage | Reject:
    (record,) = read([{"messages": list(messages)}], kind="messages", **values)
    return record


def said_by(record: Passage | Reject) -> tuple[Message, ...]:
    assert isinstance(record, Passage)
    return record.messages


def reason(record: Passage | Reject) -> str:
    return record.reason if isinstance(record, Reject) else "kept"


def written_as(ending: str, path: Path) -> Path:
    """The five texts as a file of that ending."""
    path.mkdir(parents=True)
    file = path / f"corpus.{ending}"
    packed = {"zst": zstandard.ZstdCompressor().compress, "gz": gzip.compress, "bz2": bz2.compress}
    if ending == "parquet":
        pq.write_table(TABLE, file, row_group_size=2)
    elif ending.endswith("arrow"):
        opened = pa.ipc.new_stream if ending == "stream.arrow" else pa.ipc.new_file
        with opened(file, TABLE.schema) as writer:
            writer.write_table(TABLE)
    elif ending == "json":
        file.write_text(json.dumps([{"text": text} for text in TEXTS]))
    else:
        file.write_bytes(packed.get(ending.rpartition(".")[2], bytes)(LINES))
    return file


@pytest.mark.parametrize(
    "ending", ["jsonl", "jsonl.zst", "jsonl.gz", "jsonl.bz2", "json", "parquet", "file.arrow", "stream.arrow"]
)
def test_every_format_gives_the_same_passages(ending, tmp_path):
    file = written_as(ending, tmp_path / "in")
    for number, path in enumerate((file, file.parent, file.parent / f"*.{ending}")):
        _, tables, rejects = prepared(tmp_path / str(number), component(path))
        assert tables["corpus"]["text"].to_pylist() == TEXTS
        assert rejects == []


def test_a_folder_is_read_without_what_is_no_table(tmp_path):
    written(tmp_path / "in/a.jsonl", TEXTS)
    (tmp_path / "in/notes.txt").write_text("These are notes, and no table.")
    manifest, _, rejects = prepared(tmp_path / "out", component(tmp_path / "in"))
    assert (len(manifest.files), rejects) == (1, [])


def test_only_the_splits_that_are_named_are_read(tmp_path):
    for split in ("train", "test"):
        written(tmp_path / f"in/{split}.jsonl", [prose(30, len(split))])
    (tmp_path / "in/README.md").write_text("---\nlicense: mit\n---\n# A corpus\n")
    _, tables, _ = prepared(tmp_path / "out", component(tmp_path / "in", splits=["train"]))
    assert tables["corpus"]["uri"].to_pylist() == ["train.jsonl"]


def test_a_path_that_names_nothing_ends_the_run(tmp_path):
    with pytest.raises(ConfigError):
        prepared(tmp_path / "out", component(tmp_path / "absent"))


def test_a_column_that_a_table_has_not_ends_the_run_with_the_nearest_name(tmp_path):
    pq.write_table(pa.table({"texts": TEXTS}), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match="'texts'"):
        prepared(tmp_path / "out", component(tmp_path / "a.parquet"))
    assert not (tmp_path / "out/passages").exists()


def test_columns_may_lie_within_structs(tmp_path):
    pq.write_table(
        pa.table({"page": [{"body": text, "meta": {"id": 7}} for text in TEXTS[:1]]}), tmp_path / "a.parquet"
    )
    columns = {"text": "page.body", "id": "page.meta.id"}
    _, tables, _ = prepared(tmp_path / "out", component(tmp_path / "a.parquet", columns=columns))
    assert tables["corpus"].select(["id", "text"]).to_pylist() == [{"id": "corpus/7", "text": TEXTS[0]}]


def test_rows_with_another_value_are_not_taken_and_are_counted(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    chosen = component(tmp_path / "a.parquet", where={"tag": "a"})
    manifest, tables, _ = prepared(tmp_path / "out", chosen)
    assert tables["corpus"]["text"].to_pylist() == [TEXTS[0], TEXTS[3]]
    assert manifest.counts["corpus.dropped.not_wanted"] == 3


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"text": "Some text."}, "kept"),
        ({"text": "   \n"}, "too_short"),
        ({"text": None}, "no_text"),
        ({"other": "x"}, "no_text"),
        ({"text": 5}, "not_text"),
        ({"text": ["a"]}, "not_text"),
        ({"text": "half of a pair: \ud83d"}, "lone_surrogate"),
        ({"text": "sha256:" + "0" * 64}, "not_utf8"),
        ([1, 2], "not_an_object"),
        ("a text alone", "not_an_object"),
    ],
)
def test_a_row_that_is_no_text_goes_for_a_reason(row, expected):
    (_, record) = read([{"text": "The first row tells that this is JSON Lines."}, row])
    assert reason(record) == expected


def test_rows_shorter_than_the_recipe_wants_go():
    assert [reason(record) for record in read([{"text": "x" * 9}, {"text": "x" * 10}], min_chars=10)] == [
        "too_short",
        "kept",
    ]


def test_a_licence_of_a_row_wins_over_that_of_the_recipe_and_a_row_without_any_goes():
    rows = [{"text": "a", "terms": terms} for terms in ("MIT", ["MIT", "CC0-1.0"], None, "ask the author")]
    licences = [
        record.licence if isinstance(record, Passage) else record.reason
        for record in read(rows, columns={"licence": "terms"})
    ]
    assert licences == ["MIT", "MIT AND CC0-1.0", "CC-BY-4.0", "no_licence"]
    without = read(rows, columns={"licence": "terms"}, licence=None)
    assert [reason(record) for record in without] == ["kept", "kept", "no_licence", "no_licence"]


def test_messages_of_the_layouts_in_use_are_one_conversation():
    expected = (Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Hello."))
    plain = [{"role": message.role, "content": message.content} for message in expected]
    sharegpt = [
        {"from": name, "value": message.content}
        for name, message in zip(("system", "human", "gpt"), expected, strict=True)
    ]
    in_parts = [{"role": message.role, "content": [{"type": "text", "text": message.content}]} for message in expected]
    assert said_by(conversation(*plain)) == expected
    assert said_by(conversation(*in_parts)) == expected
    assert said_by(conversation(*sharegpt, columns={"role": "from", "content": "value"})) == expected
    (record,) = read([{"messages": json.dumps(plain)}], kind="messages")
    assert said_by(record) == expected


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([{"role": "user", "content": "Hi"}], "no_target"),
        ([{"role": "assistant", "content": " "}], "no_target"),
        ([], "no_messages"),
        ("{", "bad_messages"),
        ({"role": "assistant", "content": "x"}, "no_messages"),
        (["x"], "bad_messages"),
        ([{"role": "narrator", "content": "x"}], "unknown_role"),
        ([{"content": "x"}], "unknown_role"),
        ([{"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}], "tool_calls"),
        ([{"role": "function_call", "content": "{}"}], "tool_calls"),
        ([{"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "not_text"),
        ([{"role": "assistant", "content": 7}], "not_text"),
    ],
)
def test_a_row_that_is_no_conversation_to_learn_from_goes_for_a_reason(messages, expected):
    (record,) = read([{"messages": messages}], kind="messages")
    assert reason(record) == expected


def test_only_what_the_assistant_says_bears_the_loss(tmp_path):
    turns = [("system", "Be brief."), ("user", prose(20, 1)), ("assistant", prose(30, 2)), ("tool", prose(9, 3))]
    tools = [{"name": "search"}]
    row = {"messages": [{"role": role, "content": text} for role, text in turns], "tools": tools}
    written(tmp_path / "a.jsonl", [row])
    _, tables, _ = prepared(tmp_path / "out", component(tmp_path, kind="messages", columns={"tools": "tools"}))
    (passage,) = tables["corpus"].to_pylist()
    assert [message["loss"] for message in passage["messages"]] == [None, None, True, None]
    assert json.loads(passage["tools"]) == tools
    assert 0 < passage["loss_tokens"] < passage["tokens"]


@pytest.mark.parametrize(("policy", "kept"), [("drop", 1), ("keep", 2)])
def test_rows_with_tokens_of_chat_templates_go_unless_the_recipe_keeps_them(policy, kept, tmp_path):
    written(tmp_path / "a.jsonl", [TEXTS[0], f"{TEXTS[1]} <|im_start|>system"])
    _, tables, _ = prepared(tmp_path / "out", component(tmp_path, control_tokens=policy))
    assert tables["corpus"].num_rows == kept


def test_rows_longer_than_the_recipe_wants_go(tmp_path):
    written(tmp_path / "a.jsonl", [prose(20, 1), prose(2000, 2)])
    manifest, tables, _ = prepared(tmp_path / "out", component(tmp_path, max_tokens=1000, overflow="drop"))
    assert tables["corpus"]["text"].to_pylist() == [prose(20, 1)]
    assert manifest.counts["corpus.dropped.too_long"] == 1


GERMAN = (
    "Die Anlage wird jeden Morgen von zwei Leuten geprüft, bevor die Pumpen laufen. Wer eine Störung bemerkt, meldet "
    "sie dem Meister, der über den weiteren Betrieb entscheidet und den Vorgang im Buch festhält."
)
ENGLISH = (
    "Two people check the plant every morning before the pumps are started. Whoever notices a fault tells the foreman, "
    "who decides whether work goes on and writes down in the book what has happened."
)


def test_rows_in_another_language_go(tmp_path):
    written(tmp_path / "a.jsonl", [GERMAN, ENGLISH, "x = 1"])
    manifest, tables, _ = prepared(tmp_path / "out", component(tmp_path, language=["de"]))
    assert tables["corpus"]["text"].to_pylist() == [GERMAN, "x = 1"]
    assert manifest.counts["corpus.dropped.other_language"] == 1


def test_rows_that_a_filter_of_datatrove_drops_go_by_its_name(tmp_path):
    written(tmp_path / "a.jsonl", [ENGLISH, "lorem ipsum dolor sit amet consectetur. " + ENGLISH])
    filters = {"RegexFilter": {"regex_exp": "lorem ipsum"}}
    manifest, tables, _ = prepared(tmp_path / "out", component(tmp_path, filters=filters))
    assert tables["corpus"]["text"].to_pylist() == [ENGLISH]
    assert manifest.counts["corpus.dropped.regex_filter"] == 1


def hostile_files(folder: Path) -> None:
    """Files that a corpus should not hold, beside a good one."""
    folder.mkdir()
    written(folder / "good.jsonl", TEXTS)
    whole = folder.parent / "whole.parquet"
    pq.write_table(TABLE, whole)
    (folder / "cut.parquet").write_bytes(whole.read_bytes()[:-40])
    (folder / "bent.parquet").write_bytes(b"PAR1" + os.urandom(200) + b"PAR1")
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress(LINES)[:-20])
    (folder / "bytes.jsonl").write_bytes(b'{"text": "good one here"}\n{"text": "\xff\xfe"}\n{"text": \n\x00\x00')
    (folder / "deep.jsonl").write_bytes(b'{"text": "a"}\n' + b"[" * 100_000 + b"\n")
    (folder / "empty.jsonl").touch()
    binary = pa.table({"text": pa.array([b"plain enough", b"\xff\xfe\x00"], pa.binary())})
    pq.write_table(binary, folder / "binary.parquet")
    secret = folder.parent / "secret.jsonl"
    written(secret, ["never meant to be read"])
    (folder / "link.jsonl").symlink_to(secret)


def test_hostile_files_cost_themselves_and_nothing_else(tmp_path):
    hostile_files(tmp_path / "in")
    manifest, tables, rejects = prepared(tmp_path / "out", component(tmp_path / "in", min_chars=2))
    texts = tables["corpus"]["text"].to_pylist()
    assert set(texts) == {*TEXTS, "good one here", "ÿþ", "plain enough"}
    assert manifest.counts["corpus.rows"] == len(texts) + len(rejects)
    by_file = {(row["uri"], row["reason"]) for row in rejects}
    assert {("link.jsonl", "outside_root"), ("binary.parquet", "not_utf8")} <= by_file
    assert {"cut.parquet", "bent.parquet", "cut.jsonl.gz", "bytes.jsonl", "deep.jsonl", "empty.jsonl"} <= {
        uri for uri, _ in by_file
    }


def stored(ending: str) -> bytes:
    """The table as the bytes of a file."""
    sink = io.BytesIO()
    if ending == "parquet":
        pq.write_table(TABLE, sink)
    elif ending == "arrow":
        with pa.ipc.new_file(sink, TABLE.schema) as writer:
            writer.write_table(TABLE)
    else:
        sink.write(LINES)
    return sink.getvalue()


STORED = {ending: stored(ending) for ending in ("parquet", "arrow", "jsonl")}


@given(st.sampled_from(sorted(STORED)), st.data())
def test_a_file_that_is_cut_or_bent_anywhere_gives_passages_and_rejects_and_raises_nothing(ending, data):
    whole = bytearray(STORED[ending])
    offset = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        del whole[offset:]
    else:
        whole[offset] ^= data.draw(st.integers(1, 255))
    for record in read_passages(component(Path("corpus")), MemoryBlob(f"corpus.{ending}", bytes(whole))):
        assert isinstance(record, Passage | Reject)


def test_a_secret_in_the_name_of_a_file_is_scrubbed(tmp_path):
    written(tmp_path / "in/jane.roe@acme-corp.com/a.jsonl", [TEXTS[0], "", TEXTS[0]])
    _, tables, rejects = prepared(tmp_path / "out", component(tmp_path / "in"))
    assert not any(
        "jane.roe" in uri for uri in [*tables["corpus"]["uri"].to_pylist(), *(row["uri"] for row in rejects)]
    )
    assert {row["reason"] for row in rejects} >= {"too_short", "duplicate"}


def test_ids_of_rows_are_scrubbed_as_names_are(tmp_path):
    written(tmp_path / "a.jsonl", [{"text": TEXTS[0], "id": "mail from jane.roe@acme-corp.com"}])
    _, tables, _ = prepared(tmp_path / "out", component(tmp_path, columns={"id": "id"}))
    assert "jane.roe" not in tables["corpus"]["id"][0].as_py()


def test_a_section_without_a_licence_or_with_a_name_that_is_taken_is_refused():
    whole = {"name": "law", "kind": "text", "path": "x", "licence": "MIT"}
    for values, message in (
        ({"licence": None}, "licence"),
        ({"licence": "see the website"}, "licence"),
        ({"name": "web"}, "name"),
        ({"name": "../law"}, "name"),
        ({"columns": {"tools": "tools"}}, "tools"),
        ({"filters": {"GopherQualtyFilter": {}}}, "GopherQualityFilter"),
        ({"language": ["klingon"]}, "klingon"),
    ):
        with pytest.raises(ValueError, match=message):
            Passages.model_validate({**whole, **values})


def test_what_datasets_saved_is_read_and_what_is_written_loads_in_datasets(tmp_path):
    import datasets

    conversations = [[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": text}] for text in TEXTS]
    datasets.disable_progress_bars()
    datasets.Dataset.from_dict({"messages": conversations}).save_to_disk(str(tmp_path / "in"), num_shards=2)
    _, tables, rejects = prepared(tmp_path / "out", component(tmp_path / "in", kind="messages"))
    assert [row["messages"][1]["content"] for row in tables["corpus"].to_pylist()] == TEXTS
    assert rejects == []
    parts = str(tmp_path / "out/passages/corpus/*.parquet")
    loaded = datasets.load_dataset("parquet", data_files=parts, split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded[0]["messages"][1] == {"role": "assistant", "content": TEXTS[0], "loss": True}


MADE_UP = {"kind": "model", "world_model": "m@1", "sampling": "{}"}


@pytest.mark.parametrize("row", [{"reasoning": {"environment": MADE_UP}}, {"environment": MADE_UP}])
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_row_that_a_world_model_answered_is_a_passage_only_where_the_recipe_allows_it(tmp_path, row, ending):
    rows = [{"text": "What the world model made up."} | row, {"text": "What was written by hand."}]
    table = pl.DataFrame(rows)
    path = tmp_path / f"corpus.{ending}"
    table.write_ndjson(path) if ending == "jsonl" else table.write_parquet(path)
    blob = MemoryBlob(path.name, path.read_bytes())
    first, second = read_passages(component(Path("corpus")), blob)
    assert isinstance(first, Reject)
    assert (first.reason, isinstance(second, Reject)) == ("simulated", False)
    allowed = list(read_passages(component(Path("corpus")), blob, simulated=True))
    assert [passage.world_model for passage in allowed if isinstance(passage, Passage)] == ["m@1", None]


@pytest.mark.parametrize(
    "lacking", [{"world_model": "m"}, {"world_model": None}, {"sampling": None}, {"sampling": "["}]
)
def test_a_passage_that_names_no_world_model_whole_is_a_reject_where_some_are_allowed(lacking):
    row = {"text": "What some world model made up.", "environment": MADE_UP | lacking}
    (record,) = read_passages(
        component(Path("corpus")), MemoryBlob("c.jsonl", json.dumps(row).encode()), simulated=True
    )
    assert isinstance(record, Reject)
    assert record.reason == "unstated_world_model"
