"""Rows of published data sets are read without a recipe, and give the same whatever file holds them."""

import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajmill
from tests.data_sets import DATA_SETS, DataSet
from trajmill.connectors.connector import HEAD_BYTES, MemoryBlob
from trajmill.connectors.registry import sniff
from trajmill.schemas import MESSAGE, ParseError, Reject, Step, Trajectory

Rows = list[dict[str, Any]]


def jsonl(rows: Rows) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def table_of(rows: Rows) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])


def with_nulls(rows: Rows) -> bytes:
    """JSON Lines as tables are exported to them, each field of each struct is there, and the columns turned round."""
    return jsonl([{name: row[name] for name in reversed(row)} for row in table_of(rows).to_pylist()])


def parquet(rows: Rows) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table_of(rows), stream)
    return stream.getvalue()


def arrow(rows: Rows, new: Callable[..., Any]) -> bytes:
    table, stream = table_of(rows), io.BytesIO()
    with new(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


FILES: dict[str, Callable[[Rows], bytes]] = {
    "lines with nulls": with_nulls,
    "array": lambda rows: json.dumps(rows).encode(),
    "parquet": parquet,
    "arrow stream": partial(arrow, new=pa.ipc.new_stream),
    "arrow file": partial(arrow, new=pa.ipc.new_file),
}


def read(data: bytes) -> tuple[str, list[Trajectory | str]]:
    """The connector that takes the file, and its trajectories, and reasons in the place of rejects."""
    taker = sniff(data[:HEAD_BYTES], "rows", longer=lambda: data)[0][0]
    records: list[Trajectory | str] = []
    try:
        for record in taker.parse(MemoryBlob("rows", data)):
            records += [record.reason if isinstance(record, Reject) else record]
    except ParseError as error:
        records.append(error.reason)
    return taker.name, records


def steps(records: list[Trajectory | str]) -> Iterator[Step]:
    for record in records:
        yield from record.steps if isinstance(record, Trajectory) else ()


def contents(records: list[Trajectory | str]) -> list[str]:
    """What was read, but for the place in the file; a column of numbers with a fraction has no whole ones."""
    bare = [
        replace(record, steps=[replace(step, offset=0) for step in record.steps])
        if isinstance(record, Trajectory)
        else record
        for record in records
    ]
    return [re.sub(r"(?<=\d)\.0\b", "", repr(record)) for record in bare]


LISTS = ("messages", "conversations", "trajectory", "prompt", "completion", "content", "traces", "trace", "tools")

by_data_set = pytest.mark.parametrize("data_set", DATA_SETS, ids=lambda data_set: data_set.name)


@by_data_set
def test_the_calls_and_answers_of_a_data_set_are_those_that_its_rows_hold(data_set: DataSet) -> None:
    taker, records = read(jsonl(data_set.rows))
    assert taker == data_set.connector
    if data_set.reason:
        assert data_set.reason in records
        return
    assert not [record for record in records if isinstance(record, str)]
    calls = [step for step in steps(records) if step.action.name != MESSAGE]
    assert len(calls) == data_set.calls
    assert sum(step.next_observation is not None for step in calls) == data_set.answers


@by_data_set
@pytest.mark.parametrize("kind", FILES)
def test_the_same_rows_give_the_same_in_every_file(data_set: DataSet, kind: str) -> None:
    _, expected = read(jsonl(data_set.rows))
    taker, records = read(FILES[kind](data_set.rows))
    assert taker == ("table" if kind in ("parquet", "arrow stream", "arrow file") else data_set.connector)
    assert contents(records) == contents(expected)


@pytest.mark.parametrize("data_set", [entry for entry in DATA_SETS if entry.calls], ids=lambda data_set: data_set.name)
def test_columns_of_lists_may_be_json_text(data_set: DataSet) -> None:
    texts = [
        {name: json.dumps(value) if isinstance(value, list) and name in LISTS else value for name, value in row.items()}
        for row in data_set.rows
    ]
    assert contents(read(jsonl(texts))[1]) == contents(read(jsonl(data_set.rows))[1])


def test_json_cells_of_a_table_are_what_their_texts_say_at_any_level() -> None:
    calls = [{"id": "c1", "function": {"name": "look", "arguments": {"bed": 2, "row": None}}}]
    messages: Rows = [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": "[1]", "tool_calls": None},
    ]
    rows = [{"messages": messages, "tools": [{"name": "look"}]}]
    called = pa.array(
        [message["tool_calls"] and json.dumps(message["tool_calls"]) for message in messages], pa.string()
    )
    columns = {name: pa.array([message[name] for message in messages], pa.string()) for name in ("role", "content")}
    columns["tool_calls"] = pa.ExtensionArray.from_storage(pa.json_(), called)
    listed = pa.ListArray.from_arrays([0, 2], pa.StructArray.from_arrays(list(columns.values()), list(columns)))
    tools = pa.ExtensionArray.from_storage(pa.json_(), pa.array([json.dumps(rows[0]["tools"])]))
    stream = io.BytesIO()
    pq.write_table(pa.table({"messages": listed, "tools": tools}), stream)
    _, records = read(stream.getvalue())
    assert contents(records) == contents(read(jsonl(rows))[1])
    (step,) = steps(records)
    assert step.action.arguments == '{"bed": 2, "row": null}'
    assert step.next_observation is not None
    assert step.next_observation.content == "[1]"


def test_what_save_to_disk_left_is_one_table(tmp_path) -> None:
    rows = DATA_SETS[0].rows
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "data-00000-of-00001.arrow").write_bytes(arrow(rows, pa.ipc.new_stream))
    (raw / "dataset_info.json").write_text(json.dumps({"license": "mit"}))
    (raw / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    trajmill.run("swe", raw, tmp_path / "out", last_stage="normalize")
    table = trajmill.scan_transitions(tmp_path / "out").collect()
    assert table["action"].struct.field("name").to_list() == ["bash", "bash"]


TALK: dict[str, Rows] = {
    "messages": [{"role": "user", "content": "Good day. " * 20}, {"role": "assistant", "content": "Good day."}]
}
CALLED: dict[str, Rows] = {
    "messages": [
        {"role": "user", "content": "How is bed 2?"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "dry"},
    ]
}


@pytest.mark.parametrize(
    "data",
    [
        jsonl([TALK] * 1000 + [CALLED]),
        jsonl(TALK["messages"] * 1000 + CALLED["messages"]),
        jsonl([{"messages": TALK["messages"] * 1000 + CALLED["messages"]}] * 2),
        json.dumps({"messages": TALK["messages"] * 1000 + CALLED["messages"]}, indent=1).encode(),
        parquet([TALK] * 1000 + [CALLED]),
    ],
    ids=["rows", "messages", "a long row", "a document", "a table"],
)
def test_a_file_is_read_of_which_the_first_64_kib_hold_no_call(data: bytes) -> None:
    assert not any(mark in data[:HEAD_BYTES] for mark in (b"tool_calls", b"look")) or data.startswith(b"PAR1")
    _, records = read(data)
    calls = [step for step in steps(records) if step.action.name == "look"]
    assert [step.next_observation and step.next_observation.content for step in calls][:1] == ["dry"]


def test_talk_alone_is_no_log_however_long_it_is_and_what_it_mentions() -> None:
    data = jsonl([TALK, {"messages": [{"role": "user", "content": "What is a tool_call?"}]}] * 2000)
    assert sniff(data[:HEAD_BYTES], "rows.jsonl", longer=lambda: data) == []
