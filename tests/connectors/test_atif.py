"""ATIF documents: pairing, copied context, sub-agents, files of one log and hostile input."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trajmill.connectors.agents.atif import ANCHOR, DEPTH, Atif
from trajmill.connectors.agents.atif.domains import domain
from trajmill.connectors.agents.atif.values import terminal_output
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import sniff
from trajmill.schemas import Observation, Reject, Step, Trajectory

Value = dict[str, Any]


def document(*steps: Value, agent: str = "coder", **more: Any) -> Value:
    numbered = [{"step_id": number, "message": "", **step} for number, step in enumerate(steps, 1)]
    return {"schema_version": "ATIF-v1.7", "agent": {"name": agent, "version": "1"}, "steps": numbered, **more}


def acts(*keys: str, results: list[Value] | None = None, **more: Any) -> Value:
    calls = [{"tool_call_id": key, "function_name": "run", "arguments": {"n": key}} for key in keys]
    seen = {} if results is None else {"observation": {"results": results}}
    return {"source": "agent", "tool_calls": calls, **seen, **more}


def told(content: str | None = None, key: str | None = None, **more: Any) -> Value:
    return {"content": content, "source_call_id": key, **more}


def read(whole: Value | dict[str, Value]) -> tuple[list[Trajectory], list[Reject]]:
    several = "steps" not in whole
    members = {name: json.dumps(one).encode() for name, one in whole.items()} if several else json.dumps(whole).encode()
    found = list(Atif().parse(MemoryBlob("log", members)))
    rejects = [one for one in found if isinstance(one, Reject)]
    return [one for one in found if isinstance(one, Trajectory)], rejects


def steps(*given: Value, **more: Any) -> list[Step]:
    found, rejects = read(document(*given, **more))
    assert rejects == []
    return list(found[0].steps)


def shown(made: list[Step]) -> list[str | None]:
    return [step.next_observation.content if step.next_observation else None for step in made]


def test_results_go_by_id_in_whatever_order_they_stand():
    assert shown(steps(acts("a", "b", results=[told("2", "b"), told("1", "a")]))) == ["1", "2"]


def test_results_without_an_id_go_by_position():
    assert shown(steps(acts("a", "b", results=[told("1"), told("2")]))) == ["1", "2"]


def test_one_result_without_an_id_for_several_calls_is_the_last_one_s():
    assert shown(steps(acts("a", "b", "c", results=[told("end")]))) == [None, None, "end"]


def test_an_id_that_repeats_in_later_steps_is_answered_within_its_step():
    made = steps(acts("call_1", results=[told("1", "call_1")]), acts("call_1", results=[told("2", "call_1")]))
    assert shown(made) == ["1", "2"]


def test_an_id_that_repeats_is_answered_within_its_step_also_while_an_earlier_call_is_open():
    other = {"tool_call_id": "call_1", "function_name": "run", "arguments": {"n": "another"}}
    seen = {"results": [told("2", "call_1")]}
    made = steps(acts("call_1"), {"source": "agent", "tool_calls": [other], "observation": seen})
    assert shown(made) == [None, "2"]


def test_several_results_of_one_call_are_its_answer_in_their_order():
    made = steps(acts("a", "b", results=[told("1", "a"), told("2", "b"), told("3", "a", extra={"is_error": True})]))
    assert shown(made) == ["1\n3", "2"]
    assert [one.next_observation and one.next_observation.is_error for one in made] == [True, None]
    later = {"source": "system", "observation": {"results": [told("1", "a"), told("2", "a")]}}
    assert shown(steps(acts("a"), later)) == ["1\n2"]
    made = steps(acts("a"), acts("b", results=[told("1", "a"), told("3", "b"), told("2", "a")]), acts("c"))
    assert shown(made) == ["1\n2", "3", None]


def test_a_result_that_comes_steps_after_the_answer_of_its_call_is_a_reject_that_says_so():
    late = {"source": "system", "observation": {"results": [told("2", "a"), told("3", "x")]}}
    found, rejects = read(document(acts("a", results=[told("1", "a")]), late, acts("b", results=[told("4", "a")] * 2)))
    assert shown(list(found[0].steps)) == ["1", None]
    assert [one.reason for one in rejects] == ["result_repeated", "result_without_call"] + ["result_repeated"] * 2


def test_a_result_on_a_later_system_step_answers_its_call():
    made = steps(acts("a"), {"source": "system", "observation": {"results": [told("1", "a")]}}, acts("b"))
    assert shown(made) == ["1", None]
    assert made[1].observation == made[0].next_observation


def test_copied_context_makes_no_step_but_tells_what_was_shown_last():
    made = steps(acts("a", results=[told("1", "a")], is_copied_context=True), acts("b", results=[told("2", "b")]))
    assert shown(made) == ["2"]
    assert made[0].observation is not None
    assert made[0].observation.content == "1"


def test_a_step_that_no_model_decided_is_a_step():
    assert len(steps(acts("a", llm_call_count=0))) == 1


def test_what_was_done_to_the_context_is_interleaved_and_never_shown():
    managed = {"source": "system", "extra": {"context_management": {"type": "pruning"}}}
    made = steps(acts("a", results=[told("1", "a")]), managed, acts("b"))
    assert made[1].observation == made[0].next_observation
    assert json.loads(made[1].interleaved or "") == [{"role": "harness", "content": '{"type": "pruning"}'}]


def test_tool_definitions_are_the_action_space():
    whole = document(acts("a"))
    whole["agent"]["tool_definitions"] = [{"type": "function", "function": {"name": "run"}}]
    assert read(whole)[0][0].context.action_space == '[{"type": "function", "function": {"name": "run"}}]'


@pytest.mark.parametrize("version", ["ATIF-v1.0", "ATIF-v1.7", "1.4", "ATIF-1.6", "atif-v1.2"])
def test_every_spelling_of_the_version_is_recognized(version):
    whole = {**document({"source": "user", "message": "x"}, acts("a")), "schema_version": version}
    assert [one.name for one, _ in sniff(json.dumps(whole).encode(), "trajectory.json")] == ["atif"]


def test_another_document_with_a_version_and_steps_is_not_claimed():
    assert Atif().sniff(b'{"schema_version": "1.4", "steps": [{"name": "build"}]}', "ci.json") is None


def test_a_sub_agent_within_a_sub_agent_names_its_parent_and_the_step():
    inner = document(acts("c"), trajectory_id="inner")
    outer = document(
        acts("x"), acts("b", results=[told("r", "b", subagent_trajectory_ref=[{"trajectory_id": "inner"}])]),
        trajectory_id="outer", subagent_trajectories=[inner],
    )  # fmt: skip
    root = document(
        acts("a", results=[told("r", "a", subagent_trajectory_ref=[{"trajectory_id": "outer"}])]),
        trajectory_id="root", subagent_trajectories=[outer],
    )  # fmt: skip
    found, _ = read(root)
    assert [(one.native_id, one.parent, one.parent_step, one.relation) for one in found] == [
        ("root", None, None, None),
        ("outer", "root", 0, "subagent"),
        ("inner", "outer", 1, "subagent"),
    ]
    assert [one.steps[0].next_observation.origin for one in found if one.steps[0].next_observation] == ["agent"]


def test_the_offset_of_a_step_is_where_its_object_begins():
    whole = document(acts("a"), acts("b"), subagent_trajectories=[document(acts("c"), trajectory_id="s")])
    data = json.dumps(whole).encode()
    found = [one for one in Atif().parse(MemoryBlob("log", data)) if isinstance(one, Trajectory)]
    for step in (step for one in found for step in one.steps):
        begin = json.JSONDecoder().raw_decode(data[step.offset :].decode())[0]
        assert begin["tool_calls"][0]["tool_call_id"] == step.action.call_id


def test_documents_that_refer_to_each_other_are_read_once():
    def back(path: str) -> list[Value]:
        return [told("r", "a", subagent_trajectory_ref=[{"trajectory_path": path}])]

    one = document(acts("a", results=back("trajectory.b.json")), session_id="one")
    two = document(acts("a", results=back(ANCHOR)), session_id="two")
    found, _ = read({ANCHOR: one, "trajectory.b.json": two})
    assert [(trajectory.native_id, trajectory.parent) for trajectory in found] == [("one", None), ("two", "one")]


@pytest.mark.parametrize("path", ["/etc/passwd", "../../secret.json", "gone.json", "file:///etc/passwd"])
def test_a_reference_out_of_the_log_is_a_reject(path):
    whole = document(acts("a", results=[told("r", "a", subagent_trajectory_ref=[{"trajectory_path": path}])]))
    found, rejects = read(whole)
    assert len(found) == 1
    assert [one.reason for one in rejects] == ["subagent_missing"]


def test_sub_agents_without_end_are_bounded():
    whole = document(acts("a"), trajectory_id="last")
    for number in range(DEPTH + 5):
        whole = document(acts("a"), trajectory_id=f"t{number}", subagent_trajectories=[whole])
    found, rejects = read(whole)
    assert len(found) == DEPTH + 1
    assert [one.reason for one in rejects] == ["nested_too_deeply"]


def test_files_of_one_folder_are_one_log_and_a_file_alone_is_none():
    paths = [
        "a/trajectory.json",
        "b/images/1.png",
        "b/trajectory.cont-1.json",
        "b/trajectory.json",
        "c/trajectory.x.json",
    ]
    (log,) = Atif().join([*paths, "b/gemini.trajectory.json", "d/1.png"])
    assert (log.uri, log.anchor) == ("b", ANCHOR)
    assert list(log.members) == ["images/1.png", "trajectory.cont-1.json", ANCHOR]


def test_a_damaged_document_beside_a_whole_one_is_a_reject():
    members = {ANCHOR: json.dumps(document(acts("a"))).encode(), "trajectory.x.json": b'{"steps": ['}
    found = list(Atif().parse(MemoryBlob("log", members)))
    assert [type(one) for one in found] == [Trajectory, Reject]


def test_a_terminal_s_output_is_told_apart_from_what_the_harness_says():
    asked = "Are you sure you want to mark the task as complete? y"
    screen, notes = terminal_output(f"Current terminal state:\nCurrent Terminal Screen:\n$ ls\n\n{asked}")
    assert (screen.content, screen.form) == ("$ ls", "screen")
    assert notes.notes == (asked,)
    assert terminal_output("$ ls")[0].content == "$ ls"


def test_commands_of_one_look_at_the_terminal_are_one_action():
    typed = [
        {"tool_call_id": f"{n}", "function_name": "bash_command", "arguments": {"keystrokes": keys, "duration": 0.5}}
        for n, keys in enumerate(("ls\n", "pwd\n"))
    ]
    whole = {"source": "agent", "tool_calls": typed, "observation": {"results": [told("New Terminal Output:\na")]}}
    (step,) = steps(whole, agent="terminus-2")
    assert step.action.name == "keystrokes"
    assert json.loads(step.action.text) == [{"keystrokes": keys, "duration": 0.5} for keys in ("ls\n", "pwd\n")]
    assert len(steps({**whole, "observation": {"results": [told("a", "0"), told("b", "1")]}}, agent="terminus-2")) == 2


def test_values_of_wrong_types_are_no_reason_to_stop():
    for value in (None, 1, "x", [], [1], {}, {"a": [1]}):
        for key in ("message", "tool_calls", "observation", "extra", "timestamp", "reasoning_content", "step_id"):
            step = {**acts("a"), key: value}
            found, _ = read(document(step, acts("b")))
            assert found[0].steps[-1].action.call_id == "b"
        for key in ("agent", "extra", "subagent_trajectories", "session_id", "continued_trajectory_ref"):
            assert read({**document(acts("a")), key: value})[0]
        extra = {"trajmill": dict.fromkeys(("environment", "task", "context", "outcome", "domain", "relation"), value)}
        assert read(document(acts("a", extra=extra), extra=extra))[0]


def test_the_first_prompt_of_terminus_is_taken_apart_as_that_of_an_episode_is():
    shown = "Current terminal state:\nCurrent Terminal Screen:\n$ ls\n$\n\n\n"
    said = f"Be brief.\n\nTask Description:\nMake a file.\n\n{shown}"
    typed = {"keystrokes": "touch a\n", "duration": 0.1}
    step = {
        "step_id": 2,
        "source": "agent",
        "message": "",
        "tool_calls": [{"tool_call_id": "c", "function_name": "bash_command", "arguments": typed}],
        "observation": {"results": [{"content": "New Terminal Output:\n$ touch a"}]},
    }
    document = {
        "schema_version": "ATIF-v1.6",
        "session_id": "s",
        "agent": {"name": "terminus-2", "version": "2"},
        "steps": [{"step_id": 1, "source": "user", "message": said}, step],
    }
    (trajectory,) = Atif().parse(MemoryBlob("log", json.dumps(document).encode()))
    assert isinstance(trajectory, Trajectory)
    assert trajectory.task.instruction == "Make a file."
    assert trajectory.context.agent_system == "Be brief."
    assert trajectory.steps[0].observation == Observation("$ ls\n$", form="screen")
    assert trajectory.steps[0].interleaved is None


@pytest.mark.parametrize(
    ("agent", "tools", "wanted"),
    [
        ("claude-code", ["Bash", "Edit", "mcp__db__query"], "terminal"),
        ("claude-code", ["mcp__db__query", "TodoWrite"], "mcp"),
        ("codex", ["shell", "a_new_tool"], "terminal"),
        ("openhands", ["execute_bash"], "swe"),
        ("mini-swe-agent", ["bash"], "swe"),
        ("terminus-2", ["keystrokes"], "terminal"),
        ("gemini-cli", ["google_web_search", "web_fetch"], "search"),
        ("nemo", ["search", "visit"], "search"),
        ("nemo", ["get_user_details", "book_flight"], "mcp"),
        ("nemo", ["bash", "str_replace_editor"], "swe"),
        ("nemo", ["bash", "read_file"], "terminal"),
        ("nemo", ["browser_navigate", "browser_click"], "web"),
        ("nemo", ["click", "fill", "scroll"], "web"),
        ("nemo", ["tap", "type", "open_app"], "android"),
        ("nemo", ["computer", "wait"], "os"),
        ("nemo", ["click", "get_balance"], "mcp"),
        ("android_world_agent", ["tap", "scroll"], "android"),
        (None, [], "terminal"),
    ],
)
def test_the_domain_is_that_of_the_agents_own_log_or_what_the_tools_tell(
    agent: str | None, tools: list[str], wanted: str
) -> None:
    assert domain(agent, [*tools, "message"]) == wanted


def test_a_result_on_a_later_step_stood_before_none_of_the_steps_between() -> None:
    late = {"source": "system", "observation": {"results": [told("one", "a")]}}
    made = steps(acts("a"), acts("b", results=[told("two", "b")]), late, acts("c"))
    assert shown(made) == ["one", "two", None]
    assert [step.observation and step.observation.content for step in made] == [None, None, "one"]
