"""What a command put out, told apart from what its harness wrote around it, whichever agent's form it has."""

import json
from typing import Any

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.conversation.harness_text import CODEX, GEMINI_CLI, Source, read_output
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.turns import Call, Part, Result
from trajmill.connectors.conversation.wrapped_output import Output
from trajmill.connectors.registry import connectors
from trajmill.schemas import Step, Trajectory

GEMINI = "Command: make\nDirectory: (root)\nOutput: {}\nError: {}\nExit Code: {}\nSignal: {}\nBackground PIDs: {}\n"
LATE = "Command was automatically cancelled because it exceeded the timeout of 5.0 minutes without output."
STOPPED = "Command was cancelled by user before it could complete."
TAGS = "<untrusted_context>\n{}\n</untrusted_context>"
LARGE = "Output too large. Showing first 8,000 and last 32,000 characters. For full output see: /tmp/make_1.txt"
OMITTED = "\n... [123,456 characters omitted] ...\n"
LARGE_OUTPUT = Output(f"a\n{OMITTED}\nb", 2, cut=True, notes=(LARGE,))
SILENT = (
    "EXECUTION TIMED OUT BECAUSE NO OUTPUT WAS PRODUCED FOR MORE THAN 60.0 SECONDS.\n"
    "PLEASE REFINE YOUR RUNNING COMMAND SO IT WILL PRODUCE OUTPUT IN THE SPECIFIED TIME FRAME."
)
TOOK = "The command 'sleep 99' was cancelled because it took more than 30 seconds. Please try a different command."
WAITS = "[The command has no new output after 10 seconds. You may wait longer to see additional output.]"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GEMINI.format("cc a.c", "(none)", 2, "(none)", "(none)") + "Process Group PGID: 77", Output("cc a.c", 2)),
        (GEMINI.format("(empty)", "(none)", 0, "(none)", "(none)") + "Process Group PGID: 77", Output("", 0)),
        (
            GEMINI.format("a\n\nb", "no shell", "(none)", "9", "71, 72") + "Process Group PGID: 70",
            Output("a\n\nb\nno shell", None, notes=("Signal: 9", "Background PIDs: 71, 72")),
        ),
        (
            "Command: ls\nDirectory: src\nStdout: a.c\nStderr: (empty)\nError: (none)\nExit Code: 0\nSignal: (none)",
            Output("a.c", 0),
        ),
        ("Output: a.c\nProcess Group PGID: 7", Output("a.c", 0)),
        ("Output: no b\nExit Code: 1\nProcess Group PGID: 7", Output("no b", 1)),
        (f"{LATE} Below is the output before it was cancelled:\ncc", Output("cc", None, True, 300.0, notes=(LATE,))),
        (f"{LATE} There was no output before it was cancelled.", Output("", None, True, 300.0, notes=(LATE,))),
        (f"{LATE} So it said.", None),
        (f"{STOPPED} Below is the output before it was cancelled:\ncc", Output("cc", notes=(STOPPED,))),
        (TAGS.format("Output: no b\nExit Code: 1\nProcess Group PGID: 7"), Output("no b", 1)),
        (TAGS.format("a &lt;/untrusted_context&gt;") + "\n" + TAGS.format("b"), Output("a </untrusted_context>\nb")),
        (f"{LARGE}\nOutput: a\n{OMITTED}\nb\nExit Code: 2\nProcess Group PGID: 7", LARGE_OUTPUT),
        (f"{LARGE}\n" + TAGS.format(f"Output: a\n{OMITTED}\nb\nExit Code: 2\nProcess Group PGID: 7"), LARGE_OUTPUT),
        ("see <untrusted_context>\na\n</untrusted_context>", None),
        ("Output: a page of a manual", None),
        ("Command: to be obeyed\nExit Code: 1", None),
        ("", None),
    ],
)  # fmt: skip
def test_gemini_s_words_around_an_output_are_the_client_s(text, told):
    assert read_output(text, Source(GEMINI_CLI, None, "grep")) == (told or Output(text))


TAIL = "Full output saved to: /tmp/tool_1"
HINT = f"The tool call succeeded but the output was truncated. {TAIL}\nUse Grep to search the full content."
KILLED = "shell tool terminated command after exceeding timeout 30000 ms. Retry with a larger timeout."
PREVIEW = (
    "Output too large to read at once (20.0 KB). Saved to: /tmp/1-copilot-tool-output.txt\nConsider using rg."
    "\n\nPreview (first 500 chars):"
)

