"""Cassettes of VCR: conversations with language models, MCP over HTTP, and hostile YAML."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.mcp.vcr_cassette import VcrCassette
from trajmill.connectors.reading.yaml_values import YamlDocument
from trajmill.schemas import ParseError, Trajectory

CHAT = "https://api.openai.com/v1/chat/completions"
MCP = "https://s.example/mcp"


def http(url, asked, told, **more):
    body = told if isinstance(told, str | bytes) else json.dumps(told)
    sent = {"method": "POST", "uri": url, "headers": more.get("sent", {}), "body": json.dumps(asked)}
    status = {"code": more.get("status", 200), "message": ""}
    return {
        "request": sent,
        "response": {"status": status, "headers": more.get("received", {}), "body": {"string": body}},
    }


def tool(key, text):
    return {"role": "tool", "tool_call_id": key, "content": text}


def chat(history, answer):
    return http(CHAT, {"model": "m", "messages": history}, {"choices": [{"message": answer}], "model": "m-1"})


floats = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(max_size=8),
        st.binary(max_size=8),
        floats,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), plain, min_size=1, max_size=4))
def test_yaml_comes_back_as_it_was_dumped(value):
    data = yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True).encode("utf-8", "surrogatepass")
    assert YamlDocument(data, "log").value == yaml.load(data, yaml.CSafeLoader)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: " + "[" * 100_000, "nested_too_deeply"),
        ("a:\n" + "- " * 100_000 + "x", "nested_too_deeply"),
        ("a: &x [*x]", "bad_alias"),
        ("a: !!python/object/apply:os.system [ls]", "bad_tag"),
        ("a: !ruby/object:X {}", "bad_tag"),
        ("a: \0", "bad_yaml"),
        ("- 1", "bad_record"),
        ("a: 1\n---\nb: 2", "bad_record"),
        ("", "bad_record"),
    ],
)
def test_hostile_yaml_is_refused_for_its_reason(text, reason):
    with pytest.raises(ParseError) as raised:
        YamlDocument(text.encode(), "log")
    assert raised.value.reason == reason


def test_bodies_that_say_their_kind_and_lines_of_json_are_read_as_ollama_streams_them() -> None:
    tools = [{"type": "function", "function": {"name": "dip", "parameters": {}}}]
    asked = [{"role": "user", "content": "How deep?"}]
    call = {"function": {"name": "dip", "arguments": {"well": 3}}}
    chunks = [
        {"model": "wren", "message": {"role": "assistant", "content": "I "}, "done": False},
        {"model": "wren", "message": {"role": "assistant", "content": "look."}, "done": False},
        {"model": "wren", "message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False},
        {"model": "wren", "message": {"role": "assistant", "content": ""}, "done": True},
    ]
    said = [{"role": "assistant", "content": "I look.", "tool_calls": [call]}]
    later = [*asked, *said, {"role": "tool", "content": "four metres", "tool_name": "dip"}]
    last = [{"model": "wren", "message": {"role": "assistant", "content": "Four metres."}, "done": True}]
    interactions = [
        {
            "request": {
                "method": "POST",
                "uri": "http://127.0.0.1:11434/api/chat",
                "headers": {},
                "body": {"type": "json", "content": {"model": "wren", "messages": messages, "tools": tools}},
            },
            "response": {
                "status": {"code": 200},
                "headers": {"content-type": ["application/x-ndjson"]},
                "body": {"type": "text", "content": "".join(json.dumps(one) + "\n" for one in answer)},
            },
        }
        for messages, answer in ((asked, chunks), (later, last))
    ]
    data = json.dumps({"interactions": interactions, "version": 1}).encode()
    (made,) = VcrCassette().parse(MemoryBlob("ollama.json", data))
    assert isinstance(made, Trajectory)
    first = made.steps[0]
    assert (first.action.name, first.action.arguments, first.action.message) == ("dip", '{"well": 3}', "I look.")
    assert first.next_observation is not None
    assert first.next_observation.content == "four metres"
