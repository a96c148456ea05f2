"""Codex rollouts and event streams: turns, outputs, voices and hostile input."""

import json
from typing import Any

import pytest

from tests.rows import split_records
from tests.tables import table
from trajmill.connectors.agents.codex import Codex
from trajmill.connectors.agents.codex_texts import origin
from trajmill.connectors.connector import Connector, MemoryBlob
from trajmill.connectors.conversation.harness_text import CODEX, Source, read_output, voices
from trajmill.connectors.registry import sniff
from trajmill.schemas import Reject, Step, Trajectory

META: dict[str, Any] = {
    "timestamp": "2026-01-05T10:00:00Z",
    "type": "session_meta",
    "payload": {"id": "s", "cwd": "/a/b/c"},
}

Line = dict[str, Any]


def at(seconds: float) -> str:
    return f"2026-01-05T10:00:{seconds:06.3f}Z"


def item(seconds: float, kind: str, **payload: Any) -> Line:
    return {"timestamp": at(seconds), "type": "response_item", "payload": {"type": kind, **payload}}


def event(seconds: float, kind: str) -> Line:
    return {"timestamp": at(seconds), "type": "event_msg", "payload": {"type": kind}}


def call(seconds: float, key: str, name: str = "shell", arguments: str = "{}") -> Line:
    return item(seconds, "function_call", name=name, arguments=arguments, call_id=key)


def answer(seconds: float, key: str, text: Any = "ok") -> Line:
    return item(seconds, "function_call_output", call_id=key, output=text)


def log(*lines: Line) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def read(data: bytes, connector: Connector) -> tuple[list[Trajectory], list[Reject]]:
    return split_records(connector.parse(MemoryBlob("log.jsonl", data)))


def steps(*lines: Line) -> list[Step]:
    return list(read(log(META, *lines), Codex())[0][0].steps)


def turns(*lines: Line) -> list[int]:
    return [step.turn for step in steps(*lines)]


def test_what_the_api_found_in_its_own_search_for_tools_answers_the_search():
    search = item(1, "tool_search_call", id="t", call_id=None, execution="server", arguments={"paths": ["rate"]})
    output = item(1, "tool_search_output", id="o", call_id=None, execution="server", tools=[{"name": "rate"}])
    all_steps = steps(call(0, "a"), search, output, answer(2, "a"))
    shown = [(step.action.name, step.next_observation and step.next_observation.content) for step in all_steps]
    assert shown == [("shell", "ok"), ("tool_search", '[{"name": "rate"}]')]


@pytest.mark.parametrize(
    ("text", "content", "code", "seconds", "note"),
    table(__file__, "codex_outputs"),
)  # fmt: skip
def test_an_output_is_told_apart_from_what_the_harness_says_of_it(text, content, code, seconds, note):
    output = read_output(text, Source(CODEX))
    assert (output.text, output.exit_code, output.seconds) == (content, code, seconds)
    assert output.notes == ((note,) if note else ())


def test_who_answered_is_told_by_the_words_and_by_the_tool():
    assert origin("shell", "exec command rejected by user") == "user"
    assert origin("shell", "aborted by user after 2s") == "user"
    assert origin("shell", "aborted_jobs.txt") == "environment"
    assert origin("shell", "unsupported call: shell") == "harness"
    assert origin("update_plan", "Plan updated") == "harness"
    assert origin("wait", "{}") == "agent"


def test_the_editor_is_told_apart_from_the_user():
    text = "# Context from my IDE setup:\n\n## Open tabs:\n- a\n\n## My request for Codex:\nDo it.\n"
    setup = "# Context from my IDE setup:\n\n## Open tabs:\n- a"
    assert list(voices(text, CODEX)) == [("harness", setup), ("user", "Do it.")]
    assert list(voices("<environment_context>x", CODEX)) == [("harness", "<environment_context>x")]
    assert list(voices(" \n", CODEX)) == []


def test_an_early_rollout_is_told_from_any_other_json_lines():
    early = log({"id": "x", "timestamp": "t", "instructions": None}, {"record_type": "state"})
    assert sniff(early, "rollout.jsonl")[0][0].name == "codex"
    lines = log({"id": "x", "timestamp": "t", "instructions": None}, {"id": "y"})
    assert sniff(lines, "a.jsonl") == []
    assert Codex().sniff(b'{"timestamp":"t","type":"session_meta","payload":{"id":"' + b"x" * 70000, "a") is not None


def test_a_log_that_ends_within_a_call_or_in_an_aborted_turn_is_truncated() -> None:
    assert [step.truncated for step in steps(call(1, "a"), answer(2, "a"), call(3, "b"))] == [None, True]
    assert steps(call(1, "a"), answer(2, "a"), event(3, "turn_aborted"))[-1].truncated
    assert steps(call(1, "a"), event(2, "turn_aborted"), call(3, "b"), answer(4, "b"))[-1].truncated is None
    assert (
        steps(call(1, "a"), answer(2, "a"), item(3, "web_search_call", action={"type": "search"}))[-1].truncated is None
    )
    done = item(3, "message", role="assistant", content=[{"type": "output_text", "text": "done"}])
    assert steps(call(1, "a"), answer(2, "a"), done)[-1].truncated is None


def test_an_answer_that_comes_after_a_later_turn_began_stood_before_none_of_its_calls() -> None:
    all_steps = steps(
        call(1, "a"), event(2, "token_count"), call(3, "b"), answer(4, "b", "B"), answer(5, "a", "A"), call(6, "c")
    )
    assert [step.next_observation and step.next_observation.content for step in all_steps] == ["A", "B", None]
    assert [step.observation and step.observation.content for step in all_steps] == [None, None, "A"]


def test_what_stands_around_the_output_of_a_commands_end_is_the_clients() -> None:
    def ended(put_out: object) -> Line:
        line = event(1.5, "exec_command_end")
        line["payload"] |= {"call_id": "a", "aggregated_output": put_out}
        return line

    wrapped = "Ran in a box\nten\nlines\n(box closed)"
    (step,) = steps(call(1, "a"), ended("ten\nlines\n"), answer(2, "a", wrapped))
    assert step.next_observation is not None
    assert step.next_observation.content == "ten\nlines"
    (step,) = steps(call(1, "a"), ended(None), answer(2, "a", wrapped))
    assert step.next_observation is not None
    assert step.next_observation.content == wrapped
