"""ATIF documents: pairing, copied context, sub-agents, files of one log and hostile input."""

import json
from typing import Any

import pytest

from tests.rows import split_records
from trajmill.connectors.agents.atif import DEPTH, Atif
from trajmill.connectors.agents.atif.domains import domain
from trajmill.connectors.agents.atif.values import terminal_output
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.conversation.terminus_texts import prompt_of
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
    return split_records(Atif().parse(MemoryBlob("log", members)))


def steps(*given: Value, **more: Any) -> list[Step]:
    found, rejects = read(document(*given, **more))
    assert rejects == []
    return list(found[0].steps)


def shown(all_steps: list[Step]) -> list[str | None]:
    return [step.next_observation.content if step.next_observation else None for step in all_steps]


def test_one_result_without_an_id_for_several_calls_is_the_last_one_s():
    assert shown(steps(acts("a", "b", "c", results=[told("end")]))) == [None, None, "end"]


def test_an_id_that_repeats_is_answered_within_its_step_also_while_an_earlier_call_is_open():
    other = {"tool_call_id": "call_1", "function_name": "run", "arguments": {"n": "another"}}
    seen = {"results": [told("2", "call_1")]}
    all_steps = steps(acts("call_1"), {"source": "agent", "tool_calls": [other], "observation": seen})
    assert shown(all_steps) == [None, "2"]


def test_several_results_of_one_call_are_its_answer_in_their_order():
    all_steps = steps(
        acts("a", "b", results=[told("1", "a"), told("2", "b"), told("3", "a", extra={"is_error": True})])
    )
    assert shown(all_steps) == ["1\n3", "2"]
    assert [one.next_observation and one.next_observation.is_error for one in all_steps] == [True, None]
    later = {"source": "system", "observation": {"results": [told("1", "a"), told("2", "a")]}}
    assert shown(steps(acts("a"), later)) == ["1\n2"]
    all_steps = steps(acts("a"), acts("b", results=[told("1", "a"), told("3", "b"), told("2", "a")]), acts("c"))
    assert shown(all_steps) == ["1\n2", "3", None]


def test_a_result_that_comes_steps_after_the_answer_of_its_call_is_a_reject_that_says_so():
    late = {"source": "system", "observation": {"results": [told("2", "a"), told("3", "x")]}}
    found, rejects = read(document(acts("a", results=[told("1", "a")]), late, acts("b", results=[told("4", "a")] * 2)))
    assert shown(list(found[0].steps)) == ["1", None]
    assert [one.reason for one in rejects] == ["result_repeated", "result_without_call"] + ["result_repeated"] * 2


def test_sub_agents_without_end_are_bounded():
    whole = document(acts("a"), trajectory_id="last")
    for number in range(DEPTH + 5):
        whole = document(acts("a"), trajectory_id=f"t{number}", subagent_trajectories=[whole])
    found, rejects = read(whole)
    assert len(found) == DEPTH + 1
    assert [one.reason for one in rejects] == ["nested_too_deeply"]


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


def claude(name: str, raw: Value, content: str | None, message: str = "", **more: Any) -> Value:
    """A step as Harbor writes it for Claude Code: its own sections behind what the agent saw, kept beside."""
    call = {"tool_call_id": "t1", "function_name": name, "arguments": {}}
    shown = {} if content is None else {"observation": {"results": [told(content, "t1")]}}
    kept = {"tool_result_metadata": {"raw_tool_result": {"type": "tool_result", **raw}}, "tool_use_name": name}
    return {"source": "agent", "message": message, "tool_calls": [call], "extra": {**kept, **more}, **shown}


def test_what_claude_code_saw_is_told_apart_from_what_harbor_wrote_around_it():
    found, rejects = read(
        document(
            claude(
                "Bash",
                {"content": "Exit code 2\nno such file", "is_error": True},
                "Exit code 2\nno such file\n\n[error] tool reported failure",
                "Executed Bash t1",
            ),
            claude(
                "Read",
                {"content": [{"type": "text", "text": "     1\u2192a"}]},
                '1\u2192a\n\n[metadata] {"n": 1}',
                "I read.",
            ),
            claude("Bash", {"content": ""}, None),
        )
    )
    assert rejects == []
    steps = found[0].steps
    assert [step.next_observation and step.next_observation.content for step in steps] == [
        "no such file",
        "     1\u2192a",
        "",
    ]
    assert (steps[0].exit_code, steps[0].next_observation and steps[0].next_observation.is_error) == (2, True)
    assert [step.action.message for step in steps] == [None, "I read.", None]


