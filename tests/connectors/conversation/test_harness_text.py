"""The table of clients' words: where each form counts, and what the tools' own answers look like without them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.make import call, steps_of
from tests.rows import parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.conversation.harness_text import (
    CLAUDE_CODE,
    FORMS,
    Source,
    read_output,
    strip_forms,
    truncation,
)
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.turns import Call, Result
from trajmill.connectors.conversation.wrapped_output import Output
from trajmill.connectors.registry import connectors
from trajmill.schemas import Agent, Observation, Steps, Trajectory

MOVED = "Shell cwd was reset to /srv/mill"
SILENT = "(Bash completed with no output)"


def test_each_form_before_an_output_is_taken_once():
    bash = Source(CLAUDE_CODE, None, "Bash", True)
    output = read_output("Exit code 3\nCommand timed out after 2m 5s\nExit code 4\n", bash)
    assert output == Output("Exit code 4\n", 3, True, 125.0)


def claude_row(call: dict[str, Any], answer: str, version: str = "2.1.92") -> dict[str, Any]:
    beside = {"sessionId": "s", "version": version, "timestamp": "2026-04-07T10:00:00Z"}
    use = {"type": "tool_use", "id": "t", **call}
    result = {"type": "tool_result", "tool_use_id": "t", "content": answer}
    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": "u0", "parentUuid": None, "message": {"role": "user", "content": "Look."}},
        {"type": "assistant", "uuid": "u1", "parentUuid": "u0", "message": {"role": "assistant", "content": [use]}},
        {"type": "user", "uuid": "u2", "parentUuid": "u1", "message": {"role": "user", "content": [result]}},
    ]
    data = b"".join(json.dumps({**beside, **line}).encode() + b"\n" for line in lines)
    ((row,), rejects) = parsed(connectors()["claude_code"], MemoryBlob("log", data))
    assert rejects == []
    return row["next_observation"]


@pytest.mark.parametrize(
    ("agent", "text", "expected"),
    [
        ("claude-code", "a\n... [31 lines truncated] ...\nb", "harness"),
        ("claude-code", "(Results are truncated. Consider using a more specific path or pattern.)", "harness"),
        ("claude-code", "<persisted-output>\na\n</persisted-output>", "harness"),
        ("claude-code", "[Old tool result content cleared]", "recorder"),
        ("codex", "a\n[... omitted 2 of 9 lines ...]\nb", "harness"),
        ("codex", "a…12 tokens truncated…b", "harness"),
        ("gemini-cli", "IMPORTANT: The file content has been truncated.", "harness"),
        ("gemini-cli", "a\n... [8 lines omitted] ...\nb", "harness"),
        ("kimi-cli", "[Truncated at 100 matches]\na", "harness"),
        ("swe-agent", "a<response clipped>", "harness"),
        ("mini-swe-agent", "a\n[12 characters elided] ...", "harness"),
        ("openhands", "a [... Observation truncated due to length ...] b", "harness"),
        ("terminus", "a\n[... output limited to 9 bytes; 5 interior bytes omitted ...]", "harness"),
        (
            "inspect_ai",
            "The output of your call to f was too long to be displayed.\nHere is a truncated version:",
            "harness",
        ),
        ("claude-desktop", "a ... [7 chars truncated] ...", "recorder"),
        ("swe-agent", "a [trimmed for fixture]", "recorder"),
        ("claude-code", "a\n[... omitted 2 of 9 lines ...]\nb", "none"),
    ],
)
def test_missing_text_is_found_by_its_clients_words(agent, text, expected):
    assert truncation(text, Source(agent)) == expected


def test_answers_of_claude_code_are_what_its_tools_said():
    bash = {"name": "Bash", "input": {"command": "ls"}}
    assert claude_row(bash, "sail\n[result-id: r1]\n[rerun: b1]")["content"] == "sail"
    assert claude_row(bash, "sail\n[result-id: r1]", "2.0.14")["content"] == "sail\n[result-id: r1]"
    assert claude_row(bash, SILENT)["content"] == ""
    assert (
        claude_row({"name": "WebFetch", "input": {"url": "https://mill.example"}}, "It says so.")["origin"] == "agent"
    )


@pytest.mark.parametrize(
    ("name", "answer", "content", "origin"),
    [
        ("Bash", f"sail\n{MOVED}", "sail", "environment"),
        ("bash", SILENT, "", "environment"),
        ("WebFetch", "It says so.", "It says so.", "agent"),
        ("think", "Noted.", "Noted.", "harness"),
        ("exec", "sail\n\nCommand exited with code 3", "sail", "environment"),
        ("bash", "sail\nCommandExecError: 2", "sail", "environment"),
        ("bash", "<returncode>2</returncode>\n<output>\nsail\nCommandExecError: 2\n</output>", "sail", "environment"),
        ("bash_command", "New Terminal Output:\n$ ls\nsail\n$", "$ ls\nsail\n$", "environment"),
        ("terminal", '{"output": "sail", "exit_code": 1, "error": null}', "sail", "environment"),
        ("terminal", '{"output": "", "exit_code": -1, "error": "no such mill"}', "no such mill", "environment"),
        (
            "Write",
            "Written. (file state is current in your context — no need to Read it back)",
            "Written.",
            "environment",
        ),
        ("web_fetch", "<html>", "<html>", "environment"),
    ],
)
def test_answers_in_a_log_that_names_no_client_are_told_from_its_words_too(name, answer, content, origin):
    result = conversation([Call(name, "{}", "c", 0), Result("c", name, answer, 0)])
    (step,) = result.steps
    assert step.next_observation is not None
    assert (step.next_observation.content, step.next_observation.origin) == (content, origin)


def test_the_budget_that_hermes_tells_with_an_output_is_its_own_word():
    answer = {"output": "sail", "exit_code": 3, "error": None, "_budget_warning": "[9 calls left]"}
    output = read_output(json.dumps(answer), Source(tool="terminal"))
    assert output == Output("sail", 3, notes=("[9 calls left]",))


def test_a_command_that_pi_killed_has_the_seconds_it_was_given():
    output = read_output("sail\n\n\nCommand timed out after 600 seconds", Source(tool="bash"))
    assert output == Output("sail", killed=True, limit=600.0, notes=("Command timed out after 600 seconds",))


@pytest.mark.parametrize(
    ("client", "tool", "answer", "truncation"),
    [
        ("kimi-cli", "Glob", "[Truncated at 100 matches]\na.py\nb.py", "harness"),
        ("pi", "Glob", "[Truncated at 100 matches]\na.py\nb.py", "none"),
        ("pi", "read", "a mill [trimmed for fixture]", "recorder"),
    ],
)
def test_marks_of_cuts_count_in_sessions_of_their_client(client, tool, answer, truncation):
    (step,) = steps_of(answer)
    log = Trajectory("s", "terminal", [replace(step, action=call(tool))], agent=Agent(client, None))
    (step,) = strip_forms(log).steps
    assert step.next_observation is not None
    assert step.next_observation.truncation == truncation


def test_every_row_of_the_table_has_a_pattern_that_stops_on_long_texts():
    tags = "<status>a</status>\n\n<stdout>\n" + "</stdout>\n\n<stderr>\n" * 5_000
    for text in (
        tags,
        "Observation: " + "<response clipped" * 5_000,
        "a" * 50_000,
        "\n" * 50_000,
        "Command: " + "Wall time: \n" * 5_000,
        "… 1" * 20_000,
    ):
        for form in FORMS:
            search = form.pattern.search if form.meaning in ("cut", "lost") else form.pattern.match
            assert search(text) is None or form.pattern.match("") or form.tools & {"WebFetch"}


POLLED = """<status>failed</status>

