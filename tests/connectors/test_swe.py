"""Logs of software engineering: issues, published rows, patches and SWE-agent."""

import json

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.swe.issue import issue_in
from trajmill.connectors.swe.swe_rows import SweRows
from trajmill.connectors.swe.sweagent import SweAgent
from trajmill.connectors.swe.swebench_eval import SwebenchEval
from trajmill.connectors.swe.swebench_predictions import SwebenchPredictions
from trajmill.connectors.swe.text_action import function, last_fence
from trajmill.schemas import Reject, Trajectory


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        ("Solve it.\n<issue>\nIt is dark.\n</issue>\nGo.", "It is dark."),
        ("<pr_description>\nIt is dark.\n</pr_description>", "It is dark."),
        ("We solve an issue:\nISSUE:\nIt is dark.\n\nINSTRUCTIONS:\nGo.", "It is dark."),
        ("ISSUE:\nIt breaks off", None),
        ("<issue>\n \n</issue>", None),
        ("<issue>never closed", None),
        ("It is dark.", None),
    ],
)
def test_an_issue_is_what_stands_between_known_marks(text, issue):
    assert issue_in(text) == issue


def read(*rows: dict) -> list[Trajectory]:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    records = list(SweRows().parse(MemoryBlob("rows.jsonl", data)))
    assert not [record for record in records if isinstance(record, Reject)]
    return [record for record in records if isinstance(record, Trajectory)]


def row(*messages: tuple[str, str], **columns: object) -> dict:
    return {"instance_id": "a__b-1", "messages": [{"role": r, "content": c} for r, c in messages], **columns}


def test_a_block_within_a_block_is_none():
    call = last_fence("```\ncat <<EOF\n```bash\nls\n```\nEOF\n```\n")
    assert call is not None
    assert call.arguments["command"].startswith("cat <<EOF\n```bash")


def test_a_function_that_is_not_closed_is_none():
    assert function("<function=bash>\n<parameter=command>ls") is None


def test_what_the_agent_says_in_two_messages_before_it_acts_is_one_step():
    ran = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "run", "arguments": "{}"}}]}
    again = {"role": "assistant", "tool_calls": [{"id": "2", "function": {"name": "read", "arguments": "{}"}}]}
    answers = [{"role": "tool", "tool_call_id": key, "content": f"did {key}"} for key in ("2", "1")]
    messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "First I look."}, ran, again]
    trajectory = read({"instance_id": "a__b-1", "messages": [*messages, *answers]})[0]
    assert [(entry.action.name, entry.turn, entry.action.message) for entry in trajectory.steps] == [
        ("run", 0, "First I look."),
        ("read", 0, None),
    ]
    assert [entry.next_observation and entry.next_observation.content for entry in trajectory.steps] == [
        "did 1",
        "did 2",
    ]


DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def evaluated(**members: str) -> Trajectory:
    blob = MemoryBlob(
        "logs/a__b-1",
        {
            name.replace("_", ".", 1) if name != "test" else "test_output.txt": text.encode()
            for name, text in members.items()
        },
    )
    trajectories = [record for record in SwebenchEval().parse(blob) if isinstance(record, Trajectory)]
    assert len(trajectories) == 1
    return trajectories[0]


def shown(trajectory: Trajectory) -> str | None:
    seen = trajectory.steps[0].next_observation
    return seen.content if seen is not None else None


PREDICTION = {"instance_id": "a__b-1", "model_patch": DIFF, "model_name_or_path": "m"}
BROKEN = json.dumps(PREDICTION).replace(', "model', ',\n"model')
"""A prediction over several lines, the first of which holds its instance."""


def refused(data: str | bytes, path: str = "preds.json") -> list[Reject]:
    blob = MemoryBlob(path, data.encode() if isinstance(data, str) else data)
    return [record for record in SwebenchPredictions().parse(blob) if isinstance(record, Reject)]


@pytest.mark.parametrize("data", [f"[{BROKEN},\n{BROKEN}]", BROKEN, f'{{"a__b-1": {BROKEN}}}', f"\n [{BROKEN}]\n"])
def test_a_document_whose_first_line_holds_an_instance_is_read_whole(data):
    rejects = refused(data)
    assert len(rejects) == data.count("instance_id")
    for reject in rejects:
        assert reject.reason == "no_observation"
        assert "'a__b-1' by 'm'" in reject.detail


