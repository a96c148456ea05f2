"""Cassettes of VCR: conversations with language models, MCP over HTTP, and hostile YAML."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.wire_logs import seen
from tests.rows import split_records
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.mcp.vcr_cassette import VcrCassette
from trajmill.connectors.reading.yaml_values import YamlDocument
from trajmill.schemas import ParseError, Trajectory

CHAT = "https://api.openai.com/v1/chat/completions"
MCP = "https://s.example/mcp"


def http(url, asked, answer, **more):
    body = answer if isinstance(answer, str | bytes) else json.dumps(answer)
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
    reply = [{"role": "assistant", "content": "I look.", "tool_calls": [call]}]
    later = [*asked, *reply, {"role": "tool", "content": "four metres", "tool_name": "dip"}]
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
                "body": {"type": "text", "content": "".join(json.dumps(part) + "\n" for part in answer)},
            },
        }
        for messages, answer in ((asked, chunks), (later, last))
    ]
    data = json.dumps({"interactions": interactions, "version": 1}).encode()
    (trajectory,) = VcrCassette().parse(MemoryBlob("ollama.json", data))
    assert isinstance(trajectory, Trajectory)
    first = trajectory.steps[0]
    assert (first.action.name, first.action.arguments, first.action.message) == ("dip", '{"well": 3}', "I look.")
    assert first.next_observation is not None
    assert first.next_observation.content == "four metres"


LOOK = {"id": "k", "type": "function", "function": {"name": "look", "arguments": '{"bed": 2}'}}
ASKED = [{"role": "user", "content": "How is bed 2?"}]
CALLED = {"role": "assistant", "content": "I look.", "tool_calls": [LOOK]}
SAID = {"role": "assistant", "content": "Dry."}
HISTORY = [*ASKED, CALLED, tool("k", "dry")]


def sampled(*exchanges):
    """What stands as sampled on each step of the one conversation that the exchanges are."""
    data = json.dumps({"interactions": exchanges, "version": 1}).encode()
    (made,) = VcrCassette().parse(MemoryBlob("cassette.json", data))
    assert isinstance(made, Trajectory)
    return [None if step.action.sampled is None else json.loads(step.action.sampled) for step in made.steps]


def choice(message, **beside):
    return {"choices": [{"index": 0, "message": message, **beside}], "prompt_token_ids": [1, 2]}


def logprobs(*pairs):
    return {"content": [{"token": token, "logprob": logprob, "top_logprobs": []} for token, logprob in pairs]}


def test_token_ids_that_servers_put_beside_their_answers_are_kept_with_log_probabilities():
    ids, pairs = [31, 7, 2], [("I", -0.25), (" look", -1.5), ("<e>", 0.0)]
    rows = [[logprob, token_id, token] for (token, logprob), token_id in zip(pairs, ids, strict=True)]
    printed = [(f"token_id:{token_id}", logprob) for (_, logprob), token_id in zip(pairs, ids, strict=True)]
    last = http(CHAT, {"messages": HISTORY}, choice(SAID, token_ids=[8, 2]))
    for beside in (
        {"token_ids": ids, "logprobs": logprobs(*pairs)},
        {"provider_specific_fields": {"token_ids": ids}, "logprobs": logprobs(*pairs)},
        {"meta_info": {"output_token_logprobs": rows}},
        {"logprobs": logprobs(*printed)},
    ):
        assert sampled(http(CHAT, {"messages": ASKED}, choice(CALLED, **beside)), last) == [
            {"token_ids": ids, "logprobs": [-0.25, -1.5, 0.0]},
            {"token_ids": [8, 2], "logprobs": None},
        ], beside


@pytest.mark.parametrize(
    "beside",
    [
        {"token_ids": [3, -1]},
        {"token_ids": {"0": 3}},
        {"token_ids": [2**40], "logprobs": logprobs(("token_id:3", -1.0))},
        {"logprobs": logprobs(("token_id:3", -1.0), ("x", -1.0))},
        {"logprobs": [3], "provider_specific_fields": 3, "meta_info": 3},
        {"meta_info": {"output_token_logprobs": [[-1.0, 3], [-1.0]]}},
        {"meta_info": {"output_token_logprobs": [[-1.0, "3", "x"]]}},
        {"meta_info": {"output_token_logprobs": {"a": 1}}},
    ],
)
def test_what_is_no_list_of_token_ids_is_left_out(beside):
    first = http(CHAT, {"messages": ASKED}, choice(CALLED, **beside))
    assert sampled(first, http(CHAT, {"messages": HISTORY}, choice(SAID))) == [None, None]


def stream(*deltas):
    """A streamed answer of vLLM: (delta, token ids) of each chunk."""
    chunks = [
        {"choices": [{"index": 0, "delta": delta, **({} if ids is None else {"token_ids": ids})}]}
        for delta, ids in deltas
    ]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def test_token_ids_of_a_stream_are_put_together_unless_a_piece_has_none():
    call = {"tool_calls": [{"index": 0, **LOOK}]}
    role = ({"role": "assistant", "content": ""}, None)
    last = http(CHAT, {"messages": HISTORY}, choice(SAID))
    whole = http(CHAT, {"messages": ASKED}, stream(role, ({"content": "I look."}, [31, 7]), (call, [2])))
    assert sampled(whole, last) == [{"token_ids": [31, 7, 2], "logprobs": None}, None]
    holed = http(CHAT, {"messages": ASKED}, stream(role, ({"content": "I look."}, None), (call, [2])))
    assert sampled(holed, last) == [None, None]


def test_a_branch_keeps_the_token_ids_of_what_it_shares():
    exchanges = [http(CHAT, {"messages": ASKED}, choice(CALLED, token_ids=[31, 2]))]
    for bed in (3, 4):
        call = {"id": f"k{bed}", "type": "function", "function": {"name": "look", "arguments": f'{{"bed": {bed}}}'}}
        also = {"role": "assistant", "content": None, "tool_calls": [call]}
        exchanges.append(http(CHAT, {"messages": HISTORY}, choice(also, token_ids=[bed])))
        exchanges.append(http(CHAT, {"messages": [*HISTORY, also, tool(f"k{bed}", "wet")]}, choice(SAID)))
    data = json.dumps({"interactions": exchanges, "version": 1}).encode()
    trajectories = [
        trajectory
        for trajectory in VcrCassette().parse(MemoryBlob("cassette.json", data))
        if isinstance(trajectory, Trajectory)
    ]
    assert [trajectory.relation for trajectory in trajectories] == [None, "branch"]
    for bed, trajectory in zip((3, 4), trajectories, strict=True):
        ids = [json.loads(step.action.sampled or "{}").get("token_ids") for step in trajectory.steps]
        assert ids == [[31, 2], [bed], None]


def read_trajectories(*interactions):
    blob = MemoryBlob("log", yaml.safe_dump({"interactions": list(interactions), "version": 1}).encode())
    trajectories, rejects = split_records(list(VcrCassette().parse(blob)))
    assert not rejects
    return trajectories


def read_all(*interactions):
    return [seen(trajectory) for trajectory in read_trajectories(*interactions)]


def test_a_conversation_that_the_api_keeps_goes_on_by_its_name():
    url = "https://api.openai.com/v1/responses"
    call = {"type": "function_call", "call_id": "c", "name": "dip", "arguments": "{}", "id": "f"}
    answer = {"type": "function_call_output", "call_id": "c", "output": "four metres"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Four."}]}
    later = {**said, "content": [{"type": "output_text", "text": "Bye."}]}
    kept = {"model": "m", "conversation": "conv_1"}
    assert read_all(
        http(url, {**kept, "input": "How deep?"}, {"object": "response", "id": "r1", "output": [call]}),
        http(url, {**kept, "input": [answer]}, {"object": "response", "id": "r2", "output": [said]}),
        http(url, {**kept, "input": "Thanks."}, {"object": "response", "id": "r3", "output": [later]}),
    ) == [[("dip", "four metres"), ("message", "Thanks."), ("message", None)]]


def test_empty_members_beside_a_call_are_no_calls():
    empty = {"function_call": {"name": "", "arguments": ""}, "refusal": ""}
    function = {"name": "dip", "arguments": "{}"}
    call = {"id": "c", "type": "function", "function": function, "custom": {"name": "", "input": ""}}
    asked = [{"role": "user", "content": "How deep?"}]
    later = [*asked, {"role": "assistant", "content": None, "tool_calls": [{**call, "custom": None}]}]
    assert read_all(
        chat(asked, {"role": "assistant", "content": "", "tool_calls": [call], **empty}),
        chat([*later, tool("c", "four metres")], {"role": "assistant", "content": "Four.", **empty}),
    ) == [[("dip", "four metres"), ("message", None)]]


def test_a_search_that_gemini_makes_itself_is_a_call_whose_answer_is_not_in_the_log():
    url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3:generateContent"
    user = {"role": "user", "parts": [{"text": "How deep?"}]}
    widget = {"search_suggestions": "<div>chips</div>"}
    search = {"toolCall": {"id": "s", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["wells"]}}}
    found = {"toolResponse": {"id": "s", "toolType": "GOOGLE_SEARCH_WEB", "response": widget}}
    asked = {"functionCall": {"id": "c", "name": "dip", "args": {}}}
    said = {"role": "model", "parts": [search, found, asked]}
    answer = {"functionResponse": {"id": "c", "name": "dip", "response": {"result": "four metres"}}}
    last = {"role": "model", "parts": [{"text": "Four."}]}
    assert read_all(
        http(url, {"contents": [user]}, {"candidates": [{"content": said}]}),
        http(url, {"contents": [user, said, {"role": "user", "parts": [answer]}]}, {"candidates": [{"content": last}]}),
    ) == [[("google_search_web", None), ("dip", "four metres"), ("message", None)]]


@pytest.mark.parametrize("kept", [True, False])
def test_a_summary_that_anthropic_makes_stands_before_the_call_it_precedes(kept):
    url = "https://api.anthropic.com/v1/messages"
    user = {"role": "user", "content": "How deep?"}
    summary = {"type": "compaction", "content": "They asked for a depth."}
    said = {"role": "assistant", "content": [summary, {"type": "tool_use", "id": "c", "name": "dip", "input": {}}]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "four metres"}]}
    last = {"role": "assistant", "content": [{"type": "text", "text": "Four."}]}
    history = [user, said, answer] if kept else [said, answer]
    asked = http(url, {"model": "m", "messages": [user]}, said)
    (trajectory,) = read_trajectories(asked, http(url, {"model": "m", "messages": history}, last))
    assert seen(trajectory) == [("dip", "four metres"), ("message", None)]
    assert trajectory.task.instruction == "How deep?"
    assert json.loads(trajectory.steps[0].interleaved or "") == [
        {"role": "compaction", "content": "They asked for a depth."}
    ]
