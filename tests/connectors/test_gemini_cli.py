"""Gemini CLI sessions: replay of changes, turns and hostile input."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import product
from typing import Any

import pytest

from trajmill.connectors.agents.gemini_cli import BRANCHES, GeminiCli
from trajmill.connectors.connector import MemoryBlob
from trajmill.schemas import ParseError, Reject, Trajectory

HEAD = {"sessionId": "s", "projectHash": "p"}


def tool(key: str, seconds: float = 1, text: str | None = "ok", **more: Any) -> dict[str, Any]:
    result = None if text is None else [{"functionResponse": {"id": key, "name": "t", "response": {"output": text}}}]
    stamp = f"2026-01-05T10:00:{seconds:06.3f}Z"
    return {"id": key, "name": "t", "args": {}, "result": result, "status": "success", "timestamp": stamp, **more}


def says(key: str, content: Any = "", *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": key, "type": "gemini", "content": content, "model": "m", "toolCalls": list(calls), **more}


def user(key: str, text: str) -> dict[str, Any]:
    return {"id": key, "type": "user", "content": text}


def read(*lines: dict[str, Any], whole: bool = False) -> tuple[list[Trajectory], list[Reject]]:
    data = json.dumps({**HEAD, "messages": lines}, indent=1) if whole else "\n".join(map(json.dumps, (HEAD, *lines)))
    found = list(GeminiCli().parse(MemoryBlob("session.jsonl", data.encode() + b"\n")))
    rejects = [one for one in found if isinstance(one, Reject)]
    return [one for one in found if isinstance(one, Trajectory)], rejects


def shown(trajectory: Trajectory) -> list[str | None]:
    return [step.next_observation.content if step.next_observation else None for step in trajectory.steps]


def test_one_document_and_its_lines_come_to_the_same_steps():
    messages = [user("u", "Do."), says("a", "I do.", tool("x"), tool("y")), says("b", "Done.")]
    ((one,), _), ((other,), _) = read(*messages, whole=True), read(*messages)
    assert [step.action for step in one.steps] == [step.action for step in other.steps]
    assert one.task == other.task


def test_parts_of_a_text_are_joined_as_the_client_joins_them():
    parts = [{"text": "Read @a."}, {"text": "\n--- Content from referenced files ---"}, {"text": "\nContent of a:\n"}]
    first: dict[str, Any] = {**user("u", ""), "content": [*parts, {"text": "x"}, "y"]}
    ((one,), _) = read(first, says("a", [{"text": "I re"}, {"text": "ad it."}], tool("x")))
    assert one.task.instruction == "Read @a.\n--- Content from referenced files ---\nContent of a:\nxy"
    assert one.steps[0].action.message == "I read it."


def test_calls_recorded_together_are_one_turn_and_a_later_one_is_the_next():
    (one,), _ = read(says("a", "", tool("x", 1), tool("y", 1.01), tool("z", 3)))
    assert [(step.turn, step.num_calls) for step in one.steps] == [(0, 2), (0, 2), (1, 1)]
    assert one.steps[2].observation == one.steps[1].next_observation


def test_a_message_written_again_counts_once_and_keeps_its_first_result():
    (one,), _ = read(
        says("a", "", tool("x", text=None)),
        says("a", "", tool("x", text="full")),
        says("a", "", tool("x", text="masked")),
    )
    assert shown(one) == ["full"]


def test_a_message_without_calls_goes_with_the_calls_of_the_next_message():
    (one,), _ = read(says("a", "I look."), says("b", "", tool("x")))
    assert [step.action.message for step in one.steps] == ["I look."]


def test_a_rewound_path_with_an_answered_call_is_a_branch_that_names_where_it_left():
    found, _ = read(
        says("a", "", tool("x", text="1")),
        says("b", "", tool("y", text="2")),
        {"$rewindTo": "b"},
        says("c", "", tool("z", text="3")),
    )
    assert [shown(one) for one in found] == [["1", "3"], ["1", "2"]]
    assert [(one.relation, one.parent, one.parent_step) for one in found] == [(None, None, None), ("branch", "s", 0)]


def test_a_rewind_that_lost_no_answer_leaves_no_branch():
    found, _ = read(says("a", "", tool("x")), user("u", "hm"), {"$rewindTo": "u"}, says("c", "", tool("z")))
    assert len(found) == 1


def test_a_session_rewound_to_its_beginning_is_what_was_rewound():
    found, _ = read(user("u", "Do."), says("a", "", tool("x")), {"$rewindTo": "u"}, user("v", "No."))
    assert [(one.native_id, one.relation) for one in found] == [("s", None)]


def test_rewinds_without_end_are_bounded():
    lines = [one for n in range(BRANCHES + 9) for one in (says(f"a{n}", "", tool(f"x{n}")), {"$rewindTo": f"a{n}"})]
    found, rejects = read(*lines, says("last", "", tool("z")))
    assert len(found) == BRANCHES + 1
    assert {one.reason for one in rejects} == {"too_many_branches"}


def test_a_history_set_anew_undoes_nothing_and_its_summary_is_the_harness_s():
    summary = {"id": "s1", "type": "user", "content": [{"text": "<state_snapshot>x</state_snapshot>"}]}
    own = {"id": "s2", "type": "gemini", "content": [{"text": "Got it."}]}
    (one,), _ = read(says("a", "", tool("x")), {"$set": {"messages": [summary, own]}}, says("b", "", tool("y")))
    assert len(one.steps) == 2
    assert [said["role"] for said in json.loads(one.steps[1].interleaved or "")] == ["harness", "harness"]


def test_a_history_that_is_all_there_is_makes_the_steps():
    (one,), _ = read({"$set": {"messages": [user("u", "Do."), says("a", "", tool("x"))]}})
    assert one.task.instruction == "Do."
    assert len(one.steps) == 1


def test_a_sub_agent_s_session_says_so():
    (one,), _ = read({"$set": {"kind": "subagent"}}, says("a", "", tool("x")))
    assert one.relation == "subagent"


def test_tools_of_a_server_make_the_domain_mcp():
    (one,), _ = read(says("a", "", tool("x", displayName="t (docs MCP Server)")))
    assert one.domain == "mcp"


def test_the_project_of_a_usual_container_folder_is_no_instance():
    usual, own = (sha256(folder.encode()).hexdigest() for folder in ("/app", "/home/mia/src/ledger"))
    (one,), _ = read({"$set": {}}, says("a", "", tool("x")))
    assert one.environment.instance_id == "p"
    for project, wanted in ((usual, None), (own, own)):
        data = json.dumps({"sessionId": "s", "projectHash": project, "messages": [says("a", "", tool("x"))]})
        (found,) = GeminiCli().parse(MemoryBlob("s.json", data.encode()))
        assert isinstance(found, Trajectory)
        assert found.environment.instance_id == wanted


def test_values_of_wrong_types_are_no_reason_to_stop():
    keys = ("content", "thoughts", "toolCalls", "timestamp", "model")
    parts = [{"inlineData": {"data": "?"}}, {"functionResponse": {"response": 3}}]
    values: tuple[Any, ...] = (None, 1, [1], {"a": 1}, parts)
    odd = [
        {"id": f"{n}", "type": kind, key: value}
        for n, (kind, key, value) in enumerate(product(("gemini", "user"), keys, values))
    ]
    found, _ = read(*odd, {"$set": {"messages": [1, {}]}}, says("a", "", tool("x")))
    assert len(found) == 1


def test_a_deeply_nested_document_is_refused():
    data = b'{\n"sessionId":"s","messages":' + b"[" * 100_000
    with pytest.raises(ParseError) as caught:
        list(GeminiCli().parse(MemoryBlob("s.json", data)))
    assert caught.value.reason == "nested_too_deeply"


def test_calls_of_one_message_that_share_an_id_are_two_calls():
    (one,), _ = read(says("a", "", tool("x", text="one"), tool("x", text="two")), whole=True)
    assert [(step.action.call_id, step.next_observation and step.next_observation.content) for step in one.steps] == [
        ("x", "one"),
        ("x", "two"),
    ]
