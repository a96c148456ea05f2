"""SWE-agent: which observation belongs to which action, in each generation of the format."""

import json

import pytest

from tests.conftest import ROOT
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.swe.sweagent import SweAgent
from trajmill.schemas import ParseError, Reject, Trajectory

INPUT = ROOT / "tests" / "fixtures" / "sweagent" / "input"


def read(document: dict, uri: str = "run.traj") -> list[Trajectory]:
    found = list(SweAgent().parse(MemoryBlob(uri, json.dumps(document, indent=2).encode())))
    assert not [one for one in found if isinstance(one, Reject)]
    return [one for one in found if isinstance(one, Trajectory)]


def step(action: str, observation: str | None, folder: str, **more: object) -> dict:
    state = json.dumps({"open_file": "n/a", "working_dir": folder})
    return {"action": action, "observation": observation, "response": action, "thought": "", "state": state, **more}


def test_the_folder_of_an_observation_is_the_state_before_the_next_action_in_0x():
    made = read({"trajectory": [step("cd b", "", "/a"), step("pwd", "/a/b", "/a/b")], "history": [], "info": {}})[0]
    assert [one.next_observation.uri for one in made.steps if one.next_observation] == ["/a/b", None]


def test_the_folder_of_an_observation_is_the_state_after_its_action_from_1_0_on():
    steps = [step("cd b", "", "/a/b", execution_time=0.1), step("pwd", "/a/b", "/a/b", execution_time=0.1)]
    made = read({"trajectory": steps, "history": [], "info": {}})[0]
    assert [one.next_observation.uri for one in made.steps if one.next_observation] == ["/a/b", "/a/b"]


def test_an_observation_is_the_next_one_of_the_step_before_it():
    made = read({"trajectory": [step("ls", "one", "/"), step("cat one", "1\r\n", "/")], "history": []})[0]
    assert made.steps[0].observation is None
    assert made.steps[1].observation is made.steps[0].next_observation
    assert made.steps[1].next_observation is not None
    assert made.steps[1].next_observation.content == "1\r\n"


def test_an_entry_by_which_the_harness_gave_up_is_no_action_and_truncates():
    closing = {
        "action": "",
        "observation": "Exited",
        "response": "Exit due to cost limit",
        "thought": "Exit due to cost limit",
    }
    for last in (step("exit_context", "Exited", "/"), closing):
        made = read({"trajectory": [step("ls", "one", "/"), last], "info": {"exit_status": "exit_context"}})[0]
        assert [one.action.arguments for one in made.steps] == ['{"command": "ls"}']
        assert (made.steps[0].terminated, made.steps[0].truncated) == (False, True)


def test_a_submission_after_a_limit_is_truncated_and_one_by_the_agent_terminates():
    for status, ends in (("submitted (exit_cost)", (False, True)), ("submitted", (True, False)), (None, (None, None))):
        made = read({"trajectory": [step("submit", "diff", "/")], "info": {"exit_status": status}})[0]
        assert (made.steps[0].terminated, made.steps[0].truncated) == ends


def test_calls_are_taken_from_history_in_order_although_their_lines_and_ids_repeat():
    def said(action: str, **arguments: str) -> dict:
        function = {"name": "open", "arguments": json.dumps(arguments)}
        return {
            "role": "assistant",
            "content": "",
            "action": action,
            "tool_calls": [{"id": "call", "function": function}],
        }

    history = [said("open x", path="x", line="1"), said("ls"), said("open x", path="x", line="2")]
    steps = [step("open x", "1", "/"), step("typed", "?", "/"), step("open x", "2", "/")]
    made = read({"trajectory": steps, "history": history})[0]
    assert [one.action.arguments for one in made.steps] == [
        '{"path": "x", "line": "1"}',
        '{"command": "typed"}',
        '{"path": "x", "line": "2"}',
    ]


def test_demonstrations_are_context_and_not_steps():
    shown = [{"role": "assistant", "is_demo": True, "content": "```\nrm x\n```", "action": "rm x"}]
    history = [{"role": "system", "content": "Be brief."}, *shown, {"role": "user", "content": "Mend it."}]
    made = read({"trajectory": [step("ls", "one", "/")], "history": history})[0]
    assert made.context.demonstrations == "```\nrm x\n```"
    assert made.task.instruction == "Mend it."
    assert made.context.agent_system == "Be brief."
    assert len(made.steps) == 1


def test_the_chosen_attempt_counts_once():
    one, two = ({"trajectory": [step(name, "", "/")], "history": []} for name in ("first", "second"))
    assert [made.native_id for made in read({"attempts": [one, two], **two})] == ["/0", "/1"]


