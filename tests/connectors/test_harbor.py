"""Harbor trials: what one log is, whose verdict counts, and which trajectory a time limit cut."""

import json
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.agents.harbor import Harbor
from trajmill.connectors.connector import MemoryBlob
from trajmill.schemas import Outcome, Reject, Trajectory

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
    held = {name: (one if isinstance(one, str) else json.dumps(one)).encode() for name, one in members.items()}
    found = list(Harbor().parse(MemoryBlob("jobs/one/trial", held)))
    rejects = [one for one in found if isinstance(one, Reject)]
    assert {one.connector for one in rejects} <= {"harbor"}
    return [one for one in found if isinstance(one, Trajectory)], [(one.reason, one.member) for one in rejects]


def outcome(**members: object) -> Outcome | None:
    """The outcome of a trial with `result` as result.json and the other members below verifier/."""
    held: dict[str, object] = {"agent/trajectory.json": document()}
    for name, value in members.items():
        path = "result.json" if name == "result" else "verifier/" + name.replace("_", ".")
        held[path] = value
    made, rejects = read(held)
    assert rejects == []
    return made[0].outcome


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
    made, _ = read(members)
    told = {one.native_id: (one.relation, one.steps[-1].truncated, one.outcome is not None) for one in made}
    assert told == {
        "s": (None, None, True),
        "s-cont-1": ("continuation", True, True),
        "below": ("subagent", None, False),
    }
    assert {one.task.id for one in made} == {"grind"}


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
    assert sum(isinstance(one, Trajectory) for one in Harbor().parse(blob)) == 1