def test_where_tests_put_out_nothing_before_the_time_limit_nothing_is_shown():
    trajectory = evaluated(patch_diff=DIFF, test="\n\nTimeout error: 60 seconds exceeded.")
    assert (shown(trajectory), trajectory.steps[0].timed_out, trajectory.steps[0].time_limit_s) == ("", True, 60)


def read_run(document: dict, uri: str = "run.traj") -> list[Trajectory]:
    records = list(SweAgent().parse(MemoryBlob(uri, json.dumps(document, indent=2).encode())))
    assert not [record for record in records if isinstance(record, Reject)]
    return [record for record in records if isinstance(record, Trajectory)]


def step(action: str, observation: str | None, folder: str, **more: object) -> dict:
    state = json.dumps({"open_file": "n/a", "working_dir": folder})
    return {"action": action, "observation": observation, "response": action, "thought": "", "state": state, **more}


def test_a_report_right_beside_a_trajectory_judges_it():
    log = next(iter(SweAgent().join(["run/x__y-1/report.json", "run/x__y-1/x__y-1.traj"])))
    files = {"x__y-1.traj": {"trajectory": [step("ls", "", "/")], "history": []}, "report.json": {"resolved": True}}
    blob = MemoryBlob(log.uri, {name: json.dumps(files[name]).encode() for name in log.members})
    trajectories = [record for record in SweAgent().parse(blob) if isinstance(record, Trajectory)]
    assert [trajectory.outcome and trajectory.outcome.resolved for trajectory in trajectories] == [True]


def test_a_report_that_two_trajectories_could_mean_is_joined_to_neither():
    paths = ["run/a/x__y-1.traj", "run/b/x__y-1.traj", "run/logs/x__y-1/report.json"]
    assert list(SweAgent().join(paths)) == []


def test_what_the_agent_was_shown_around_an_observation_is_the_clients_whatever_its_words():
    history = [
        {"role": "user", "content": "Look.", "agent": "primary"},
        {"role": "assistant", "content": "ls", "action": "ls", "agent": "primary"},
        {"role": "user", "content": "The mill says:\nsail.py\nTwo turns are left.", "agent": "primary"},
        {"role": "assistant", "content": "rm a", "action": "rm a", "agent": "primary"},
        {"role": "user", "content": "The mill is silent.", "agent": "primary"},
        {"role": "assistant", "content": "ls", "action": "ls", "agent": "primary"},
        {"role": "user", "content": "The mill says:\nb", "agent": "primary"},
    ]
    steps = [step("ls", "sail.py\n", "/"), step("rm a", "", "/"), step("ls", "b", "/")]
    (trajectory,) = read_run({"trajectory": steps, "history": history})
    assert [entry.next_observation and entry.next_observation.content for entry in trajectory.steps] == [
        "sail.py\n",
        "",
        "b",
    ]
    notes = [[word["content"] for word in json.loads(entry.interleaved or "[]")] for entry in trajectory.steps]
    assert notes == [[], ["The mill says:", "Two turns are left."], ["The mill is silent."]]


def test_the_marker_that_a_command_ended_is_no_output_and_tells_the_exit_code():
    marker = "///PROCESS-DONE:2:PROCESS-DONE///"
    shell = "(Open file: n/a)\n(Current directory: /)\nbash-$"
    history = [
        {"role": "user", "content": "Look.", "agent": "primary"},
        {"role": "assistant", "content": "```\ncat a\n```", "action": "cat a", "agent": "primary"},
        {"role": "user", "content": f"one{marker}\n{shell}", "agent": "primary"},
        {"role": "assistant", "content": "```\nls\n```", "action": "ls", "agent": "primary"},
    ]
    followed = read_run(
        {"trajectory": [step("cat a", f"one{marker}", "/"), step("ls", "a\n", "/")], "history": history[:2]}
    )
    for trajectory in (*followed, *read_run({"history": history})):
        first, second = trajectory.steps
        assert first.next_observation is not None
        assert (first.next_observation.content, first.exit_code) == ("one", 2)
        assert marker in (second.interleaved or "")
