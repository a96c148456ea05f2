"""The table of clients' words: where each form counts, and what the tools' own answers look like without them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rows import parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.conversation.client_outputs import codex_output
from trajmill.connectors.conversation.harness_text import CLAUDE_CODE, FORMS, Source, headed, speaker, truncation
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.reminders import apart
from trajmill.connectors.conversation.turns import Call, Result
from trajmill.connectors.conversation.wrapped_output import Output
from trajmill.connectors.registry import connectors

REMINDER = "<system-reminder>\nBe brief.\n</system-reminder>"
MOVED = "Shell cwd was reset to /srv/mill"
SILENT = "(Bash completed with no output)"


@pytest.mark.parametrize(
    ("text", "own", "notes"),
    [
        ("sail\nstone\n[result-id: r12]\n[rerun: b3]", "sail\nstone", ("[result-id: r12]", "[rerun: b3]")),
        ("sail\n\n[result-id: r1]", "sail\n", ("[result-id: r1]",)),
        (f"sail\n{MOVED}", "sail", (MOVED,)),
        (MOVED, "", (MOVED,)),
        (SILENT, "", (SILENT,)),
        (f"{SILENT}\n[rerun: b1]", "", (SILENT, "[rerun: b1]")),
        (f"sail\n[result-id: r2]\n\n{REMINDER}", "sail", ("[result-id: r2]", REMINDER)),
        (f"sail\n\n{REMINDER}\n[result-id: r2]", "sail", (REMINDER, "[result-id: r2]")),
        (f"{REMINDER}\n[result-id: r2]", REMINDER, ("[result-id: r2]",)),
        ("[result-id: r1]\nsail", "[result-id: r1]\nsail", ()),
        ("see [result-id: r1]", "see [result-id: r1]", ()),
        (f"{SILENT}\nsail", f"{SILENT}\nsail", ()),
        ("[result-id: x]", "[result-id: x]", ()),
    ],
)
def test_what_a_client_hangs_on_to_an_answer_is_not_the_tool_s(text, own, notes):
    assert apart(text) == (own, notes)


@pytest.mark.parametrize(("version", "counts"), [("2.1.89", False), ("2.1.90", True), ("3.0.0", True), (None, True)])
def test_a_form_counts_from_the_version_that_writes_it(version, counts):
    text = "sail\n[result-id: r1]"
    assert (apart(text, Source(CLAUDE_CODE, version))[0] == "sail") == counts


def test_a_form_counts_for_the_tools_and_the_client_that_it_is_of():
    assert apart(SILENT, Source(CLAUDE_CODE, None, "Read")) == (SILENT, ())
    assert apart(SILENT, Source("codex")) == (SILENT, ())


@pytest.mark.parametrize(
    ("tool", "failed", "text", "who"),
    [
        ("WebFetch", False, "# Sails\n\nThe page says that a sail is long.", "agent"),
        ("WebFetch", True, "Request failed with status code 404", None),
        ("WebFetch", False, "REDIRECT DETECTED: The URL redirects to a different host.", "harness"),
        ("Read", False, "File unchanged since last read. The content from the earlier Read is current.", "harness"),
        ("Bash", False, "<identical to result [r3] from your Bash call earlier — refer to that output>", "harness"),
        ("Bash", True, "<tool_use_error>InputValidationError: no command</tool_use_error>", "harness"),
        ("Bash", False, "InputValidationError: no command", None),
        ("Bash", True, "The user doesn't want to proceed with this tool use.", "user"),
        ("Bash", False, "sail", None),
    ],
)
def test_who_answered_is_told_by_the_client_s_words_and_its_tools(tool, failed, text, who):
    assert speaker(text, Source(CLAUDE_CODE, "2.1.92", tool, failed)) == who


def test_each_form_before_an_output_is_taken_once():
    told = headed("Exit code 3\nCommand timed out after 2m 5s\nExit code 4\n", Source(CLAUDE_CODE, None, "Bash", True))
    assert told == Output("Exit code 4\n", 3, True, 125.0)


HEADER = "Chunk ID: 215687\nWall time: 0.5000 seconds\nProcess exited with code 2\nOriginal token count: 46\nOutput:"
RUNS = "Chunk ID: 1\nWall time: 3.0014 seconds\nProcess running with session ID 19\nOriginal token count: 0\nOutput:"
CUT = "a\n\n[... omitted 678 of 934 lines ...]\n\nz\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"Command: /bin/sh -c 'mill'\n{HEADER}\nno sail\n", ("no sail\n", 2, 0.5)),
        (f"Command: /bin/sh -c \"printf 'a\nb'\nOutput: c\"\n{HEADER}\nno sail", ("no sail", 2, 0.5)),
        (f"Command: /bin/sh -c 'sleep 60'\n{RUNS}\n", ("", None, 3.0014)),
        (f"{HEADER}\nTotal output lines: 934\n\n{CUT}", (CUT, 2, 0.5)),
        (f"Total output lines: 934\n\n{CUT}", (CUT, None, None)),
        (json.dumps({"output": f"Total output lines: 934\n\n{CUT}", "metadata": {"exit_code": 1}}), (CUT, 1, None)),
    ],
)
def test_headers_of_codex_are_not_the_command_s(text, told):
    found = codex_output(text)
    assert found is not None
    assert (found.text, found.exit_code, found.seconds) == told
    assert found.notes
    assert truncation(found.text or "", Source("codex")) == ("harness" if told[0] == CUT else "none")


@pytest.mark.parametrize("text", ["Command: to be obeyed\nOutput:\na", "Total output lines: 9\n\na\nb", "Command: a"])
def test_what_only_begins_as_a_header_of_codex_is_an_output(text):
    assert codex_output(text) is None


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
        ("web_fetch", "<html>", "<html>", "environment"),
    ],
)
def test_answers_in_a_log_that_names_no_client_are_told_from_its_words_too(name, answer, content, origin):
    made = conversation([Call(name, "{}", "c", 0), Result("c", name, answer, 0)])
    (step,) = made.steps
    assert step.next_observation is not None
    assert (step.next_observation.content, step.next_observation.origin) == (content, origin)


def test_every_row_of_the_table_has_a_pattern_that_stops_on_long_texts():
    for text in ("a" * 50_000, "\n" * 50_000, "Command: " + "Wall time: \n" * 5_000, "… 1" * 20_000):
        for form in FORMS:
            assert form.pattern.search(text) is None or form.tools & {"WebFetch", "web_fetch"}
