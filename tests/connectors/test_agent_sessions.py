"""Sessions of coding agents: trees, sub-agents, and answers that name no call."""

import json

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.schemas import Reject, Trajectory


def read(name, *lines):
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    found = list(connectors()[name].parse(MemoryBlob("log", data)))
    return [one for one in found if isinstance(one, Trajectory)], [one for one in found if isinstance(one, Reject)]


def asked(key, parent, call):
    block = {"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": call}}
    message = {"role": "assistant", "content": [block]}
    return {"type": "message", "id": key, "parentId": parent, "message": message}


def told(key, parent, call):
    content = [{"type": "text", "text": f"output of {call}"}]
    message = {"role": "toolResult", "toolCallId": call, "toolName": "bash", "content": content}
    return {"type": "message", "id": key, "parentId": parent, "message": message}


def test_a_path_that_was_left_is_a_branch_behind_the_steps_that_it_shares():
    start = {"type": "session", "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w"}
    shared = [asked("1", None, "a"), told("2", "1", "a"), asked("3", "2", "b"), told("4", "3", "b")]
    left, kept = [asked("5", "4", "c"), told("6", "5", "c")], [asked("7", "2", "d"), told("8", "7", "d")]
    (main, branch), rejects = read("pi_agent", start, *shared, *left, *kept)
    assert not rejects
    assert [step.action.call_id for step in main.steps] == ["a", "d"]
    assert [step.action.call_id for step in branch.steps] == ["a", "b", "c"]
    assert (branch.relation, branch.parent, branch.parent_step) == ("branch", "s", 0)


def step(number, kind, **rest):
    return {"step_index": number, "source": "MODEL", "type": kind, "status": "DONE", **rest}


def test_an_answer_is_given_to_no_call_of_a_response_that_another_response_followed():
    calls = [{"name": "list_dir", "args": {}}]
    found, rejects = read(
        "antigravity",
        step(1, "PLANNER_RESPONSE", tool_calls=calls),
        step(2, "PLANNER_RESPONSE", tool_calls=calls),
        step(3, "LIST_DIRECTORY", content="of the second"),
        step(4, "LIST_DIRECTORY", content="of the first, too late"),
    )
    shown = [one.next_observation and one.next_observation.content for one in found[0].steps]
    assert shown == [None, "of the second"]
    assert [one.reason for one in rejects] == ["result_without_call"]


def test_of_many_paths_that_were_left_only_so_many_are_carried_on_and_the_others_are_told():
    start = {"type": "session", "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w"}
    pairs = [(asked(f"a{n}", None, f"c{n}"), told(f"b{n}", f"a{n}", f"c{n}")) for n in range(70)]
    found, rejects = read("pi_agent", start, *(line for pair in pairs for line in pair))
    assert found[0].steps[0].action.call_id == "c69"
    assert [one.relation for one in found] == [None] + ["branch"] * 64
    assert [(one.reason, one.transitions) for one in rejects] == [("too_many_branches", 1)] * 5