<exit_code>2</exit_code>

<stdout>
sail
</stdout>

<stderr>
no mill
</stderr>

<timestamp>2026-01-02T03:04:05.000Z</timestamp>"""
TASK = """<retrieval_status>success</retrieval_status>

<task_id>b7</task_id>

<task_type>local_bash</task_type>

<status>completed</status>

<exit_code>0</exit_code>

<output>
sail
</output>"""
VIEWED = """File Path: `file:///mill`
Total Lines: 1
Total Bytes: 4
The following code has been modified to include a line number before every line, in the format: <line_number>.
1: sail
The above content shows the entire, complete file contents of the requested file."""


@pytest.mark.parametrize(
    ("agent", "tool", "answer", "shown", "origin", "code"),
    [
        ("droid", "Execute", "sail\n\n[Process exited with code 3]", "sail", "environment", 3),
        ("droid", "Execute", "Error: Command failed (exit code: 2)\nno mill", "no mill", "environment", 2),
        ("droid", "Read", "sail\n\n[Process exited with code 3]", None, "environment", None),
        ("kimi-cli", "Task", "The mill turns.", None, "agent", None),
        ("opencode", "question", "Yes.", None, "user", None),
        (None, "python_interpreter", "Execution logs:\n7", "7", "environment", None),
        (None, "think", "Noted.", None, "harness", None),
        (None, "visit", "The useful information in mill.example for user goal X as follows:", None, "agent", None),
        (None, "visit", "<p>The mill turns.</p>", None, "environment", None),
        (None, "ask_question", "It turns.\n\nView this search on DeepWiki: mill.example", None, "agent", None),
        ("claude-code", "WebSearch", "Web search results for query: m\n\nLinks: []\n\nIt turns.", None, "agent", None),
        ("claude-code", "WebSearch", "Web search results for query: m\n\nLinks: []\n\n", None, "environment", None),
        (None, "Execute", "sail\n\n[Process exited with code 3]", None, "environment", None),
        ("claude-code", "BashOutput", POLLED, "sail\nno mill", "environment", 2),
        ("claude-code", "TaskOutput", TASK, "sail", "environment", 0),
        (
            "claude-code",
            "Bash",
            "Command running in background with ID: b7. Output is being written to: /tmp/b7",
            "",
            "environment",
            None,
        ),
        (
            "antigravity",
            "view_file",
            VIEWED,
            "File Path: `file:///mill`\nTotal Lines: 1\nTotal Bytes: 4\n1: sail",
            "environment",
            None,
        ),
        (
            "antigravity",
            "run_command",
            (
                "Tool is running as a background task with task id: 7/task-5\n"
                "Task Description: make\nTask logs are available at: file:///tmp/5.log"
            ),
            "",
            "environment",
            None,
        ),
        (
            "swe-agent",
            "bash",
            "Observation: sail<response clipped><NOTE>Observations should not exceed 9 characters.</NOTE>",
            "sail<response clipped>",
            "environment",
            None,
        ),
        ("swe-agent", "bash", "Your command ran successfully and did not produce any output.", "", "environment", None),
        (
            "inspect_ai",
            "bash",
            (
                "The output of your call to bash was too long to be displayed.\n"
                "Here is a truncated version:\n<START_TOOL_OUTPUT>\nsail\n<END_TOOL_OUTPUT>\n"
            ),
            "sail",
            "environment",
            None,
        ),
        ("cline", "execute_command", "Command executed. Exit code: 1\nOutput:\nsail", "sail", "environment", 1),
        ("cline", "execute_command", "Command failed with exit code 2.\n\nsail", "sail", "environment", 2),
        ("kimi-cli", "Shell", "sail\nERROR: Command failed with exit code: 4. It was cut.", "sail", "environment", 4),
        ("webdancer", "search", "Error: Tool mill not found", None, "harness", None),
    ],
)
def test_what_is_not_the_worlds_is_told_in_logs_of_every_agent(agent, tool, answer, shown, origin, code):
    seen = Observation(answer, form="response")
    (first, second) = steps_of(answer, "end", first="begin")
    first = replace(first, action=call(tool), next_observation=seen)
    second = replace(second, observation=replace(seen))  # as a spool gives it back: equal, and another object
    trajectory = strip_forms(Trajectory("t", "mcp", [first, second], agent=Agent(agent, "1")))
    after = trajectory.steps[0].next_observation
    assert after is not None
    assert (after.content, after.origin, trajectory.steps[0].exit_code) == (
        answer if shown is None else shown,
        origin,
        code,
    )
    assert trajectory.steps[1].observation == after


@pytest.mark.parametrize("place", [0, 3, 7, None])
def test_steps_in_a_file_lose_the_client_s_words_wherever_they_stand_and_are_not_written_again_without_any(place):
    steps = steps_of(*(f"sail {number}" for number in range(8)))
    kept = [step.next_observation for step in steps]
    if place is not None:
        seen = Observation(f"Command executed. Exit code: 0\nOutput:\nsail {place}", form="response")
        steps[place] = replace(steps[place], action=call("execute_command"), next_observation=seen)
        if place < 7:
            steps[place + 1] = replace(steps[place + 1], observation=seen)
    trajectory = Trajectory("t", "mcp", Steps(steps, held_bytes=0), agent=Agent("cline", "1"))
    stripped = strip_forms(trajectory)
    assert (stripped is trajectory) == (place is None)
    shown = [step.next_observation and step.next_observation.content for step in stripped.steps]
    assert shown == [seen and seen.content for seen in kept]
    before = [step.observation and step.observation.content for step in stripped.steps]
    assert before[1:] == shown[:-1]