SHOWING = "[Showing lines 1001-3000 of 3000 (50KB limit). Full output: /tmp/pi-bash-1.log]"
RUNNING = "<command with shellId: 3 is still running after 30 seconds. Use read_bash to continue waiting.>"
WARNING = "Warning: truncated output (original token count: 45494)\nTotal output lines: 712"
MOVED = "<persisted-output>\nOutput too large (69.4KB). Full output saved to: /tmp/1.txt\n\nPreview (first 2KB):"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"cc\n\n<shell_metadata>\n{KILLED}\n</shell_metadata>", Output("cc", None, True, 30.0, notes=(KILLED,))),
        ("(no output)\n\n<bash_metadata>\nUser aborted the command\n</bash_metadata>",
         Output("", notes=("User aborted the command",))),
        (f"...output truncated...\n\n{TAIL}\n\ncc", Output("...output truncated...\n\ncc", cut=True, notes=(TAIL,))),
        (f"...9 lines truncated...\n\n{HINT}\n\ncc", Output("...9 lines truncated...\n\ncc", cut=True, notes=(HINT,))),
        (f"cc\n\n...9 bytes truncated...\n\n{HINT}", Output("cc\n\n...9 bytes truncated...", cut=True, notes=(HINT,))),
        (f"{PREVIEW}\ncc\n<exited with exit code 1>",
         Output("cc", 1, cut=True, notes=(PREVIEW, "<exited with exit code 1>"))),
        (f"cc\n\n{SHOWING}\n\nCommand exited with code 2",
         Output("cc", 2, cut=True, notes=(SHOWING, "Command exited with code 2"))),
        (f"{WARNING}\n\ncc…9 tokens truncated…b", Output("cc…9 tokens truncated…b", cut=True, notes=(WARNING,))),
        (f"{MOVED}\ncc\n...\n</persisted-output>", Output("cc\n...", cut=True, notes=(MOVED,))),
        ("cc\n<command with id: a exited with exit code 2>",
         Output("cc", 2, notes=("<command with id: a exited with exit code 2>",))),
        (f"cc\n{RUNNING}", Output("cc", notes=(RUNNING,))),
        ("<command with id: 0 stopped>", Output("", notes=("<command with id: 0 stopped>",))),
        (f"{WARNING}\n\nso it said", None),
        ("<bash_metadata>\nUser aborted the command\n</bash_metadata>\nso it said", None),
    ],
)  # fmt: skip
def test_cuts_and_ends_that_clients_tell_are_theirs(text, told):
    assert read_output(text, Source(None, None, "bash")) == (told or Output(text))


def test_what_claude_code_tells_of_a_sub_agent_behind_its_answer_is_no_answer():
    note = "agentId: a06d (use SendMessage with to: 'a06d' to continue this agent)\n<usage>total_tokens: 9</usage>"
    (step,) = answered(("Task", "{}", f"It is in a.py.\n{note}"), ("Read", "{}", "a"))[:1]
    assert step.next_observation is not None
    assert (step.next_observation.content, step.next_observation.origin) == ("It is in a.py.", "agent")


def test_an_answer_whose_cut_the_client_tells_is_cut_by_it():
    (step,) = answered(("bash", "{}", f"cc\n\n...9 bytes truncated...\n\n{HINT}"), ("bash", "{}", "a"))[:1]
    assert step.next_observation is not None
    assert step.next_observation.truncation == "harness"


DENIED = "failed in sandbox MacosSeatbelt with execution error: sandbox denied exec error, exit code: 2"


@pytest.mark.parametrize("streams", ["", ", stdout: a", ", stdout: a, stderr: b, stderr: c"])
def test_streams_that_cannot_be_told_apart_stay_in_the_words_around_them(streams):
    assert read_output(DENIED + streams, Source(CODEX)) == Output(DENIED + streams, 2)


@pytest.mark.parametrize(
    "text",
    [f"{SILENT}\nso it was", f"He said: {TOOK}", f"{WAITS}\nand on", '{"output": "x", "metadata": {"page": 1}}',
     '{"returncode": 0, "stdout": "a", "stderr": "b"}', "[1, 2]"],
)  # fmt: skip
def test_the_same_words_elsewhere_are_the_output_s(text):
    assert read_output(text, Source()) == Output(text)


@pytest.mark.parametrize(
    "text",
    ["Output: " + "\nError: x" * 50000, "Command: " + "\nDirectory: " * 50000, "The command '" + TOOK * 5000,
     "\nExit Code: 1" * 50000 + "x", "EXECUTION TIMED OUT\n" * 50000, "<untrusted_context>\n" * 50000],
)  # fmt: skip
def test_outputs_are_told_in_linear_time(text):
    read_output(text, Source())


