"""Cassettes of VCR: conversations with language models, MCP over HTTP, and hostile YAML."""

import gzip
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connectors.wire_logs import HELLO, INITIALIZE, call, failure, parse, result, seen
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.mcp.vcr_cassette import VcrCassette
from trajmill.connectors.reading.yaml_values import YamlDocument
from trajmill.schemas import ParseError, Trajectory

CHAT = "https://api.openai.com/v1/chat/completions"
MCP = "https://s.example/mcp"
USER = {"role": "user", "content": "do"}


def http(url, asked, told, **more):
    body = told if isinstance(told, str | bytes) else json.dumps(told)
    sent = {"method": "POST", "uri": url, "headers": more.get("sent", {}), "body": json.dumps(asked)}
    status = {"code": more.get("status", 200), "message": ""}
    return {
        "request": sent,
        "response": {"status": status, "headers": more.get("received", {}), "body": {"string": body}},
    }


def cassette(*interactions):
    return yaml.dump({"interactions": list(interactions), "version": 1}, Dumper=yaml.CSafeDumper)


def says(text=None, *calls):
    listed = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": given}} for key, name, given in calls
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": listed} if listed else {})}


def tool(key, text):
    return {"role": "tool", "tool_call_id": key, "content": text}


def chat(history, answer):
    return http(CHAT, {"model": "m", "messages": history}, {"choices": [{"message": answer}], "model": "m-1"})


def test_each_request_repeats_the_history_and_every_call_counts_once():
    first, second = says(None, ("a", "look", "{}")), says("So.", ("b", "walk", '{"to": 1}'))
    talk = [USER, first, tool("a", "seen"), second, tool("b", "gone")]
    text = cassette(chat(talk[:1], first), chat(talk[:3], second), chat(talk, says("Done.")))
    found, rejects, error = parse("vcr_cassette", text)
    assert [seen(one) for one in found] == [[("look", "seen"), ("walk", "gone"), ("message", None)]]
    assert found[0].steps[1].action.message == "So."
    assert found[0].task.instruction == "do"
    assert found[0].agent.model == "m-1"
    assert not rejects
    assert error is None


def test_parallel_calls_are_one_turn_and_their_results_may_come_in_any_order():
    both = says(None, ("a", "look", "{}"), ("b", "look", "{}"))
    found, _, _ = parse("vcr_cassette", cassette(chat([USER, both, tool("b", "2"), tool("a", "1")], says("ok"))))
    assert [(one.turn, one.call_index, one.num_calls) for one in found[0].steps] == [(0, 0, 2), (0, 1, 2), (1, 0, 1)]
    assert [text for _, text in seen(found[0])] == ["1", "2", None]
    assert found[0].steps[2].observation == found[0].steps[1].next_observation


def test_repeated_ids_are_paired_in_order():
    talk = [USER, says(None, ("x", "look", "{}")), tool("x", "1"), says(None, ("x", "look", "{}")), tool("x", "2")]
    found, _, _ = parse("vcr_cassette", cassette(chat(talk, says("ok"))))
    assert [text for _, text in seen(found[0])] == ["1", "2", None]


def test_a_result_reaches_back_over_a_turn_only_by_an_id_that_no_other_call_has():
    talk = [
        USER,
        says(None, ("a", "look", "{}")),
        USER,
        says(None, ("b", "walk", "{}")),
        tool("b", "2"),
        tool("a", "1"),
    ]
    found, rejects, _ = parse("vcr_cassette", cassette(chat(talk, says("ok"))))
    assert [text for _, text in seen(found[0])] == ["1", "2", None]
    assert not rejects
    talk = [USER, says(None, ("x", "look", "{}")), USER, says(None, ("x", "walk", "{}")), tool("x", "2")]
    found, rejects, _ = parse("vcr_cassette", cassette(chat(talk, says("ok"))))
    assert seen(found[0]) == [("look", None), ("walk", "2"), ("message", None)]
    assert not rejects


def test_a_result_without_an_id_never_answers_a_call_of_an_earlier_turn():
    def said(name):
        return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]}

    back = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"result": "2"}}}]}
    talk = [
        {"parts": [{"text": "do"}]},
        said("look"),
        {"role": "user", "parts": [{"text": "again"}]},
        said("look"),
        back,
    ]
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}}]}
    url = "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent"
    found, _, _ = parse("vcr_cassette", cassette(http(url, {"contents": talk}, answer)))
    assert seen(found[0]) == [("look", None), ("look", "2"), ("message", None)]


