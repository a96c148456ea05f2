"""Terminal-Bench trials: what is one log, what is the harness's own, and what agents logged in the recording."""

import json

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.recordings.terminal_bench import TerminalBench
from trajmill.connectors.recordings.terminal_bench.agent_logs import Printed, agent_log, plain, unfolded
from trajmill.connectors.registry import sniff
from trajmill.schemas import ParseError, Reject, Step, Trajectory

CONNECTOR = TerminalBench()
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
MARKER = "; tmux wait -S done"


def cast(*events: tuple[str, str]) -> bytes:
    rows = [{"version": 2, "width": 60, "height": 10, "timestamp": 1900000000}]
    rows += [[float(number), code, data] for number, (code, data) in enumerate(events)]  # type: ignore[misc]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def typed(command: str, shown: str = "") -> list[tuple[str, str]]:
    return [("i", f"{command}\r"), ("o", f"{command}\r\n\x1b[?2004l\r{shown}{PROMPT}")]


def parsed(*events: tuple[str, str], **results: object) -> tuple[list[Trajectory], list[Reject]]:
    members = {
        "results.json": json.dumps({**RESULTS, **results}).encode(),
        "sessions/agent.cast": cast(("o", PROMPT), *typed("clear"), *events, ("i", "\x04"), ("o", "exit\r\n")),
    }
    found = list(CONNECTOR.parse(MemoryBlob("t.1-of-1", members)))
    return [one for one in found if isinstance(one, Trajectory)], [one for one in found if isinstance(one, Reject)]


def reason_of(*events: tuple[str, str], **results: object) -> str:
    with pytest.raises(ParseError) as caught:
        parsed(*events, **results)
    return caught.value.reason


def test_a_trial_is_one_log_and_the_results_of_a_run_are_none():
    trial = "run/t/t.1-of-1.run"
    paths = ["run/results.json", "run/run.log", f"{trial}/commands.txt", f"{trial}/panes/post-agent.txt"]
    paths += [f"{trial}/results.json", f"{trial}/sessions/agent.cast", f"{trial}/sessions/agent.log"]
    (log,) = CONNECTOR.join(sorted(paths))
    assert (log.uri, log.anchor, len(log.members)) == (trial, "results.json", 5)
    assert CONNECTOR.sniff(json.dumps({"id": "x", "results": [RESULTS]}).encode(), "results.json") is None


def test_trials_that_hold_episodes_of_an_agent_are_left_to_it():
    paths = ["t/agent-logs/episode-0/prompt.txt", "t/results.json", "t/sessions/agent.cast"]
    assert list(CONNECTOR.join(paths)) == []


def test_what_the_harness_types_is_no_step_and_its_marker_is_nowhere():
    (one,), rejects = parsed(*typed("ls" + MARKER, "a\r\n"))
    assert rejects == []
    (step,) = one.steps
    assert json.loads(step.action.text)[0]["keystrokes"] == "ls\n"
    assert step.observation is not None
    assert step.next_observation is not None
    assert (step.next_observation.content or "").endswith("root@b:/app# ls\na\nroot@b:/app#")
    assert "tmux" not in (step.action.arguments or "")


def test_a_marker_that_the_terminal_wrapped_is_taken_off_too():
    command = "echo " + "x" * 32
    (one,), _ = parsed(*typed(command + MARKER, "xx\r\n"))
    seen = one.steps[0].next_observation
    assert seen is not None
    assert "tmux" not in (seen.content or "").replace("\n", "")
    assert f"{command}\n" in (seen.content or "")


def test_task_outcome_and_id_come_from_the_results():
    (one,), _ = parsed(*typed("ls"))
    assert (one.native_id, one.task.id, one.task.instruction) == ("u-1", "t", "Do [it].")
    assert one.outcome is not None
    assert (one.outcome.resolved, one.outcome.score) == (True, 0.5)


def test_an_unknown_verdict_stays_unknown():
    (one,), _ = parsed(*typed("ls"), is_resolved=None, parser_results=None, failure_mode="parse_error")
    assert one.outcome is None
    assert one.steps[-1].truncated is None


