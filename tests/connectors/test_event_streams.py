"""Event streams of Gemini's command line client and of Claude managed agents: turns, answers, voices, recognition."""

from __future__ import annotations

import json
from typing import Any

from trajmill.connectors.agents.gemini_stream import GeminiStream
from trajmill.connectors.agents.managed_agent import ManagedAgent
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import sniff
from trajmill.schemas import Reject, Step, Trajectory

Line = dict[str, Any]


def log(*lines: Line | str) -> bytes:
    return "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines).encode()


def gemini(*lines: Line | str) -> tuple[list[Trajectory], list[str]]:
    found = list(GeminiStream().parse(MemoryBlob("s.jsonl", log(*lines))))
    return [o for o in found if isinstance(o, Trajectory)], [o.reason for o in found if isinstance(o, Reject)]


def managed(*lines: Line | str) -> tuple[list[Trajectory], list[str]]:
    found = list(ManagedAgent().parse(MemoryBlob("s.jsonl", log(*lines))))
    return [o for o in found if isinstance(o, Trajectory)], [o.reason for o in found if isinstance(o, Reject)]


def seen(step: Step) -> str | None:
    return step.next_observation.content if step.next_observation else None


INIT: Line = {"type": "init", "session_id": "s", "model": "m"}


def use(key: str | None, name: str = "run_shell_command") -> Line:
    return {"type": "tool_use", "tool_name": name, "tool_id": key, "parameters": {"command": "x"}}


def answer(key: str | None, output: str | None = "ok", status: str = "success", **more: Any) -> Line:
    told = {} if output is None else {"output": output}
    return {"type": "tool_result", "tool_id": key, "status": status, **told, **more}


def said(text: str, role: str = "assistant", **more: Any) -> Line:
    return {"type": "message", "role": role, "content": text, **more}


def test_pieces_of_a_message_are_one_text_and_a_break_between_them_ends_it() -> None:
    pieces = [said("one ", delta=True), said("text", delta=True)]
    made = gemini(INIT, *pieces, use("a"), answer("a"), said("two", delta=True), use("b"), answer("b"))[0][0]
    assert [step.action.message for step in made.steps] == ["one text", "two"]


def test_answers_go_by_id_and_without_one_in_order() -> None:
    steps = gemini(INIT, use("a"), use("b"), answer("b", "B"), answer("a", "A"))[0][0].steps
    assert [(step.turn, seen(step)) for step in steps] == [(0, "A"), (0, "B")]
    steps = gemini(INIT, use(None), use(None), answer(None, "A"), answer(None, "B"))[0][0].steps
    assert [(step.turn, seen(step)) for step in steps] == [(0, "A"), (0, "B")]


def test_a_displayed_line_is_not_what_the_agent_was_given_and_an_empty_one_shows_nothing() -> None:
    calls = [use("a", "read_file"), answer("a", ""), use("b", "glob"), answer("b", "Found 3 matching file(s)")]
    steps = gemini(INIT, *calls, use("c"), answer("c", ""))[0][0].steps
    assert steps[0].next_observation is None
    assert steps[1].next_observation is not None
    assert steps[1].next_observation.truncation == "recorder"
    assert steps[2].next_observation is not None
    assert (steps[2].next_observation.content, steps[2].next_observation.truncation) == ("", "none")


def test_a_message_before_the_init_is_the_harness_s_and_without_an_init_the_user_s() -> None:
    made = gemini(said("ticket", "user"), INIT, said("task", "user"), use("a"), answer("a"))[0][0]
    assert made.task.instruction == "task"
    assert json.loads(made.steps[0].interleaved or "[]") == [{"role": "harness", "content": "ticket"}]
    assert gemini(said("task", "user"), use("a"), answer("a"))[0][0].task.instruction == "task"


def test_a_stream_that_ends_with_an_open_call_or_in_an_error_is_truncated() -> None:
    failed = {"type": "result", "status": "error", "error": {"type": "Fatal", "message": "limit"}}
    done = {"type": "result", "status": "success"}
    ends = [gemini(INIT, use("a"), answer("a"), use("b"), *more)[0][0].steps[-1].truncated for more in ((), (done,))]
    assert ends == [True, None]
    assert gemini(INIT, use("a"), answer("a"), failed)[0][0].steps[-1].truncated


def test_a_resumed_session_is_one_trajectory_and_another_session_is_another() -> None:
    part = [use("a"), answer("a")]
    assert [len(one.steps) for one in gemini(INIT, *part, INIT, use("b"), answer("b"))[0]] == [2]
    assert [one.native_id for one in gemini(INIT, *part, {**INIT, "session_id": "t"}, *part)[0]] == ["s", "t"]


def test_what_the_client_prints_between_events_is_a_reject() -> None:
    assert gemini(INIT, use("a"), "YOLO mode is enabled.", answer("a"))[1] == ["bad_json"]