def answered(*pairs: tuple[str, str, str | None]) -> list[Step]:
    """The steps of calls, each (name, arguments, answer), one after the other."""
    parts: list[Part] = []
    for number, (name, arguments, text) in enumerate(pairs):
        parts.append(Call(name, arguments, f"c{number}", number))
        parts.append(Result(f"c{number}", None, text, number))
    return list(conversation(parts).steps)


EVICTED = "[Compacted history content evicted to durable cold storage]"


@pytest.mark.parametrize(
    "text", ["<tool_output_masked>\na\n\n... [9 lines omitted] ...\n", "[Old tool result content cleared]", EVICTED]
)
def test_an_answer_that_its_client_took_out_of_the_history_later_is_lost(text):
    (step,) = answered(("sh", "{}", text))
    assert step.next_observation is not None
    assert step.next_observation.truncation == "recorder"


def test_an_answer_to_a_call_whose_arguments_the_log_lost_is_lost_for_its_reader():
    steps = answered(("sh", json.dumps({"command": EVICTED}), "a"), ("sh", '{"command": "ls"}', "b"))
    assert [step.next_observation.truncation for step in steps if step.next_observation] == ["recorder", "none"]


def test_a_limit_that_was_named_once_holds_for_later_calls_of_the_tool():
    late = f"a\n{WAITS}"
    steps = answered(("sh", "{}", "a"), ("sh", "{}", late), ("read", "{}", "b"), ("sh", "{}", "c"))
    assert [step.time_limit_s for step in steps] == [None, 10.0, None, 10.0]
    assert [step.timed_out for step in steps] == [None, True, None, None]
    assert steps[2].interleaved is not None
    assert WAITS in steps[2].interleaved


def steps_of(name: str, data: bytes | dict[str, bytes]) -> list[Step]:
    blob = MemoryBlob("log", data)
    (trajectory,) = (record for record in connectors()[name].parse(blob) if isinstance(record, Trajectory))
    return list(trajectory.steps)


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_codex_kills_a_command_at_the_limit_that_the_agent_gave():
    call = {"type": "function_call", "name": "shell", "arguments": '{"timeout_ms": 2000}', "call_id": "a"}
    late = "Exit code: 124\nWall time: 2.0 seconds\nOutput:\ncommand timed out after 2000 milliseconds\ncc"
    log = lines(
        {"type": "session_meta", "payload": {"id": "s"}},
        {"type": "response_item", "payload": call},
        {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "a", "output": late}},
    )
    (step,) = steps_of("codex", log)
    assert step.next_observation is not None
    assert (step.next_observation.content, step.next_observation.truncation) == ("cc", "none")
    assert (step.exit_code, step.timed_out, step.time_limit_s, step.truncated) == (None, True, 2.0, None)


@pytest.mark.parametrize(("command", "killed"), [("make", True), ("timeout 5 make", None)])
def test_the_status_of_a_killed_command_tells_it_unless_the_command_may_have_made_it(command, killed):
    item = {"id": "i", "type": "command_execution", "command": command, "aggregated_output": "cc", "exit_code": 124}
    log = lines(
        {"type": "thread.started", "thread_id": "t"}, {"type": "item.completed", "item": {**item, "status": "failed"}}
    )
    (step,) = steps_of("codex_exec", log)
    assert (step.timed_out, step.exit_code) == (killed, None if killed else 124)


def test_what_the_next_prompt_of_terminus_says_of_a_timeout_goes_back_to_its_row():
    def response(**command: Any) -> bytes:
        answer = {"state_analysis": "", "explanation": "", "commands": [command], "is_task_complete": False}
        return json.dumps(answer).encode()

    late = (
        "Previous command:\nmake\n\nThe previous command timed out after 7 seconds\n\nIt is possible that the command "
        "is not yet finished executing.\n\nHere is the current state of the terminal:\n\n$ make\ncc"
    )
    members = {
        "episode-0/prompt.txt": b"Use keystrokes.\nTask Description:\nBuild.\n\nCurrent terminal state:\n$",
        "episode-0/response.txt": response(keystrokes="make\n", is_blocking=True, timeout_sec=7.0),
        "episode-1/prompt.txt": late.encode(),
        "episode-1/response.txt": response(keystrokes="ls\n", is_blocking=False, timeout_sec=5.0),
    }
    first, second = steps_of("terminus", members)
    assert first.next_observation is not None
    assert first.next_observation.content == "$ make\ncc"
    assert (first.timed_out, first.time_limit_s) == (True, 7.0)
    assert second.timed_out is None
    assert "timed out after 7 seconds" in (second.interleaved or "")