def test_a_timeout_of_the_agent_cuts_the_last_step():
    (one,), _ = parsed(*typed("ls"), failure_mode="agent_timeout")
    assert one.steps[-1].truncated is True


def test_an_empty_recording_is_refused_whatever_its_reward():
    assert reason_of() == "empty_recording"
    assert reason_of(is_resolved=True, parser_results={"a": "passed"}) == "empty_recording"


def test_the_talk_of_an_unknown_agent_is_no_observation():
    assert reason_of(*typed("source /installed-agent/setup-env.sh"), *typed("agent -p x", "I think\r\n")) == (
        "unknown_agent_log"
    )


def test_code_in_commands_is_not_run():
    members = {"results.json": json.dumps(RESULTS).encode(), "commands.txt": b"[open('x')]\n" + b"[" * 5000 + b"\n"}
    members["sessions/agent.cast"] = cast(("o", PROMPT), *typed("ls"))
    found = list(CONNECTOR.parse(MemoryBlob("t", members)))
    assert [one.reason for one in found if isinstance(one, Reject)] == ["bad_command", "bad_command"]


def test_an_entry_of_commands_that_is_a_plain_string_is_read_like_a_list_of_one():
    def told(commands: bytes) -> list[str]:
        members = {"results.json": json.dumps(RESULTS).encode(), "commands.txt": commands}
        members["sessions/agent.cast"] = cast(("o", PROMPT), *typed("ls"))
        found = list(CONNECTOR.parse(MemoryBlob("t", members)))
        assert any(isinstance(one, Trajectory) for one in found)
        return [one.reason for one in found if isinstance(one, Reject)]

    assert told(b"'source /setup.sh'\n['ls', 'Enter']\n\"it's\"\n") == []
    assert told(b"'cut\n7\nNone\n") == ["bad_command"] * 3
    with pytest.raises(ParseError) as caught:
        told(b"'source /installed-agent/setup-env.sh'\n")
    assert caught.value.reason == "unknown_agent_log"


def test_trial_results_alone_are_recognized_before_other_json():
    found = sniff(json.dumps(RESULTS).encode(), "t/results.json")
    assert found[0][0].name == "terminal_bench"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("ls -la\ncat x", None),
        ("a" * 38 + " \nlong", "a" * 38 + " long"),
        ("a" * 38 + "\nlong", None),
        ("a" * 38 + " \n  indented", None),
        ("a" * 38 + " \n", None),
        ("a" * 34 + " \nlong", None),
        ("a" * 40 + "\nbc\nd", "a" * 40 + "bc\nd"),
        ("a" * 40 + "\n" + "b" * 40 + "\nc", "a" * 40 + "b" * 40 + "c"),
    ],
)
def test_a_line_break_that_a_console_put_in_is_taken_out_and_no_other(text: str, whole: str | None):
    assert unfolded(text, 40) == (text if whole is None else whole)


def test_lines_drawn_anew_show_the_last():
    assert plain("10%\r20%\r\n\x1b[32mok\x1b[0m\r\n") == "20%\nok\n"
    assert plain("wait\r\n\x1b[1A\x1b[2K\rdone") == "done\n"
    assert plain("longer\rab") == "abnger"


def test_an_output_with_a_rule_of_its_own_is_kept_whole():
    heading = "\r\n\x1b[1;31mmini-swe-agent\x1b[0m\x1b[31m (step \x1b[0m\x1b[1;31m1\x1b[0m, $0.1):\x1b[0m\r\n"
    text = "This is mini-swe-agent version 1.0\r\n" + heading + "THOUGHT: x\r\n\r\n```bash\r\nls\r\n```\r\n"
    text += (
        "\r\n\x1b[1;32mUser\x1b[0m:\r\n<returncode>0</returncode>\r\n<output>\r\n"
        + "─" * 30
        + "\r\nend\r\n</output>\r\n"
    )
    log = agent_log(Printed([(7, 1.0, text)]), 160, None)
    assert log is not None
    (step,) = log.runs()[0]
    assert step.next_observation is not None
    assert step.next_observation.content == "─" * 30 + "\nend"
    assert (step.exit_code, step.offset, step.action.reasoning) == (0, 7, "THOUGHT: x")


