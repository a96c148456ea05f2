"""Files of chat messages: which are claimed, how lines and documents are told apart, and what is refused."""

import json
from typing import Any

import pytest

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
    trajectories: list[Trajectory] = []
    rejects: list[tuple[str, int]] = []
    try:
        for record in CONNECTOR.parse(MemoryBlob("log", data)):
            if isinstance(record, Reject):
                rejects.append((record.reason, record.offset))
            else:
                trajectories.append(record)
    except ParseError as error:
        rejects.append((error.reason, error.offset))
    return trajectories, rejects


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
        trajectories, rejects = parsed(data)
        assert [len(trajectory.steps) for trajectory in trajectories] == [1]
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
        trajectories, rejects = parsed(text.encode())
        assert bool(trajectories) == (depth == 120)
        assert {reason for reason, _ in rejects} <= {"nested_too_deeply", "bad_json", "no_transitions", "truncated"}


def test_messages_whose_last_one_is_cut_by_the_head_are_recognized():
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    asked = json.dumps({"role": "assistant", "content": None, "tool_calls": [call]})
    answer = json.dumps({"role": "tool", "tool_call_id": "c", "content": "x" * HEAD_BYTES})
    assert CONNECTOR.sniff(f"{asked}\n{answer}\n".encode()[:HEAD_BYTES], "log.jsonl") is not None


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
    trajectories, rejects = parsed(data)
    assert [connector.name for connector, _ in sniff(data, "rollouts.jsonl")] == ["chat_tools"]
    assert rejects == []
    assert [step.next_observation and step.next_observation.content for step in trajectories[0].steps] == ["dry"]
    assert (trajectories[0].task.instruction, trajectories[0].agent.model) == ("Look.", "m")
    assert trajectories[0].outcome is not None
    assert trajectories[0].outcome.score == 1.0
    assert "look" in (trajectories[0].context.action_space or "")
