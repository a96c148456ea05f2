"""SWE-agent: which observation belongs to which action, in each generation of the format."""

import json

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.swe.sweagent import SweAgent
from trajmill.schemas import Reject, Trajectory


def read(document: dict, uri: str = "run.traj") -> list[Trajectory]:
    found = list(SweAgent().parse(MemoryBlob(uri, json.dumps(document, indent=2).encode())))
    assert not [one for one in found if isinstance(one, Reject)]
    return [one for one in found if isinstance(one, Trajectory)]


def step(action: str, observation: str | None, folder: str, **more: object) -> dict:
    state = json.dumps({"open_file": "n/a", "working_dir": folder})
    return {"action": action, "observation": observation, "response": action, "thought": "", "state": state, **more}


def test_a_report_right_beside_a_trajectory_judges_it():
    log = next(iter(SweAgent().join(["run/x__y-1/report.json", "run/x__y-1/x__y-1.traj"])))
    files = {"x__y-1.traj": {"trajectory": [step("ls", "", "/")], "history": []}, "report.json": {"resolved": True}}
    blob = MemoryBlob(log.uri, {name: json.dumps(files[name]).encode() for name in log.members})
    made = [one for one in SweAgent().parse(blob) if isinstance(one, Trajectory)]
    assert [one.outcome and one.outcome.resolved for one in made] == [True]


def test_a_report_that_two_trajectories_could_mean_is_joined_to_neither():
    paths = ["run/a/x__y-1.traj", "run/b/x__y-1.traj", "run/logs/x__y-1/report.json"]
    assert list(SweAgent().join(paths)) == []


def test_what_the_agent_was_shown_around_an_observation_is_the_clients_whatever_its_words():
    told = [
        {"role": "user", "content": "Look.", "agent": "primary"},
        {"role": "assistant", "content": "ls", "action": "ls", "agent": "primary"},
        {"role": "user", "content": "The mill says:\nsail.py\nTwo turns are left.", "agent": "primary"},
        {"role": "assistant", "content": "rm a", "action": "rm a", "agent": "primary"},
        {"role": "user", "content": "The mill is silent.", "agent": "primary"},
        {"role": "assistant", "content": "ls", "action": "ls", "agent": "primary"},
        {"role": "user", "content": "The mill says:\nb", "agent": "primary"},
    ]
    steps = [step("ls", "sail.py\n", "/"), step("rm a", "", "/"), step("ls", "b", "/")]
    (made,) = read({"trajectory": steps, "history": told})
    assert [one.next_observation and one.next_observation.content for one in made.steps] == ["sail.py\n", "", "b"]
    said = [[word["content"] for word in json.loads(one.interleaved or "[]")] for one in made.steps]
    assert said == [[], ["The mill says:", "Two turns are left."], ["The mill is silent."]]


def test_the_marker_that_a_command_ended_is_no_output_and_tells_the_exit_code():
    marker = "///PROCESS-DONE:2:PROCESS-DONE///"
    shell = "(Open file: n/a)\n(Current directory: /)\nbash-$"
    told = [
        {"role": "user", "content": "Look.", "agent": "primary"},
        {"role": "assistant", "content": "```\ncat a\n```", "action": "cat a", "agent": "primary"},
        {"role": "user", "content": f"one{marker}\n{shell}", "agent": "primary"},
        {"role": "assistant", "content": "```\nls\n```", "action": "ls", "agent": "primary"},
    ]
    followed = read({"trajectory": [step("cat a", f"one{marker}", "/"), step("ls", "a\n", "/")], "history": told[:2]})
    for made in (*followed, *read({"history": told})):
        first, second = made.steps
        assert first.next_observation is not None
        assert (first.next_observation.content, first.exit_code) == ("one", 2)
        assert marker in (second.interleaved or "")