def test_each_offset_is_where_the_record_begins():
    data = (INPUT / "tool_calls.traj").read_bytes()
    made = next(one for one in SweAgent().parse(MemoryBlob("x.traj", data)) if isinstance(one, Trajectory))
    begun = [data[one.offset :].split(b"\n")[1].strip() for one in made.steps]
    assert begun[0] == b'"action": "find_file valve.py",'
    assert begun[3] == b'"action": "submit",'


def test_the_id_of_an_instance_comes_from_the_file_only_if_it_has_the_form_of_one():
    document = {"trajectory": [step("ls", "", "/")], "history": []}
    assert read(document, "runs/acme__rocket-12.traj")[0].task.id == "acme__rocket-12"
    assert read(document, "runs/demonstration.traj")[0].task.id is None


def test_a_report_of_the_same_id_in_the_run_folder_is_joined_and_others_are_not():
    paths = ["a/run/x__y-1/x__y-1.traj", "a/run/logs/x__y-1/report.json", "a/run/logs/x__y-2/report.json"]
    logs = list(SweAgent().join(sorted(paths)))
    assert [(log.uri, sorted(log.members)) for log in logs] == [
        ("a/run/x__y-1/x__y-1.traj", ["logs/x__y-1/report.json", "x__y-1/x__y-1.traj"])
    ]


def test_a_report_right_beside_a_trajectory_judges_it():
    log = next(iter(SweAgent().join(["run/x__y-1/report.json", "run/x__y-1/x__y-1.traj"])))
    files = {"x__y-1.traj": {"trajectory": [step("ls", "", "/")], "history": []}, "report.json": {"resolved": True}}
    blob = MemoryBlob(log.uri, {name: json.dumps(files[name]).encode() for name in log.members})
    made = [one for one in SweAgent().parse(blob) if isinstance(one, Trajectory)]
    assert [one.outcome and one.outcome.resolved for one in made] == [True]


def test_a_report_that_two_trajectories_could_mean_is_joined_to_neither():
    paths = ["run/a/x__y-1.traj", "run/b/x__y-1.traj", "run/logs/x__y-1/report.json"]
    assert list(SweAgent().join(paths)) == []


def test_a_step_without_an_action_is_rejected_with_its_offset():
    data = json.dumps({"trajectory": [{"observation": "x"}, step("ls", "", "/")], "history": []}, indent=1).encode()
    rejects = [one for one in SweAgent().parse(MemoryBlob("x.traj", data)) if isinstance(one, Reject)]
    assert [(one.reason, data[one.offset : one.offset + 1]) for one in rejects] == [("bad_step", b"{")]


def test_a_truncated_file_is_rejected_with_the_place_where_it_ends():
    data = (INPUT / "tool_calls.traj").read_bytes()[:700]
    with pytest.raises(ParseError) as met:
        list(SweAgent().parse(MemoryBlob("x.traj", data)))
    assert (met.value.reason, met.value.offset) == ("truncated", 700)


@pytest.mark.parametrize("key", ["query", "messages"])
def test_what_the_model_was_asked_is_read_by_its_name_of_the_first_1_x_and_of_later_ones(key):
    prompt = [
        {"role": "system", "content": "Mend.", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "The lamp is dark.", "agent": "main", "message_type": "observation"},
    ]
    reply = {"role": "assistant", "content": "no command", "agent": "main", "message_type": "assistant"}
    refusal = {"role": "user", "content": "That was no command.", "agent": "main", "message_type": "user"}
    steps = [
        step("", "", "/", response="no command", execution_time=0.0, **{key: prompt}),
        step("ls", "lamp.py", "/", execution_time=0.1, **{key: [*prompt, reply, refusal]}),
    ]
    made = read({"trajectory": steps, "info": {}})[0]
    assert (made.context.agent_system, made.task.instruction) == ("Mend.", "The lamp is dark.")
    seen = [one.next_observation for one in made.steps]
    assert [(one.content, one.origin) for one in seen if one] == [
        ("That was no command.", "harness"),
        ("lamp.py", "environment"),
    ]


def test_a_step_that_holds_query_and_messages_is_read_by_its_query():
    asked = [{"role": "system", "content": "Of the query."}]
    other = [{"role": "system", "content": "Of the messages."}]
    made = read({"trajectory": [step("ls", "a", "/", query=asked, messages=other)], "info": {}})[0]
    assert made.context.agent_system == "Of the query."


def test_a_log_whose_first_step_begins_with_its_messages_is_recognized():
    document = {"trajectory": [{"messages": [], **step("ls", "a", "/")}], "history": [], "info": {}}
    assert SweAgent().sniff(json.dumps(document).encode(), "run.traj") is not None


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


def test_the_marker_that_a_command_ended_stays_where_output_follows_it():
    text = "///PROCESS-DONE:0:PROCESS-DONE///\nand more\n"
    made = read({"trajectory": [step("cat log", text, "/")], "history": []})[0]
    assert made.steps[0].next_observation is not None
    assert (made.steps[0].next_observation.content, made.steps[0].exit_code) == (text, None)