def test_tools_that_the_client_does_not_have_are_a_server_s() -> None:
    assert gemini(INIT, use("a", "get_node"), answer("a"))[0][0].domain == "mcp"
    assert gemini(INIT, use("a", "get_node"), answer("a"), use("b"), answer("b"))[0][0].domain == "terminal"
    assert gemini(INIT, use("a", "google_web_search"), answer("a"))[0][0].domain == "search"


def event(key: str, kind: str, **more: Any) -> Line:
    return {"id": key, "type": kind, "processed_at": "2026-03-04T09:00:00.5Z", **more}


def call(key: str, **more: Any) -> Line:
    return event(key, "agent.tool_use", name="bash", input={"command": key}, **more)


def result(key: str, of: str, content: Any = "ok", **more: Any) -> Line:
    return event(key, "agent.tool_result", tool_use_id=of, content=content, **more)


def test_a_request_to_the_model_begins_a_turn_and_so_does_what_follows_an_answer() -> None:
    request = event("r1", "span.model_request_start")
    steps = managed(call("a"), call("b"), result("1", "b", "B"), result("2", "a", "A"), call("c"), result("3", "c"))
    assert [(step.turn, seen(step)) for step in steps[0][0].steps] == [(0, "A"), (0, "B"), (1, "ok")]
    apart = managed(call("a"), request, call("b"), result("1", "b", "B"), result("2", "a", "A"))[0][0].steps
    assert [(step.turn, seen(step)) for step in apart] == [(0, "A"), (1, "B")]


def test_an_event_written_twice_counts_once() -> None:
    assert [len(one.steps) for one in managed(call("a"), call("a"), result("1", "a"), result("1", "a"))[0]] == [1]


def test_only_an_interruption_after_which_nothing_was_done_truncates() -> None:
    stop = event("i", "user.interrupt")
    assert managed(call("a"), result("1", "a"), call("b"), stop)[0][0].steps[-1].truncated
    assert managed(call("a"), stop, call("b"), result("1", "b"))[0][0].steps[-1].truncated is None


def test_what_a_grader_wrote_is_the_harness_s_word_and_its_last_verdict_the_outcome() -> None:
    grade = event("g", "span.outcome_evaluation_end", result="needs_revision", explanation="more")
    good = event("h", "span.outcome_evaluation_end", result="satisfied", explanation="fine")
    made = managed(call("a"), result("1", "a"), grade, call("b"), result("2", "b"), good)[0][0]
    assert json.loads(made.steps[1].interleaved or "[]") == [{"role": "harness", "content": "more"}]
    assert made.outcome is not None
    assert made.outcome.resolved


def test_images_of_an_answer_are_attachments_and_unknown_blocks_stand_as_json() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    found = {"type": "search_result", "source": "u", "title": "t", "content": [], "citations": {"enabled": True}}
    steps = managed(call("a"), result("1", "a", [image]), call("b"), result("2", "b", [found]))[0][0].steps
    assert steps[0].next_observation is not None
    assert (steps[0].next_observation.content, len(steps[0].next_observation.attachments)) == (None, 1)
    assert seen(steps[1]) == '{"type": "search_result", "source": "u", "title": "t", "content": []}'


def test_an_export_without_its_events_is_read_by_what_it_repeats_of_them() -> None:
    use_line = {
        "role": "agent",
        "kind": "tool_use",
        "tool": "bash",
        "content": '{"command":"ls \\u003e a"}',
        "time": "t",
    }
    told = {"role": "agent", "kind": "tool_result", "content": "out", "time": "t"}
    step = managed(use_line, told)[0][0].steps[0]
    assert (step.action.arguments, seen(step)) == ('{"command": "ls > a"}', "out")


def test_streams_are_told_from_each_other_and_from_other_json_lines() -> None:
    exported = {"role": "agent", "kind": "tool_use", "tool": "b", "content": "{}", "time": "t"}
    heads = {
        log("noise", INIT): "gemini_stream",
        log(use("a")): "gemini_stream",
        log(answer("a")): "gemini_stream",
        log(call("a")): "managed_agent",
        log({"role": "system", "kind": "x", "time": "t", "raw": event("a", "session.status_idle")}): "managed_agent",
        log(exported): "managed_agent",
    }
    for head, name in heads.items():
        assert [one.name for one, _ in sniff(head, "transcript.jsonl")][:1] == [name]
    for other in ({"type": "message", "role": "user", "content": "x"}, {"role": "user", "kind": "note"}):
        assert not any(c.sniff(log(other), "a.jsonl") for c in (GeminiStream(), ManagedAgent()))


def test_what_is_said_after_the_end_of_a_run_answers_nothing() -> None:
    ended = {"type": "result", "status": "success"}
    steps = gemini(INIT, use("a"), answer("a"), said("Done."), ended, said("Thanks.", "user"))[0][0].steps
    assert [seen(step) for step in steps] == ["ok", None]
    steps = gemini(INIT, use("a"), answer("a"), said("Which?"), said("That.", "user"))[0][0].steps
    assert [seen(step) for step in steps] == ["ok", "That."]