def test_what_stands_around_the_output_that_harbor_keeps_of_claude_codes_shell_is_the_clients():
    made = claude("Bash", {"content": "sail.py\n[mill 7 is busy]"}, "sail.py\n[mill 7 is busy]\n\n[stdout]\nsail.py")
    made["extra"]["tool_result_metadata"]["tool_use_result"] = {
        "stdout": "sail.py\n",
        "stderr": "",
        "interrupted": False,
    }
    found, _ = read(document(made, claude("Bash", {"content": ""}, None)))
    first, second = found[0].steps
    assert first.next_observation is not None
    assert first.next_observation.content == "sail.py"
    assert "[mill 7 is busy]" in (second.interleaved or "")


def test_a_sidechain_of_claude_code_is_the_trajectory_of_a_sub_agent():
    found, _ = read(
        document(
            claude("Grep", {"content": "a.py"}, "a.py", is_sidechain=True),
            {"source": "user", "message": "Mend it."},
            claude("Task", {"content": "It is in a.py."}, "It is in a.py.", is_sidechain=False),
            session_id="s",
        )
    )
    assert [(one.relation, one.parent, [step.action.name for step in one.steps]) for one in found] == [
        (None, None, ["Task"]),
        ("subagent", "s", ["Grep"]),
    ]
    assert found[0].task.instruction == "Mend it."


def sampled(made: list[Step]) -> list[Value | None]:
    return [None if step.action.sampled is None else json.loads(step.action.sampled) for step in made]


def test_token_ids_of_a_step_are_those_of_its_turn_and_stand_on_the_first_call():
    metrics = {"prompt_token_ids": [1, 2], "completion_token_ids": [5, 9, 2], "logprobs": [-0.5, 0, -1e-05]}
    all_steps = steps(
        acts("a", "b", results=[told("1", "a"), told("2", "b")], metrics=metrics),
        acts("c", results=[told("3", "c")]),
        {"source": "agent", "message": "Done.", "metrics": {"completion_token_ids": [8]}},
    )
    assert sampled(all_steps) == [
        {"token_ids": [5, 9, 2], "logprobs": [-0.5, 0, -1e-05]},
        None,
        None,
        {"token_ids": [8], "logprobs": None},
    ]


@pytest.mark.parametrize(
    "ids", [None, [], "5", {"0": 5}, [5, -1], [5, 2**31], [5, 10**400], [5, True], [5, 2.0], ["5"], [[5]]]
)
def test_token_ids_that_are_none_are_left_out(ids):
    metrics = {"completion_token_ids": ids, "logprobs": [-0.5, -0.5]}
    assert sampled(steps(acts("a", results=[told("1", "a")], metrics=metrics))) == [None]
    assert sampled(steps(acts("a", results=[told("1", "a")], metrics=ids))) == [None]


@pytest.mark.parametrize(
    "logprobs", [None, [], "-1", [-0.5], [-0.5, -0.5, -0.5], [-0.5, None], [-0.5, float("nan")], [-0.5, -(10**400)]]
)
def test_log_probabilities_that_are_not_one_for_each_id_are_left_out(logprobs):
    metrics = {"completion_token_ids": [5, 9], "logprobs": logprobs}
    all_steps = steps(acts("a", results=[told("1", "a")], metrics=metrics))
    assert sampled(all_steps) == [{"token_ids": [5, 9], "logprobs": None}]


def test_token_ids_of_several_answers_or_of_a_call_that_is_not_carried_on_are_left_out():
    metrics = {"completion_token_ids": [5, 9]}
    assert sampled(steps(acts("a", results=[told("1", "a")], metrics=metrics, llm_call_count=2))) == [None]
    said = {"source": "agent", "message": "I look.", "metrics": metrics}
    assert sampled(steps(said, acts("a", results=[told("1", "a")], metrics=metrics))) == [None]
    step = acts("a", results=[told("1", "a")], metrics=metrics)
    step["tool_calls"].append({"tool_call_id": "b", "function_name": 7, "arguments": {}})
    found, rejects = read(document(step))
    assert sampled(list(found[0].steps)) == [None]
    assert [one.reason for one in rejects] == ["bad_call"]


def test_the_question_of_terminus_behind_an_empty_terminal_leaves_no_heading_in_it():
    question = "Are you sure you want to mark the task as complete? This will trigger your solution to be graded."
    shown = f"Current terminal state:\nNew Terminal Output:\n\n{question}"
    seen, around = terminal_output(shown)
    assert (seen.content, seen.form, around.notes) == ("", "stream", (question,))
    prompt = prompt_of(shown, False)
    assert prompt.seen == Observation("", form="stream")
    assert prompt.note == f"Current terminal state:\nNew Terminal Output:\n\n{question}"
