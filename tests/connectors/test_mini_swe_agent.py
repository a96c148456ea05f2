"""mini-swe-agent: actions within text, calls by id, and who answered."""

import json

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.swe.mini_swe_agent import MiniSweAgent
from trajmill.schemas import Observation, Step, Trajectory

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
PROMPT = [{"role": "system", "content": "One ```bash block."}, {"role": "user", "content": "Mend it."}]


def read(messages: list[dict], **info: object) -> list[Step]:
    document = {"info": info, "messages": [*PROMPT, *messages], "trajectory_format": "mini-swe-agent-1"}
    records = list(MiniSweAgent().parse(MemoryBlob("x.traj.json", json.dumps(document).encode())))
    assert len(records) == 1
    assert isinstance(records[0], Trajectory)
    return list(records[0].steps)


def agent(text: str, *calls: tuple[str, str]) -> dict:
    tool_calls = [{"id": i, "function": {"name": "bash", "arguments": json.dumps({"command": c})}} for i, c in calls]
    return {"role": "assistant", "content": text, **({"tool_calls": tool_calls} if tool_calls else {})}


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def tool(call_id: str, text: str, **extra: object) -> dict:
    return {"role": "tool", "tool_call_id": call_id, "content": text, "extra": extra}


def seen(step: Step) -> Observation:
    assert step.next_observation is not None
    return step.next_observation


@pytest.mark.parametrize(
    ("cut", "shown"),
    [
        ("\na\n\n</output_head>\n{}\n<output_tail>\nb\n\n</output_tail>", "a\n\n[1330 characters elided]\nb\n"),
        ("a</output_head>{}<output_tail>b</output_tail>", "a\n[1330 characters elided]\nb"),
        ("\na\n</output_head>\n<output_tail>\nb\n</output_tail>", "a\n[characters elided]\nb"),
        (
            "\n</output_head> of <output_tail>\n</output_head>{}<output_tail></output_tail>\n</output_tail>",
            "</output_head> of <output_tail>\n[1330 characters elided]\n</output_tail>",
        ),
        ("\nwithout an end", "without an end"),
    ],
)
def test_an_output_that_was_cut_is_its_head_and_its_tail_and_what_the_harness_left_out_between(cut, shown):
    elided = "<elided_chars>\n1330 characters elided\n</elided_chars>"
    answer = user(f"<returncode>0</returncode>\n<output_head>{cut.format(elided)}")
    step = read([agent("```bash\na\n```"), answer])[0]
    assert (seen(step).content, seen(step).truncation) == (shown, "harness")


def notes(step: Step) -> list[str]:
    messages = json.loads(step.interleaved or "[]")
    assert {message["role"] for message in messages} <= {"harness"}
    return [message["content"] for message in messages]


NEXT = agent("```bash\nb\n```")


def test_words_like_those_of_a_timeout_that_lack_an_end_are_left_as_they_are():
    text = "The last command <command>cat</command> timed out and has been killed.\nThe output of the command was:\nx"
    assert seen(read([agent("```bash\ncat\n```"), user(text)])[0]).content == text


def test_a_command_that_timed_out_last_is_answered_by_the_environment_when_limits_end_the_run():
    text = "<exception>timed out</exception>\n<returncode>-1</returncode>\n<output>\na</output>"
    step = read([agent("```bash\na\n```"), user(text)], exit_status="LimitsExceeded")[0]
    assert (seen(step).origin, step.terminated, step.truncated) == ("environment", False, True)