def test_messages_of_bedrock_are_read_with_their_status():
    use = {
        "role": "assistant",
        "content": [{"text": "So."}, {"toolUse": {"toolUseId": "u", "name": "look", "input": {}}}],
    }
    back = {"toolResult": {"toolUseId": "u", "content": [{"text": "dark"}], "status": "error"}}
    asked = {"messages": [{"role": "user", "content": [{"text": "do"}]}], "toolConfig": {"tools": [{"toolSpec": {}}]}}
    later = {"messages": [*asked["messages"], use, {"role": "user", "content": [back]}]}
    url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse"
    end = {"output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}}}
    text = cassette(http(url, asked, {"output": {"message": use}}), http(url, later, end))
    found, rejects, _ = parse("vcr_cassette", text)
    assert [seen(one) for one in found] == [[("look", "dark"), ("message", None)]]
    assert found[0].steps[0].next_observation is not None
    assert found[0].steps[0].next_observation.is_error
    assert found[0].context.action_space == '[{"toolSpec": {}}]'
    assert not rejects


def test_two_rollouts_of_one_request_are_two_trajectories():
    runs = [[USER, says(None, (key, "look", "{}")), tool(key, "seen")] for key in ("a", "b")]
    text = cassette(
        *(one for run in runs for one in (chat(run[:1], run[1]), chat(run, says("ok " + run[2]["tool_call_id"]))))
    )
    found, rejects, _ = parse("vcr_cassette", text)
    assert [seen(one)[0] for one in found] == [("look", "seen")] * 2
    assert [one.parent for one in found] == [None, None]
    assert not rejects


def test_another_answer_to_the_same_history_is_no_new_transition():
    talk = [USER, says(None, ("a", "look", "{}")), tool("a", "seen")]
    found, rejects, _ = parse("vcr_cassette", cassette(chat(talk, says("one")), chat(talk, says("two"))))
    assert len(found) == 1
    assert [one.reason for one in rejects] == ["branch_without_answer"]


def test_what_the_agent_says_never_becomes_an_observation():
    talk = [
        USER,
        says("My own words.", ("a", "look", "{}")),
        tool("a", "seen"),
        says("Mine too."),
        {"role": "user", "content": "And?"},
    ]
    found, _, _ = parse("vcr_cassette", cassette(chat(talk, says("Last."))))
    shown = [one.next_observation for one in found[0].steps]
    assert [(one.content, one.origin) if one else None for one in shown] == [
        ("seen", "environment"),
        ("And?", "user"),
        None,
    ]


def test_arguments_that_are_no_json_object_stand_as_they_were_written():
    talk = [
        USER,
        says(None, ("a", "look", '{"x": '), ("b", "look", ""), ("c", "look", "[1]")),
        *(tool(k, k) for k in "abc"),
    ]
    steps = parse("vcr_cassette", cassette(chat(talk, says("ok"))))[0][0].steps
    assert [one.action.arguments for one in steps[:3]] == ['{"arguments": "{\\"x\\": "}', None, '{"arguments": [1]}']


def test_a_call_on_the_wire_and_in_the_conversation_counts_once():
    made = says(None, ("k", "s_look", '{"b": 1, "a": 2}'))
    wire = [http(MCP, INITIALIZE, HELLO), http(MCP, call(1, a=2, b=1), result(1, "seen"))]
    found, rejects, _ = parse(
        "vcr_cassette", cassette(chat([USER], made), *wire, chat([USER, made, tool("k", "seen")], says("ok")))
    )
    assert [one.native_id for one in found] == ["conversation/0"]
    assert (found[0].environment.id, found[0].environment.version) == ("s", "2")
    assert [(one.reason, one.transitions) for one in rejects] == [("in_conversation", 1)]


def test_a_call_on_the_wire_with_another_result_stays_a_session():
    made = says(None, ("k", "look", "{}"))
    wire = [http(MCP, INITIALIZE, HELLO), http(MCP, call(1), result(1, "other"))]
    found, _, _ = parse(
        "vcr_cassette", cassette(chat([USER], made), *wire, chat([USER, made, tool("k", "seen")], says("ok")))
    )
    assert [seen(one)[0] for one in found] == [("look", "seen"), ("look", "other")]


def test_sessions_with_ids_run_side_by_side():
    def session(key, text):
        told = http(MCP, INITIALIZE, HELLO, received={"Mcp-Session-Id": [key]})
        return told, http(
            MCP,
            call(1),
            f"event: message\r\ndata: {json.dumps(result(1, text))}\r\n\r\n",
            sent={"mcp-session-id": [key]},
        )

    (one, one_call), (two, two_call) = session("A", "a"), session("B", "b")
    found, _, _ = parse("vcr_cassette", cassette(one, two, one_call, two_call))
    assert [(found_one.native_id, seen(found_one)) for found_one in found] == [
        ("A/0", [("look", "a")]),
        ("B/0", [("look", "b")]),
    ]


@pytest.mark.parametrize(("status", "body"), [(404, "Not Found"), (500, ""), (502, "<html>"), (404, {"error": "no"})])
def test_a_call_that_http_refused_ends_its_turn(status, body):
    calls = [http(MCP, call(1), result(1, "a")), http(MCP, call(2), body, status=status)]
    calls += [http(MCP, call(3), result(3, "c")), http(MCP, call(4), result(4, "d"))]
    found, rejects, _ = parse("vcr_cassette", cassette(http(MCP, INITIALIZE, HELLO), *calls))
    assert seen(found[0]) == [("look", "a"), ("look", None), ("look", "c"), ("look", "d")]
    assert [(one.turn, one.num_calls) for one in found[0].steps] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert [one.observation and one.observation.content for one in found[0].steps] == [None, "a", "a", "c"]
    assert not rejects


def test_an_error_that_comes_with_a_failure_of_http_answers_its_request_whatever_its_id():
    told = {"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "Session not found"}}
    calls = [http(MCP, call(1), result(1, "a")), http(MCP, call(2), told, status=404)]
    found, rejects, _ = parse("vcr_cassette", cassette(http(MCP, INITIALIZE, HELLO), *calls))
    assert [one.next_observation and one.next_observation.is_error for one in found[0].steps] == [False, True]
    assert not rejects


def test_embeddings_and_failed_requests_begin_no_conversation():
    text = cassette(
        http("https://api.openai.com/v1/embeddings", {"model": "e", "input": "do"}, {"data": []}),
        http(CHAT, {"model": "m", "messages": [USER]}, {"error": {}}, status=429),
        http("https://hooks.example/x", {"messages": ["do"]}, {}),
    )
    found, rejects, _ = parse("vcr_cassette", text)
    assert not found
    assert not rejects
    assert failure("vcr_cassette", text).reason == "no_transitions"


def test_a_compressed_body_is_unpacked_and_a_damaged_one_rejected_with_its_place():
    talk = {"model": "m", "messages": [USER, says(None, ("a", "look", "{}")), tool("a", "seen")]}
    packed = gzip.compress(json.dumps({"choices": [{"message": says("ok")}]}).encode(), mtime=0)
    found, _, _ = parse("vcr_cassette", cassette(http(CHAT, talk, packed)))
    assert seen(found[0]) == [("look", "seen"), ("message", None)]
    text = cassette(http(CHAT, talk, packed), http(CHAT, talk, packed[:-12]))
    _, rejects, _ = parse("vcr_cassette", text)
    place = [one.offset for one in rejects if one.reason == "bad_body"]
    assert [text[at:].startswith("request:") for at in place] == [True]


def test_places_in_yaml_are_bytes_not_characters():
    text = "é: ü\ninteractions:\n- request: {uri: ñ}\n- b: 2\n"
    document = YamlDocument(text.encode(), "log")
    assert [text.encode()[at : at + 2] for at in document.places["interactions"]] == [b"re", b"b:"]


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


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=5), plain, min_size=1, max_size=4))
def test_yaml_comes_back_as_it_was_dumped(value):
    data = yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True).encode("utf-8", "surrogatepass")
    assert YamlDocument(data, "log").value == yaml.load(data, yaml.CSafeLoader)


