"""The benchmark is named, refused as raw input, and read whole for evaluation and decontamination."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from trajmill.connectors.connector import HEAD_BYTES, MemoryBlob
from trajmill.connectors.published.agentworldbench import items
from trajmill.connectors.registry import sniff
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import ParseError, Reject

FILE = ROOT / "tests" / "fixtures" / "agentworldbench" / "input" / "terminal_test.jsonl"
SAMPLE = {
    "task": "mcp", "id": 1, "prompt": ["a", "b", "c"], "response": ["A", "B", "C"], "current_prompt": "b",
    "system_str": "S", "turn_idx": 2, "total_turns": 3,
}  # fmt: skip


def test_in_a_run_the_file_is_named_and_nothing_of_it_is_taken_in():
    recipe = Recipe(name="t", source="t")
    plan = make_plan(recipe, [str(FILE)])
    assert [one.connector for one in plan.inputs] == ["agentworldbench"]
    assert {made.reason for made, _ in read_input(plan.inputs[0], recipe) if isinstance(made, Reject)} == {"benchmark"}


@pytest.mark.parametrize("first", ["prompt", "response", "system_str"])
def test_a_sample_longer_than_what_is_sniffed_is_known_by_how_it_begins(first):
    long = {"prompt": ["### Turn 1", "x" * 100_000], "response": ["y" * 100_000], "system_str": "z" * 100_000}
    sample = {"task": "mcp", "id": 1, "prompt": ["### Turn 1"], first: long[first], **SAMPLE}
    sample.update({"prompt": ["### Turn 1"], first: long[first]})
    head = json.dumps(sample).encode()[:HEAD_BYTES]
    assert [one.name for one, _ in sniff(head, "mcp_test.jsonl")] == ["agentworldbench"]


def test_a_prompt_that_stands_apart_and_bare_texts_are_taken_in_too():
    sample = {**SAMPLE, "task": "lwm/os", "prompt": "a", "response": "A", "current_prompt": "now", "turn_idx": 1}
    one = next(items(MemoryBlob("x", json.dumps(sample).encode())))
    assert (one.domain, one.prompts, one.responses) == ("os", ("a", "now"), ("A",))


def test_items_of_parquet_are_those_of_json_lines():
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([SAMPLE, {**SAMPLE, "id": 2}]), stream)
    found = list(items(MemoryBlob("test.parquet", stream.getvalue())))
    assert [(one.id, one.texts, one.place) for one in found] == [
        ("1", ("a", "b", "c", "A", "B", "C"), 0),
        ("2", ("a", "b", "c", "A", "B", "C"), 1),
    ]


@pytest.mark.parametrize("data", [b'{"task": "mcp"}\n', json.dumps(SAMPLE).encode() + b"\n{cut", b"[1]"])
def test_a_file_that_is_not_wholly_the_benchmark_is_no_list_of_what_to_hold_out(data):
    with pytest.raises(ParseError):
        list(items(MemoryBlob("x", data)))
