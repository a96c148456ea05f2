"""Claude Code session logs: who said what, what a call led to, and which logs are recognized."""

from typing import Any

import pytest

from tests.connectors.claude_logs import (
    CONNECTOR,
    answered,
    seen,
)
from tests.tables import table
from trajmill.connectors.conversation.reminders import voices

# what is said


@pytest.mark.parametrize(
    ("words", "own", "expected"),
    table(__file__, "claude_messages"),
)
def test_what_the_harness_put_into_a_users_message_is_told_apart(words: str, own: bool, expected: list[Any]) -> None:
    assert list(map(list, voices(words, own))) == expected


# results


@pytest.mark.parametrize(
    ("tool", "content", "error", "origin"),
    [
        ("Bash", "fine", False, "environment"),
        ("Bash", "Exit code 2\nno", True, "environment"),
        ("Edit", "The user doesn't want to proceed with this tool use. STOP", True, "user"),
        ("Read", "The user doesn't want to proceed with this tool use. (a file's words)", False, "environment"),
        ("Edit", "<tool_use_error>File has not been read yet.</tool_use_error>", True, "harness"),
        ("Edit", "<tool_use_error>String to replace not found in file.</tool_use_error>", True, "environment"),
        ("Glob", "<tool_use_error>Sibling tool call errored</tool_use_error>", True, "harness"),
        ("TodoWrite", "ok", False, "harness"),
        ("ExitPlanMode", "User has approved your plan.", False, "user"),
        ("Task", "what the sub-agent found", False, "agent"),
        ("Agent", "Async agent launched successfully.", False, "harness"),
        ("TaskOutput", "<task_type>local_agent</task_type>", False, "agent"),
        ("TaskOutput", "<task_type>local_bash</task_type>", False, "environment"),
    ],
)
def test_who_answered_a_call_is_told_apart(tool: str, content: str, error: bool, origin: str) -> None:
    observation = answered(tool, content, block={"is_error": error}).next_observation
    assert observation is not None
    assert (observation.origin, observation.is_error) == (origin, error)


@pytest.mark.parametrize(
    ("tool", "content", "more", "code"),
    [
        ("Bash", "Exit code 127\nnot found", {"block": {"is_error": True}}, 127),
        ("Bash", "Error: Exit code 1", {"block": {"is_error": True}}, 1),
        ("Bash", "Exit code 3221225786", {"block": {"is_error": True}}, -1073741510),
        ("Bash", "Exit code 99999999999", {"block": {"is_error": True}}, None),
        ("Bash", "Exit code 1 is what it says", {}, None),
        ("Read", "Exit code 1", {"block": {"is_error": True}}, None),
        ("Bash", "x", {"toolUseResult": {"exitCode": 0}}, 0),
        ("Bash", "x", {"toolUseResult": {"exitCode": True}}, None),
        ("BashOutput", "<status>failed</status>\n<exit_code>137</exit_code>", {}, 137),
    ],
)
def test_exit_code_is_what_the_log_states(tool: str, content: str, more: Any, code: int | None) -> None:
    assert answered(tool, content, **more).exit_code == code


# sniffing


@pytest.mark.parametrize(
    "head",
    [
        b'{"type":"summary","summary":"s","leafUuid":"l"}\n',
        b'{"type":"file-history-snapshot","messageId":"m","snapshot":{}}\n',
        b'{"type":"queue-operation","operation":"enqueue","sessionId":"s"}\n',
        b'garbage\n"massive error"\n{"parentUuid":null,"sessionId":"s","type":"user","message":{"content":"x"}}\n',
        b'{"parentUuid":null,"isSidechain":false,"sessionId":"s","type":"user","message":{"content":"' + b"x" * 65000,
    ],
)
def test_claude_code_lines_are_recognized(head: bytes) -> None:
    told = CONNECTOR.sniff(head, "x.jsonl")
    assert told is not None
    assert told.score >= 0.8


@pytest.mark.parametrize(
    ("content", "streams", "shown"),
    [
        ("two\nlines\n[kept for later as k7]", {"stdout": "two\nlines", "stderr": ""}, "two\nlines"),
        ("<shell>\nout\nerr\n</shell>", {"stdout": "out", "stderr": "err"}, "out\nerr"),
        ("Started in the background as b3", {"stdout": "", "stderr": ""}, ""),
        ("cut in the mid…", {"stdout": "cut in the middle", "stderr": ""}, "cut in the mid…"),
        ("ok\nok", {"stdout": "ok", "stderr": ""}, "ok\nok"),
        ("notok", {"stdout": "ok", "stderr": ""}, "notok"),
        ("alone", {"stdout": 3}, "alone"),
    ],
)
def test_what_stands_around_a_shells_own_output_is_the_clients(content: str, streams: dict[str, Any], shown: str):
    assert seen(answered("Bash", content, toolUseResult=streams)) == shown