@pytest.mark.parametrize("mark", ["!", "!!"])
def test_ruby_s_single_exclamation_mark_names_the_same_types_and_no_others(mark):
    text = f"a: {mark}binary Z3LDvG4=\nb: {mark}str 1\nc: {mark}float 1\nd: {mark}seq [{mark}map {{e: {mark}null x}}]"
    value = {"a": "grün".encode(), "b": "1", "c": 1.0, "d": [{"e": None}]}
    assert YamlDocument(text.encode(), "log").value == value
    with pytest.raises(ParseError, match="ruby/object"):
        YamlDocument(f"a: {mark}ruby/object:X {{}}".encode(), "log")


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


def test_an_alias_stands_for_what_it_names():
    document = YamlDocument(b"a: &x {b: [1, 2]}\nc: *x\nd: [*x, *x]\n", "log")
    assert document.value["d"] == [{"b": [1, 2]}] * 2 == [document.value["c"]] * 2


def test_aliases_of_aliases_are_refused_before_they_cost_anything():
    text = "a0: &a0 [" + "xxxxxxxxx," * 100 + "]\n"
    text += "".join(f"a{n}: &a{n} [" + f"*a{n - 1}," * 100 + "]\n" for n in range(1, 30))
    with pytest.raises(ParseError) as raised:
        YamlDocument(text.encode(), "log")
    assert raised.value.reason == "alias_bomb"


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