def test_the_harnesss_keys_of_an_answer_that_is_an_object_are_told_apart():
    exception = '"exception_info": "it \\"timed\\" out"'
    quoted = '"output": "a, \\"exception_info\\": \\"mine\\""'
    text = f'{{\n  "returncode": -1,\n  {quoted}, {exception}\n}}'
    steps = read([agent("", ("a", "x")), tool("a", text, returncode=-1, exception_info="x"), NEXT])
    assert (seen(steps[0]).content, steps[0].exit_code) == ('a, "exception_info": "mine"', None)
    assert notes(steps[1]) == ['it "timed" out']
    cut = '"output_head": "a",\n  "output_tail": "b",\n  "elided_chars": 9'
    text = f'{{\n  "returncode": 0,\n  {cut},\n  "warning": "Output too long."\n}}'
    steps = read([agent("", ("a", "x")), tool("a", text, returncode=0), NEXT])
    assert seen(steps[0]).content == "a\n[9 characters elided]\nb"
    assert (seen(steps[0]).truncation, steps[0].exit_code) == ("harness", 0)
    assert notes(steps[1]) == ["Output too long."]


@pytest.mark.parametrize(
    "text",
    [
        "The last command <command>" + "\n" * 500_000,
        '{"returncode": 1' + ', "warning": "x"' * 50_000,
        '{"returncode": 1' + ",\n" * 200_000,
        "<exception>" * 50_000,
    ],
)
def test_the_harnesss_words_are_looked_for_in_linear_time(text):
    assert seen(read([agent("", ("a", "x")), tool("a", text)])[0]).content == text


def test_a_submission_that_the_run_did_not_end_with_has_no_answer():
    messages = [agent("", ("a", SUBMIT)), {"role": "exit", "content": "LimitsExceeded", "extra": {}}]
    assert read(messages, exit_status="LimitsExceeded")[0].next_observation is None


def test_what_the_user_typed_instead_is_the_users():
    step = read([agent("```bash\na\n```"), user("Command not executed. The user rejected your command: no")])[0]
    assert seen(step).origin == "user"


def test_each_trajectory_of_a_run_is_a_log_of_its_own_and_the_summary_is_shared_by_all():
    paths = ["r/results_summary.json", *(f"r/trajs/x__y-{n}/x__y-{n}.traj.json" for n in range(3))]
    logs = list(MiniSweAgent().join(paths))
    assert [log.uri for log in logs] == paths[1:]
    assert all(log.shared == {"results_summary.json"} for log in logs)
    summary = {"instances": [{"instance_id": f"x__y-{n}", "resolved": n == 1} for n in range(3)]}
    for number, log in enumerate(logs):
        document = {"info": {"mini_version": "1.15.0"}, "messages": [user("Mend it."), agent("```bash\nls\n```")]}
        files = {log.anchor: document, "results_summary.json": summary}
        blob = MemoryBlob(log.uri, {name: json.dumps(value).encode() for name, value in files.items()})
        (trajectory,) = MiniSweAgent().parse(blob)
        assert isinstance(trajectory, Trajectory)
        assert trajectory.task.id == f"x__y-{number}"
        assert trajectory.outcome is not None
        assert trajectory.outcome.resolved == (number == 1)


def test_reports_far_from_a_trajectory_are_not_joined():
    assert list(MiniSweAgent().join(["logs/x__y-1/report.json", "of/quite/another/run/x__y-1.traj.json"])) == []


def test_token_ids_of_the_raw_reply_are_kept_unless_two_replies_are_one_turn():
    reply = {"choices": [{"provider_specific_fields": {"token_ids": [5, 9]}, "logprobs": None}], "created": 1}
    first, second = ({**agent("", (key, "ls")), "extra": {"response": reply}} for key in "ab")
    ids = {"token_ids": [5, 9], "logprobs": None}
    all_steps = read([first, tool("a", "x"), second, tool("b", "x")])
    assert [json.loads(step.action.sampled or "null") for step in all_steps] == [ids, ids]
    all_steps = read([first, second, tool("a", "x"), tool("b", "x")])
    assert [step.action.sampled for step in all_steps] == [None, None]
    for bad in (7, {"choices": 7}, {"choices": [7]}, {"choices": [{"token_ids": ["5"]}]}):
        all_steps = read([{**agent("", ("a", "ls")), "extra": {"response": bad}}, tool("a", "x")])
        assert [step.action.sampled for step in all_steps] == [None]