def mini_steps(*turns: tuple[str, str]) -> list[Step]:
    """The steps of mini-swe-agent's log of commands and the messages that answered them."""
    heading = "\r\n\x1b[1;31mmini-swe-agent\x1b[0m (step \x1b[0m\x1b[1;31m1\x1b[0m, $0.1):\x1b[0m\r\n"
    text = "This is mini-swe-agent version 1.0\r\n"
    for command, answer in turns:
        text += f"{heading}THOUGHT: x\n\n```bash\n{command}\n```\n\r\n\x1b[1;32mUser\x1b[0m:\r\n{answer}\n"
    log = agent_log(Printed([(0, 1.0, text)]), 300, None)
    assert log is not None
    return log.runs()[0]


def test_a_command_that_timed_out_shows_its_output_and_what_the_agent_program_says_of_it_stands_apart():
    head = "The last command <command>cat</command> timed out and has been killed.\nThe output of the command was:"
    tail = "Please try another command and make sure to avoid those requiring interactive input."
    whole = f"{head}\n <output>\nhalf\n</output>\n{tail}"
    ends = "<output_head>\na\n</output_head><output_tail>\nb\n</output_tail>"
    cut = f"{head}\n<warning>\nLong.\n</warning>\n{ends}\n{tail}"
    steps = mini_steps(("cat", whole), ("cat", cut), ("ls", "<returncode>0</returncode>\n<output>\n</output>"))
    seen = [step.next_observation for step in steps]
    assert [(one.content, one.origin, one.truncation) for one in seen if one] == [
        ("half", "environment", "none"),
        ("a\n[characters elided]\nb", "environment", "harness"),
        ("", "environment", "none"),
    ]
    assert [step.exit_code for step in steps] == [None, None, 0]
    notes = [[one["content"] for one in json.loads(step.interleaved or "[]")] for step in steps]
    assert notes == [[], [head, tail], [head, "Long.", tail]]


def test_a_return_code_of_minus_one_in_the_log_of_an_agent_is_none():
    answer = "<returncode>{}</returncode>\n<output>\nx\n</output>"
    steps = mini_steps(("a", answer.format(-1)), ("b", answer.format(-9)))
    assert [step.exit_code for step in steps] == [None, -9]


def test_what_openhands_itself_ran_is_no_step():
    record = "06:00:0{} - ACTION\n**CmdRunAction (source={}, is_input=False)**\nCOMMAND:\n{}\n"
    text = record.format(1, "None", "setup") + record.format(2, "EventSource.AGENT", "pwd")
    log = agent_log(Printed([(0, 0.0, text)]), 80, 0.0)
    assert log is not None
    assert [step.action.arguments for step in log.runs()[0]] == ['{"command": "pwd"}']
    assert log.runs()[0][0].next_observation is None


@pytest.mark.parametrize(
    "logged",
    [
        "06:00:01 - LiteLLM:INFO: utils.py:3230 -\nLiteLLM completion() model= m; provider = anthropic\n",
        "\nGive Feedback / Get Help: https://github.com/BerriAI/litellm/issues/new\nProvider List: https://docs\n\n",
        "INFO:httpx:HTTP Request: POST https://api.example\n",
    ],
)
def test_what_a_library_logs_between_role_and_answer_is_no_part_of_it(logged):
    (step,) = mini_steps(("ls", f"{logged}<returncode>1</returncode>\n<output>\nno\n</output>"))
    assert step.next_observation is not None
    assert (step.next_observation.content, step.next_observation.origin, step.exit_code) == ("no", "environment", 1)


def test_what_a_command_put_out_may_look_like_a_library_s_log():
    line = "06:00:01 - LiteLLM:INFO: of the program itself"
    (step,) = mini_steps(("ls", f"<returncode>0</returncode>\n<output>\n{line}\n</output>"))
    assert step.next_observation is not None
    assert step.next_observation.content == line
