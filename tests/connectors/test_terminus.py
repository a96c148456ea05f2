"""Terminus, Harbor and Terminal-Bench: what an episode, a folder of a trial and a result hold."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rows import split_records
from trajmill.connectors.agents.harbor import Harbor
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.conversation.terminus_texts import UnclearResponseError, recover_response, response_of
from trajmill.connectors.recordings.terminal_bench import TerminalBench
from trajmill.connectors.recordings.terminal_bench.agent_logs import plain
from trajmill.connectors.recordings.terminus import Terminus
from trajmill.schemas import Outcome, ParseError, Reject, Trajectory

CONNECTOR = Terminus()
FIRST = (
    "Answer with keystrokes.\n\nTask Description:\nDo it.\n\nCurrent terminal state:\nCurrent Terminal Screen:\n$\n\n"
)


def response(*commands: dict[str, object], complete: bool = False) -> str:
    return json.dumps({"analysis": "a", "plan": "p", "commands": commands, "task_complete": complete})


def parsed(*episodes: tuple[str, str | None]) -> tuple[list[Trajectory], list[Reject]]:
    members = {}
    for number, (prompt, answer) in enumerate(episodes):
        members[f"episode-{number}/prompt.txt"] = prompt.encode()
        if answer is not None:
            members[f"episode-{number}/response.txt"] = answer.encode()
    return split_records(CONNECTOR.parse(MemoryBlob("log", members)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Here you are:\n" + response(), "wrapped_response"),
        ("```json\n" + response() + "\n```", "wrapped_response"),
        (response({"keystrokes": "ls\n"})[:-10], "truncated_response"),
        ("Here: " + response({"keystrokes": "ls\n"})[:-10], "truncated_response"),
        ("I am done.", "bad_response"),
        ("[1, 2]", "bad_response"),
        ('{"analysis": "x"}', "bad_response"),
        ('{"commands": ["ls"]}', "bad_response"),
        ("", "bad_response"),
        ("<response><commands><keystrokes>ls</commands></response>", "bad_response"),
    ],
)
def test_a_response_that_is_not_the_form_is_refused_with_its_reason(text: str, reason: str):
    with pytest.raises(UnclearResponseError) as caught:
        response_of(text)
    assert caught.value.reason == reason


WARNED = "Previous response had warnings:\nWARNINGS: - {}\n\nNew Terminal Output:\n$ b"


@pytest.mark.parametrize(
    ("answer", "warning", "message"),
    [
        ("Look:\n" + response({"keystrokes": "b\n"}), "Extra text detected before JSON object", "Look:"),
        (
            "```json\n" + response({"keystrokes": "b\n"}) + "\n```",
            "Extra text detected before JSON object",
            "```json\n```",
        ),
        (response({"keystrokes": "b\n"}) + " Or {this}.", "Extra text detected after JSON object", "Or {this}."),
        (response({"keystrokes": "b\n"})[:-1], "AUTO-CORRECTED: Fixed incomplete JSON", None),
        (
            "So <response><commands><keystrokes>b\n</keystrokes></commands></response>",
            "Extra text detected before <response> tag",
            "So",
        ),
    ],
)
def test_a_response_within_prose_is_read_where_the_harness_says_that_it_read_it(answer, warning, message):
    (trajectory,), rejects = parsed((FIRST, answer), (WARNED.format(warning), response({"keystrokes": "c\n"})))
    assert rejects == []
    step = trajectory.steps[0]
    assert json.loads(step.action.text) == [{"keystrokes": "b\n"}]
    assert step.action.message == message
    assert step.next_observation is not None
    assert step.next_observation.content == "$ b"
    assert warning in (trajectory.steps[1].interleaved or "")


@pytest.mark.parametrize("answer", ["{" * 20000, '"{' * 20000, "\\" * 20001, "<response>" * 20000, "}" * 20000 + "{"])
def test_a_hostile_response_is_told_to_be_none_in_linear_time(answer):
    assert recover_response(answer) is None


def test_a_prompt_is_told_by_its_name_and_its_words():
    assert CONNECTOR.sniff(FIRST.encode(), "x/episode-0/prompt.txt") is not None
    assert CONNECTOR.sniff(FIRST.encode(), "x/prompt.txt") is None
    assert CONNECTOR.sniff(b"Hello", "x/episode-0/prompt.txt") is None


STEPS = [
    {"step_id": 1, "source": "user", "message": "Grind."},
    {
        "step_id": 2,
        "source": "agent",
        "message": "",
        "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "ls"}}],
        "observation": {"results": [{"source_call_id": "c", "content": "grain"}]},
    },
]


def document(session: str = "s", **more: object) -> dict:
    return {"schema_version": "ATIF-v1.6", "session_id": session, "agent": {"name": "a"}, "steps": STEPS, **more}


def read(members: Mapping[str, object]) -> tuple[list[Trajectory], list[tuple[str, str]]]:
    """The trajectories of a trial, and (reason, member) of its rejects; texts stand as they are, the rest as JSON."""
    content = {
        name: (value if isinstance(value, str) else json.dumps(value)).encode() for name, value in members.items()
    }
    records = list(Harbor().parse(MemoryBlob("jobs/one/trial", content)))
    rejects = [record for record in records if isinstance(record, Reject)]
    assert {reject.connector for reject in rejects} <= {"harbor"}
    return [record for record in records if isinstance(record, Trajectory)], [
        (reject.reason, reject.member) for reject in rejects
    ]


def outcome(**members: object) -> Outcome | None:
    """The outcome of a trial with `result` as result.json and the other members below verifier/."""
    files: dict[str, object] = {"agent/trajectory.json": document()}
    for name, value in members.items():
        path = "result.json" if name == "result" else "verifier/" + name.replace("_", ".")
        files[path] = value
    trajectories, rejects = read(files)
    assert rejects == []
    return trajectories[0].outcome


def test_folders_of_trials_are_told_from_the_folder_of_their_job_and_from_documents_without_a_trial():
    paths = [
        "job/config.json", "job/result.json", "job/a__1/result.json", "job/a__1/agent/trajectory.json",
        "job/a__1/agent/sub/trajectory.json", "job/b__1/config.json", "job/b__1/steps/x/agent/trajectory.json",
        "job/c__1/result.json", "job/c__1/agent/claude-code.txt", "other/agent/trajectory.json",
    ]  # fmt: skip
    logs = {log.uri: (log.anchor, sorted(log.members)) for log in Harbor().join(paths)}
    assert logs == {
        "job/a__1": ("result.json", ["agent/sub/trajectory.json", "agent/trajectory.json", "result.json"]),
        "job/b__1": ("config.json", ["config.json", "steps/x/agent/trajectory.json"]),
    }


def test_a_time_limit_cuts_the_last_of_the_agents_own_trajectories():
    below = {**document("below"), "trajectory_id": "below"}
    members = {
        "result.json": {"exception_info": {"exception_type": "AgentTimeoutError"}, "task_name": "grind"},
        "agent/trajectory.json": document("s", continued_trajectory_ref="trajectory.cont-1.json"),
        "agent/trajectory.cont-1.json": document("s-cont-1", subagent_trajectories=[below]),
        "verifier/reward.txt": "1",
    }
    trajectories, _ = read(members)
    summaries = {
        trajectory.native_id: (trajectory.relation, trajectory.steps[-1].truncated, trajectory.outcome is not None)
        for trajectory in trajectories
    }
    assert summaries == {
        "s": (None, None, True),
        "s-cont-1": ("continuation", True, True),
        "below": ("subagent", None, False),
    }
    assert {trajectory.task.id for trajectory in trajectories} == {"grind"}


LEAVES = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4)
KEYS = st.sampled_from(
    ["verifier_result", "rewards", "reward", "results", "summary", "tests", "passed", "step_results", "step_name",
     "exception_info", "exception_type", "agent_info", "model_info", "config", "task", "path", "name"]
)  # fmt: skip
VALUES = st.recursive(LEAVES, lambda one: st.lists(one, max_size=3) | st.dictionaries(KEYS, one, max_size=4))


@given(
    st.binary(max_size=40) | VALUES.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(["result.json", "verifier/reward.json", "verifier/ctrf.json", "verifier/reward.txt"]),
)
def test_whatever_the_trial_says_the_agents_steps_stand(data, member):
    blob = MemoryBlob("t", {"agent/trajectory.json": json.dumps(document()).encode(), member: data})
    assert sum(isinstance(record, Trajectory) for record in Harbor().parse(blob)) == 1


TERMINAL_BENCH = TerminalBench()
RESULTS = {
    "id": "u-1",
    "trial_name": "t.1-of-1",
    "task_id": "t",
    "instruction": "Do [it].",
    "is_resolved": True,
    "failure_mode": "unset",
    "parser_results": {"a": "passed", "b": "failed"},
}
PROMPT = "\x1b[?2004hroot@b:/app# "


def cast(*events: tuple[str, str]) -> bytes:
    rows = [{"version": 2, "width": 60, "height": 10, "timestamp": 1900000000}]
    rows += [[float(number), code, data] for number, (code, data) in enumerate(events)]  # type: ignore[misc]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def typed(command: str, shown: str = "") -> list[tuple[str, str]]:
    return [("i", f"{command}\r"), ("o", f"{command}\r\n\x1b[?2004l\r{shown}{PROMPT}")]


def read_trial(*events: tuple[str, str], **results: object) -> tuple[list[Trajectory], list[Reject]]:
    members = {
        "results.json": json.dumps({**RESULTS, **results}).encode(),
        "sessions/agent.cast": cast(("o", PROMPT), *typed("clear"), *events, ("i", "\x04"), ("o", "exit\r\n")),
    }
    return split_records(TERMINAL_BENCH.parse(MemoryBlob("t.1-of-1", members)))


def test_a_timeout_of_the_agent_cuts_the_last_step():
    (trajectory,), _ = read_trial(*typed("ls"), failure_mode="agent_timeout")
    assert trajectory.steps[-1].truncated is True


def test_an_entry_of_commands_that_is_a_plain_string_is_read_like_a_list_of_one():
    def told(commands: bytes) -> list[str]:
        members = {"results.json": json.dumps(RESULTS).encode(), "commands.txt": commands}
        members["sessions/agent.cast"] = cast(("o", PROMPT), *typed("ls"))
        records = list(TERMINAL_BENCH.parse(MemoryBlob("t", members)))
        assert any(isinstance(record, Trajectory) for record in records)
        return [record.reason for record in records if isinstance(record, Reject)]

    assert told(b"'source /setup.sh'\n['ls', 'Enter']\n\"it's\"\n") == []
    assert told(b"'cut\n7\nNone\n") == ["bad_command"] * 3
    with pytest.raises(ParseError) as caught:
        told(b"'source /installed-agent/setup-env.sh'\n")
    assert caught.value.reason == "unknown_agent_log"


def test_lines_drawn_anew_show_the_last():
    assert plain("10%\r20%\r\n\x1b[32mok\x1b[0m\r\n") == "20%\nok\n"
    assert plain("wait\r\n\x1b[1A\x1b[2K\rdone") == "done\n"
    assert plain("longer\rab") == "abnger"
