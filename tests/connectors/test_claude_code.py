"""Claude Code session logs: who said what, what a call led to, and which logs are recognized."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.claude_logs import (
    CONNECTOR,
    Talk,
    answered,
    before,
    log,
    parsed,
    said,
    seen,
    text,
    use,
)
from trajmill.connectors.conversation.reminders import apart, voices
from trajmill.connectors.reading.times import microseconds
from trajmill.schemas import call_text

# what is said


def test_users_texts_are_never_the_environment() -> None:
    talk = Talk()
    found, _ = parsed(
        log(
            talk.user("u1", "do it", None),
            talk.call("a1", "msg_1", "t1"),
            talk.result("r1", "t1", "one"),
            talk.user("u2", "faster"),
            talk.call("a2", "msg_2", "t2"),
            talk.agent("a3", "msg_3", text("done"), parent="a2"),
        )
    )
    assert found[0].task.instruction == "do it"
    assert said(found[0].steps[1]) == [("user", "faster")]
    assert before(found[0].steps[1]) == "one"


def test_answer_to_the_user_is_a_message_and_the_reply_is_the_users() -> None:
    talk = Talk()
    found, _ = parsed(
        log(
            talk.user("u1", "do it", None),
            talk.call("a1", "msg_1", "t1"),
            talk.result("r1", "t1", "one"),
            talk.agent("a2", "msg_2", {"type": "thinking", "thinking": "hm"}, text("done?")),
            talk.user("u2", "<command-name>/cost</command-name>"),
            talk.user("u3", "more"),
            talk.call("a3", "msg_3", "t3"),
        )
    )
    message = found[0].steps[1]
    assert (message.action.name, message.action.text) == ("message", call_text("message", {"content": "done?"}))
    assert (message.action.message, message.action.reasoning) == (None, "hm")
    assert message.next_observation is not None
    assert (message.next_observation.content, message.next_observation.origin) == ("more", "user")
    assert said(found[0].steps[2]) == [("harness", "<command-name>/cost</command-name>")]
    assert before(found[0].steps[2]) == "more"


def test_text_and_thinking_go_with_the_call_they_precede() -> None:
    talk = Talk()
    thought = {"type": "thinking", "thinking": "why"}
    blocks = [thought, text("a"), use("t1", "Bash"), text("b"), use("t2", "Bash"), text("c"), text(" \n")]
    found, _ = parsed(log(talk.user("u", "go", None), talk.agent("a", "msg_1", *blocks)))
    told = [(step.action.message, step.action.reasoning) for step in found[0].steps]
    assert told == [("a", "why"), ("b\n\nc", None)]


def test_command_is_the_instruction_where_the_user_typed_nothing_else() -> None:
    talk = Talk()
    typed = "<command-message>tidy</command-message>\n<command-name>/tidy</command-name>"
    found, _ = parsed(
        log(talk.user("u", typed, None), talk.user("m", "Tidy the shed.", isMeta=True), talk.call("a", "msg_1", "t1"))
    )
    assert found[0].task.instruction == typed
    assert said(found[0].steps[0]) == [("harness", "Tidy the shed.")]


@pytest.mark.parametrize(
    ("words", "own", "expected"),
    [
        ("plain", False, [("user", "plain")]),
        ("expanded", True, [("harness", "expanded")]),
        (
            "a\n<system-reminder>b</system-reminder>\nc",
            False,
            [("user", "a"), ("harness", "<system-reminder>b</system-reminder>"), ("user", "c")],
        ),
        (
            "<ide_selection>x</ide_selection>why?",
            False,
            [("harness", "<ide_selection>x</ide_selection>"), ("user", "why?")],
        ),
        ("<system-reminder> never closed", False, [("user", "<system-reminder> never closed")]),
        (
            "  <local-command-stdout></local-command-stdout>",
            False,
            [("harness", "  <local-command-stdout></local-command-stdout>")],
        ),
        ("[Request interrupted by user]", False, [("harness", "[Request interrupted by user]")]),
        (" \n", False, []),
        (" \n", True, []),
    ],
)
def test_what_the_harness_put_into_a_users_message_is_told_apart(words: str, own: bool, expected: list[Any]) -> None:
    assert list(voices(words, own)) == expected


def test_queued_prompt_is_the_users_and_a_queued_notification_is_the_harnesss() -> None:
    talk = Talk()
    found, _ = parsed(
        log(
            talk.user("u", "go", None),
            talk.call("a1", "msg_1", "t1"),
            talk.result("r1", "t1", "one"),
            talk.line("attachment", "q1", attachment={"type": "queued_command", "prompt": [text("also this")]}),
            talk.line(
                "attachment",
                "q2",
                attachment={"type": "queued_command", "prompt": "x", "commandMode": "task-notification"},
            ),
            talk.line("attachment", "q3", attachment={"type": "skill_listing", "content": "noise"}),
            talk.call("a2", "msg_2", "t2"),
        )
    )
    assert said(found[0].steps[1]) == [("user", "also this"), ("harness", "x")]


def test_client_made_up_messages_are_not_the_agents() -> None:
    talk = Talk()
    lines = [talk.user("u", "go", None), talk.agent("e", "msg_0", text("API Error: 529"))]
    lines[1]["message"]["model"] = "<synthetic>"
    found, _ = parsed(log(*lines, talk.call("a", "msg_1", "t1")))
    assert [step.action.name for step in found[0].steps] == ["Bash"]
    assert said(found[0].steps[0]) == [("harness", "API Error: 529")]
    assert found[0].agent.model == "claude-x"


# results


def test_reminder_at_the_end_of_a_result_is_the_harness_speaking_before_the_next_step() -> None:
    talk = Talk()
    shown = "     1→x\n\n<system-reminder>\nBe kind.\n</system-reminder>\n"
    found, _ = parsed(
        log(
            talk.user("u", "go", None),
            talk.call("a1", "m1", "t1"),
            talk.result("r1", "t1", shown),
            talk.call("a2", "m2", "t2"),
        )
    )
    assert seen(found[0].steps[0]) == "     1→x"
    assert said(found[0].steps[1]) == [("harness", "<system-reminder>\nBe kind.\n</system-reminder>")]


@pytest.mark.parametrize(
    "content",
    [
        "a\n<system-reminder>b</system-reminder>\nc",
        "   1→<system-reminder>\n   2→</system-reminder>",
        "<system-reminder>The file exists but is empty.</system-reminder>",
        "x</system-reminder>",
        "<system-reminder>",
        "",
    ],
)
def test_reminder_that_is_the_results_own_stays(content: str) -> None:
    assert apart(content) == (content, ())


@given(st.text(alphabet="ab\n ", min_size=1).filter(lambda body: not body.isspace()), st.integers(1, 3))
def test_reminders_hung_on_a_result_are_taken_off_and_nothing_else(body: str, count: int) -> None:
    reminder = "<system-reminder>\nr\n</system-reminder>"
    assert apart(body + f"\n\n{reminder}" * count) == (body, (reminder,) * count)


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


@pytest.mark.parametrize(
    ("content", "shown", "limit"),
    [
        ("Exit code 2\nno such file", "no such file", None),
        ("Exit code 143\nCommand timed out after 2m 0.0s\nhalf", "half", 120.0),
        ("Command timed out after 5s\nhalf", "half", 5.0),
        ("it says: Exit code 2\n", "it says: Exit code 2\n", None),
    ],
)
def test_how_a_command_ended_is_no_word_of_its_output(content: str, shown: str, limit: float | None) -> None:
    step = answered("Bash", content, block={"is_error": True})
    assert step.next_observation is not None
    assert step.next_observation.content == shown
    assert (step.timed_out, step.time_limit_s) == (None if limit is None else True, limit)


@pytest.mark.parametrize(
    ("content", "told", "truncation"),
    [
        ("a\n\n... [12 lines truncated] ...\n\nb", None, "harness"),
        ("a\n\n... [9000 characters truncated] ...\n\nb", None, "harness"),
        ("<persisted-output>\nOutput too large (1MB).\n</persisted-output>", None, "harness"),
        ("a.py\n(Results are truncated. Consider using a more specific path or pattern.)", None, "harness"),
        ("partial", {"stdout": "partial", "interrupted": True}, "harness"),
        ("[Old tool result content cleared]", None, "recorder"),
        ("lines truncated] ... is only said here", None, "none"),
    ],
)
def test_cut_result_is_marked_by_who_cut_it(content: str, told: Any, truncation: str) -> None:
    observation = answered("Bash", content, toolUseResult=told).next_observation
    assert observation is not None
    assert observation.truncation == truncation


def test_images_are_attachments_by_the_digest_of_their_bytes() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    observation = answered("mcp__eye__look", [image, text("a cat")]).next_observation
    assert observation is not None
    assert observation.content == "a cat"
    digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert [(one.sha256, one.role, one.media_type) for one in observation.attachments] == [
        (digest, "image", "image/png")
    ]
    alone = answered("mcp__eye__look", [image]).next_observation
    assert alone is not None
    assert alone.content is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            [text("a"), "b", {"type": "tool_reference", "tool_name": "X"}],
            'a\nb\n{"type": "tool_reference", "tool_name": "X"}',
        ),
        ({"a": [1]}, '{"a": [1]}'),
        (None, ""),
        ([], ""),
        (7, "7"),
    ],
)
def test_content_of_any_shape_becomes_text(content: Any, expected: str) -> None:
    assert seen(answered("Bash", content)) == expected


def test_json_is_told_by_its_media_type() -> None:
    types = [
        one.media_type
        for content in ('{"a": 1}', "[1, 2]", "{not json}", "12", "")
        if (one := answered("Bash", content).next_observation)
    ]
    assert types == ["application/json", "application/json", "text/plain", "text/plain", "text/plain"]


def test_times_are_utc_and_a_duration_is_never_negative() -> None:
    assert microseconds("2025-11-03T10:00:00.001+01:00") == microseconds("2025-11-03T09:00:00.001Z") == 1762160400001000
    assert [microseconds(one) for one in ("2025-11-03T10:00:00", "yesterday", "0001-01-01T00:00:00Z", None)] == [
        None
    ] * 4
    late = answered("Bash", "x", timestamp="2025-11-03T08:00:00Z")
    assert (late.started_at, late.duration_s) == (1762160402000000, None)


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        (["mcp__a__b", "mcp__c__d", "TodoWrite"], "mcp"),
        (["WebSearch", "WebFetch"], "search"),
        (["WebSearch", "mcp__a__b"], "terminal"),
        (["TodoWrite"], "terminal"),
        (["Bash", "WebSearch"], "terminal"),
    ],
)
def test_domain_follows_the_tools(tools: list[str], expected: str) -> None:
    talk = Talk()
    calls = [use(f"t{number}", tool) for number, tool in enumerate(tools)]
    found, _ = parsed(log(talk.user("u", "go", None), talk.agent("a", "msg_1", *calls)))
    assert found[0].domain == expected


@pytest.mark.parametrize(
    ("cwd", "instance"),
    [
        ("/home/ada/orchard", "/home/ada/orchard"),
        ("C:\\Users\\ada\\orchard", "C:\\Users\\ada\\orchard"),
        ("/app", None),
        ("C:\\src", None),
        (None, None),
    ],
)
def test_a_folder_is_an_instance_only_where_it_identifies_one(cwd: str | None, instance: str | None) -> None:
    talk = Talk(cwd=cwd)
    found, _ = parsed(log(talk.user("u", "go", None), talk.call("a", "msg_1", "t1"), talk.result("r", "t1", "x")))
    assert found[0].environment.instance_id == instance
    assert found[0].steps[0].next_observation is not None
    assert found[0].steps[0].next_observation.uri == cwd


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
    "head",
    [
        b"",
        b"\x00\x01\xff",
        b'{"timestamp":"2025-01-01T00:00:00Z","type":"session_meta","payload":{"id":"i","cwd":"/"}}\n',
        b'{"timestamp":"2025-01-01T00:00:00Z","type":"response_item","payload":{"type":"message","role":"user"}}\n',
        b'{"sessionId":"s","projectHash":"h","messages":[{"type":"user","content":"hi"}]}\n',
        b'{"sessionId":"s","type":"user","message":"hi"}\n',
        b'{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}\n',
        b'{"type":"system","subtype":"init","session_id":"s","tools":[]}\n{"type":"user","message":{"content":"x"},"session_id":"s"}\n',
        b'{"version": 2, "width": 80, "height": 24}\n[0.1, "o", "$ "]\n',
        b'{"type":"summary","summary":"of a book"}\n',
        b'[{"parentUuid":null,"sessionId":"s","type":"user","message":{}}]',
    ],
)
def test_logs_of_other_clients_are_left_alone(head: bytes) -> None:
    assert CONNECTOR.sniff(head, "x.jsonl") is None
