"""Files of chat messages: which are claimed, how lines and documents are told apart, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.connectors.wire_logs import after, parse
from trajmill.connectors.apis.chat_tools import ChatTools
from trajmill.connectors.connector import HEAD_BYTES, MemoryBlob
from trajmill.connectors.registry import sniff
from trajmill.schemas import ParseError, Reject, Trajectory

CONNECTOR = ChatTools()


def call(name: str = "f", **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}


TALK = [{"role": "user", "content": "Go."}, call(), {"role": "tool", "tool_call_id": "1", "content": "done"}]


def parsed(data: bytes) -> tuple[list[Trajectory], list[tuple[str, int]]]:
    """The trajectories, and (reason, offset) of each reject; a `ParseError` is the last of them."""
    found: list[Trajectory] = []
    rejects: list[tuple[str, int]] = []
    try:
        for one in CONNECTOR.parse(MemoryBlob("log", data)):
            if isinstance(one, Reject):
                rejects.append((one.reason, one.offset))
            else:
                found.append(one)
    except ParseError as error:
        rejects.append((error.reason, error.offset))
    return found, rejects


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


@pytest.mark.parametrize(
    "value",
    [
        TALK,
        {"messages": TALK},
        [{"messages": TALK}],
        {"messages": json.dumps(TALK)},
        {"rows": [{"row_idx": 0, "row": {"messages": TALK}}]},
        {"prompt": TALK[:1], "completion": TALK[1:]},
        {"input": "Go.", "output": [{"type": "web_search_call", "id": "w", "action": {"query": "x"}}]},
    ],
)
def test_a_conversation_is_found_in_whatever_holds_it(value):
    for data in (json.dumps(value).encode(), json.dumps(value, indent=2).encode(), b"\xef\xbb\xbf" + lines(value)):
        found, rejects = parsed(data)
        assert [len(one.steps) for one in found] == [1]
        assert rejects == []
        sniffed = CONNECTOR.sniff(data[:HEAD_BYTES], "log.json")
        assert sniffed is not None


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]},
        {"type": "user", "message": {"role": "user", "content": "x"}, "sessionId": "s", "parentUuid": None},
        {"history": TALK, "trajectory": [], "info": {}},
        {"messages": [{"role": "exit", "content": "x"}, *TALK]},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f", "arguments": {}}},
        [],
        {},
        [[1, 2]],
    ],
)
def test_what_holds_no_conversation_with_calls_is_not_claimed(value):
    assert CONNECTOR.sniff(json.dumps(value).encode(), "log.json") is None
    assert CONNECTOR.sniff(lines(value, value), "log.jsonl") is None


@pytest.mark.parametrize("depth", [120, 300, 900, 1100, 100_000])
def test_deep_json_is_refused_and_never_overflows(depth):
    value = '{"a":' * depth + "1" + "}" * depth
    for text in (
        f'[{{"role":"assistant","tool_calls":[{{"name":"f","arguments":{value}}}]}}]',
        f'{{"messages":[{{"role":"assistant","tool_calls":[{{"name":"f"}}]}}],"tools":{value}}}',
        f'[{{"role":"assistant","tool_calls":[{{"name":"f"}}]}},{{"role":"tool","content":{value}}}]',
    ):
        found, rejects = parsed(text.encode())
        assert bool(found) == (depth == 120)
        assert {reason for reason, _ in rejects} <= {"nested_too_deeply", "bad_json", "no_transitions", "truncated"}


@pytest.mark.parametrize("junk", [{}, [], None, 0, "\ud800", [{"type": {}}], {"role": []}])
@pytest.mark.parametrize(
    "place", ["role", "content", "tool_calls", "tool_call_id", "name", "type", "timestamp", "parts"]
)
def test_a_field_of_another_type_is_refused_or_read_but_never_breaks(place, junk):
    for number in range(len(TALK)):
        messages = [dict(message) for message in TALK]
        messages[number][place] = junk
        data = json.dumps({"messages": messages}).encode()
        CONNECTOR.sniff(data, "log.json")
        found, rejects = parsed(data)
        assert found or rejects


def test_messages_whose_last_one_is_cut_by_the_head_are_recognized():
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    asked = json.dumps({"role": "assistant", "content": None, "tool_calls": [call]})
    told = json.dumps({"role": "tool", "tool_call_id": "c", "content": "x" * HEAD_BYTES})
    assert CONNECTOR.sniff(f"{asked}\n{told}\n".encode()[:HEAD_BYTES], "log.jsonl") is not None


def test_tools_that_a_search_finds_stand_beside_those_of_the_row():
    found = {"type": "tool_search_output", "call_id": "s", "tools": [{"type": "function", "name": "f"}]}
    items = [
        {"role": "user", "content": "Go."},
        {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {"query": "f"}},
        found,
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "done"},
    ]
    tools = [{"type": "tool_search"}]
    for row in ({"messages": items, "tools": tools}, {"messages": items, "tools": json.dumps(tools)}):
        trajectories, _ = parsed(lines(row))
        assert json.loads(trajectories[0].context.action_space or "") == [*tools, *found["tools"]]
    assert json.loads(parsed(lines(*items))[0][0].context.action_space or "") == found["tools"]


def langchain(*messages):
    """The four forms in which LangChain writes messages, each with all of them."""
    classes = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    dumped = [
        {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", classes[one["type"]]], "kwargs": one}
        for one in messages
    ]
    dicts = [{"type": one["type"], "data": one} for one in messages]
    return [dicts, {"messages": list(messages)}, {"messages": dumped}, {"values": {"messages": list(messages)}}]


def test_messages_of_langchain_are_alike_in_all_its_forms():
    call = {"name": "look", "args": {"bed": 2}, "id": "k", "type": "tool_call"}
    forms = langchain(
        {"type": "human", "content": "How is it?"},
        {"type": "ai", "content": [{"type": "tool_use", "id": "k", "name": "look", "input": {}}], "tool_calls": [call]},
        {"type": "tool", "content": "no light", "tool_call_id": "k", "status": "error"},
    )
    for form in forms:
        [trajectory] = parse("chat_tools", json.dumps(form))[0]
        assert trajectory.task.instruction == "How is it?"
        assert [(one.action.arguments, after(one).content, after(one).is_error) for one in trajectory.steps] == [
            ('{"bed": 2}', "no light", True)
        ]


def test_steps_of_the_ai_sdk_without_marks_end_where_the_model_speaks_again():
    parts: list[dict[str, Any]] = [
        {"type": f"tool-{name}", "toolCallId": name, "state": "output-available", "input": {}, "output": name.upper()}
        for name in ("a", "b")
    ]
    spoken = [{"type": "text", "text": "Next."}]
    message = {"role": "assistant", "parts": [*parts, *spoken, {**parts[0], "toolCallId": "c"}]}
    [trajectory] = parse("chat_tools", json.dumps([{"role": "user", "parts": spoken}, message]))[0]
    assert [(one.turn, one.action.call_id, after(one).content) for one in trajectory.steps] == [
        (0, "a", "A"),
        (0, "b", "B"),
        (1, "c", "A"),
    ]


@pytest.mark.parametrize(("names", "domain"), [(("web_search", "visit"), "search"), (("visit", "look"), "mcp")])
def test_a_conversation_that_only_searches_is_of_the_domain_search(names, domain):
    calls = [{"id": name, "function": {"name": name, "arguments": "{}"}} for name in names]
    answers = [{"role": "tool", "tool_call_id": name, "content": "a page"} for name in names]
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": calls}, *answers]
    assert [one.domain for one in parse("chat_tools", json.dumps({"messages": messages}))[0]] == [domain]


def test_a_rollout_of_nemo_gym_is_its_request_and_its_response():
    called = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    answered = {"type": "function_call_output", "call_id": "c", "output": "dry"}
    rollout = {
        "responses_create_params": {
            "input": [{"role": "user", "content": "Look."}],
            "model": None,
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
        },
        "response": {"object": "response", "model": "m", "output": [called, answered], "tools": []},
        "reward": 1.0,
        "model_patch": "",
        "instance_config": {"instance_id": "a__b-1"},
    }
    data = lines(rollout, rollout)
    found, rejects = parsed(data)
    assert [one.name for one, _ in sniff(data, "rollouts.jsonl")] == ["chat_tools"]
    assert rejects == []
    assert [step.next_observation and step.next_observation.content for step in found[0].steps] == ["dry"]
    assert (found[0].task.instruction, found[0].agent.model) == ("Look.", "m")
    assert found[0].outcome is not None
    assert found[0].outcome.score == 1.0
    assert "look" in (found[0].context.action_space or "")
