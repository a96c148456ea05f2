"""What the benchmark of the parsers takes for the work of a plain decoder."""

from __future__ import annotations

import ast
import json

from benchmarks.inner import texts_read
from benchmarks.parsers import parse
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector


def test_texts_that_a_connector_decodes_within_a_log_are_named_and_its_lines_are_not() -> None:
    call = {"type": "function", "id": "c1", "function": {"name": "find", "arguments": '{"name": "mill"}'}}
    answer = {"role": "tool", "tool_call_id": "c1", "content": '{"found": [1, 2]}'}
    said = [{"role": "user", "content": "Find it."}, {"role": "assistant", "tool_calls": [call]}, answer]
    log = b"".join(json.dumps({"id": number, "messages": said}).encode() + b"\n" for number in range(2))
    with texts_read([log]) as texts:
        assert parse(connector("chat_tools"), [MemoryBlob("rows.jsonl", log)]) == 2
    assert [text for text, _ in texts] == ['{"name": "mill"}', '{"found": [1, 2]}']
    assert [decode(text) for text, decode in texts] == [{"name": "mill"}, {"found": [1, 2]}]


def test_python_literals_are_named_with_their_own_decoder_and_numbers_are_not() -> None:
    with texts_read([]) as texts:
        ast.literal_eval("{'a': 1}")
        json.loads("17")
    assert texts == [("{'a': 1}", ast.literal_eval)]


def test_the_readers_are_themselves_again_after_the_texts_are_read() -> None:
    readers = json.loads, ast.literal_eval
    with texts_read([]):
        assert (json.loads, ast.literal_eval) != readers
    assert (json.loads, ast.literal_eval) == readers
