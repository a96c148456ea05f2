"""The core that all wire logs share: JSON-RPC messages of MCP to trajectories."""

import hashlib
from base64 import b64encode

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connectors.wire_logs import HELLO, INITIALIZE, after, call, read, request, result, seen, split
from trajmill.connectors.mcp import wire_marks
from trajmill.connectors.mcp.wire_reader import SessionReader
from trajmill.connectors.mcp.wire_session import Message
from trajmill.connectors.reading.server_events import sse_data
from trajmill.connectors.reading.times import microseconds
from trajmill.schemas import Trajectory, spool


def test_a_number_and_the_same_digits_as_text_are_two_ids():
    found, rejects = read(INITIALIZE, HELLO, call(1), call("1", "walk"), result("1", "walked"), result(1, "looked"))
    assert seen(found[0]) == [("look", "looked"), ("walk", "walked")]
    assert not rejects


def test_zero_is_an_id_and_false_is_none():
    found, _ = read(call(0), result(0, "ok"))
    assert seen(found[0]) == [("look", "ok")]
    found, rejects = read(call(False), result(False, "ok"))
    assert not found
    assert {one.reason for one in rejects} == {"bad_id"}


def test_ids_of_the_server_are_its_own():
    asked = request(1, "sampling/createMessage", messages=[])
    told = {"jsonrpc": "2.0", "id": 1, "result": {"role": "assistant", "model": "m", "content": {}}}
    found, rejects = read(INITIALIZE, HELLO, call(1), asked, told, result(1, "done"), call(2), result(2, "more"))
    assert seen(found[0]) == [("look", "done"), ("look", "more")]
    said = found[0].steps[1].interleaved or ""
    assert '"role": "agent"' in said
    assert "sampling/createMessage" in said
    assert not rejects


def test_initialize_begins_a_session_and_ids_restart():
    session = [INITIALIZE, HELLO, call(1), result(1, "a")]
    found, rejects = read(*session, *session)
    assert [seen(one) for one in found] == [[("look", "a")], [("look", "a")]]
    assert [one.native_id for one in found] == ["0", "1"]
    assert not rejects


def test_a_message_that_was_logged_twice_counts_once():
    doubled = [one for one in (INITIALIZE, HELLO, call(1), result(1, "a"), call(2), result(2, "b")) for _ in (1, 2)]
    doubled[2], doubled[1] = doubled[1], doubled[2]
    found, rejects = read(*doubled)
    assert [seen(one) for one in found if len(one.steps) == 2] == [[("look", "a"), ("look", "b")]]
    assert {one.reason for one in rejects} <= {"no_calls", "result_without_call"}


def test_a_client_that_gives_every_call_one_id_is_paired_in_order():
    found, rejects = read(call(1), result(1, "a"), call(1), result(1, "b"), call(1, "walk"), result(1, "c"))
    assert seen(found[0]) == [("look", "a"), ("look", "b"), ("walk", "c")]
    assert not rejects


def test_a_second_answer_is_rejected_and_the_first_stands():
    found, rejects = read(call(1), result(1, "a"), result(1, "b"))
    assert seen(found[0]) == [("look", "a")]
    assert [(one.reason, one.offset) for one in rejects] == [("result_repeated", 2)]


def test_calls_before_any_answer_are_one_turn_with_one_observation():
    found, _ = read(
        call(1), result(1, "a"), [call(2), call(3)], result(3, "c"), result(2, "b"), call(4), result(4, "d")
    )
    steps = found[0].steps
    assert [(one.turn, one.call_index, one.num_calls) for one in steps] == [(0, 0, 1), (1, 0, 2), (1, 1, 2), (2, 0, 1)]
    assert [one.observation and one.observation.content for one in steps] == [None, "a", "a", "c"]


def test_an_answer_that_comes_late_is_not_seen_before_it_came():
    found, _ = read(call(1), call(2), result(2, "b"), call(3), result(1, "a"), result(3, "c"), call(4), result(4, "d"))
    assert [one.observation and one.observation.content for one in found[0].steps] == [None, None, "b", "c"]


def test_a_cancelled_call_ends_its_turn_and_stays_without_an_answer():
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    found, _ = read(call(1), cancelled, call(2), result(2, "b"))
    assert [(one.turn, one.num_calls) for one in found[0].steps] == [(0, 1), (1, 1)]
    assert found[0].steps[0].next_observation is None


def test_an_error_of_the_tool_and_one_of_the_protocol_are_both_errors():
    refused = {"jsonrpc": "2.0", "id": 2, "error": {"code": -32602, "message": "Unknown tool"}}
    found, _ = read(call(1), result(1, "broken", isError=True), call(2), refused)
    shown = [after(one) for one in found[0].steps]
    assert [one.is_error for one in shown] == [True, True]
    assert [one.content for one in shown] == ["broken", '{"code": -32602, "message": "Unknown tool"}']


def test_structured_content_stands_only_where_there_is_no_text():
    both = result(1, '{"a": 1}', structuredContent={"a": 1})
    only = result(2, None, structuredContent={"a": 1})
    found, _ = read(call(1), both, call(2), only, call(3), result(3), call(4), result(4, None, output="10"))
    assert [text for _, text in seen(found[0])] == ['{"a": 1}', '{"a": 1}', "", '{"content": [], "output": "10"}']


def test_pictures_sounds_and_blobs_are_attachments_by_the_digest_of_their_bytes():
    data = b64encode(b"bytes").decode()
    blocks = [
        {"type": "image", "data": data, "mimeType": "image/png"},
        {"type": "audio", "data": data, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "x://1", "mimeType": "a/b", "blob": data}},
        {"type": "resource_link", "uri": "x://2", "name": "two"},
    ]
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": blocks}}
    shown = after(read(call(1), answer)[0][0].steps[0])
    digest = hashlib.sha256(b"bytes").hexdigest()
    assert [(one.sha256, one.role) for one in shown.attachments] == [
        (digest, "image"),
        (digest, "audio"),
        (digest, "resource"),
    ]
    assert data not in (shown.content or "")
    assert "x://2" in (shown.content or "")


def test_a_prompt_keeps_no_base64():
    data = b64encode(b"bytes").decode()
    block = {"type": "image", "data": data, "mimeType": "image/png"}
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"messages": [{"role": "user", "content": block}]}}
    shown = after(read(request(1, "prompts/get", name="p"), answer)[0][0].steps[0])
    assert data not in (shown.content or "")
    assert len(shown.attachments) == 1


def test_a_task_is_answered_by_its_result():
    begun = {"jsonrpc": "2.0", "id": 1, "result": {"task": {"taskId": "t", "status": "working"}}}
    found, _ = read(
        call(1),
        begun,
        request(2, "tasks/get", taskId="t"),
        result(2),
        request(3, "tasks/result", taskId="t"),
        result(3, "at last"),
    )
    assert seen(found[0]) == [("look", "at last")]


def test_pages_of_tools_are_one_action_space():
    pages = [{"jsonrpc": "2.0", "id": key, "result": {"tools": [{"name": key}]}} for key in ("a", "b", "a2")]
    asked = [request(key, "tools/list") for key in ("a", "b", "a2")]
    found, _ = read(*[one for pair in zip(asked, pages, strict=True) for one in pair], call(1), result(1, "x"))
    assert found[0].context.action_space == '[{"name": "a"}, {"name": "b"}, {"name": "a2"}]'


def test_a_session_without_an_answer_is_refused_whole():
    found, rejects = read(INITIALIZE, HELLO, call(1), call(2))
    assert not found
    assert [(one.unit, one.reason, one.transitions) for one in rejects] == [("trajectory", "no_results", 2)]


def test_arguments_that_are_too_deep_are_rejected_and_their_answer_with_them():
    deep: object = 1
    for _ in range(400):
        deep = [deep]
    found, rejects = read(call(1, deep=deep), result(1, "x"), call(2), result(2, "y"))
    assert seen(found[0]) == [("look", "y")]
    assert [one.reason for one in rejects] == ["nested_too_deeply"]


def test_a_word_of_direction_is_learned_from_methods_that_one_side_sends():
    reader = SessionReader("test", "log")
    asked = request(1, "elicitation/create", message="?")
    both = [
        ("in", call(1)),
        ("out", asked),
        ("in", {"jsonrpc": "2.0", "id": 1, "result": {"x": 1}}),
        ("out", result(1, "a")),
    ]
    found = [one for place, (label, body) in enumerate(both) for one in reader.take(Message(place, body, label=label))]
    found += reader.finish()
    assert seen(split(found)[0][0]) == [("look", "a")]


messages = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["id", "method", "params", "result", "error", "content", "name", "arguments", "task", "tools"]
            ),
            st.one_of(inner, st.sampled_from(["tools/call", "initialize", "tools/list", "tasks/result"])),
            max_size=6,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(messages, max_size=8))
def test_any_messages_become_steps_or_rejects(bodies):
    found, _ = read(*bodies)
    for one in found:
        assert any(step.next_observation is not None for step in one.steps)
        assert [step.offset for step in one.steps] == sorted(step.offset for step in one.steps)


@pytest.mark.parametrize("held", [0, 1 << 24])
@pytest.mark.parametrize("kept", range(11))
def test_a_log_that_grows_long_halfway_becomes_what_a_short_one_becomes(kept, held, monkeypatch):
    calls = [call(1), call(2, "walk"), result(2, "b"), result(1, "a"), result(1, "a"), call(3), call(2, "run")]
    bodies = [INITIALIZE, HELLO, *calls, result(2, "c"), result(3, "d"), result(2, "e")]
    short, refused = read(*bodies)
    assert seen(short[0]) == [("look", "a"), ("walk", "b"), ("look", "d"), ("run", "c")]
    monkeypatch.setattr(wire_marks, "_KEPT", kept)
    monkeypatch.setattr(spool, "HELD_BYTES", held or kept)
    long, rejects = read(*bodies)
    assert [list(one.steps) for one in long] == [list(one.steps) for one in short]
    assert rejects == refused
    assert [one.reason for one in rejects] == ["result_repeated"]


def test_times_are_read_by_their_size_and_only_with_a_zone():
    assert microseconds("2025-01-01T00:00:00Z") == 1735689600_000000
    assert microseconds("2025-01-01T00:00:00") is None
    assert {microseconds(1735689600 * 10**power) for power in (0, 3, 6, 9)} == {1735689600_000000}
    assert microseconds(True) is None


def test_server_sent_events_end_at_a_blank_line_of_any_kind():
    assert list(sse_data(": ping\r\n\r\nevent: m\r\ndata: a\r\ndata: b\r\n\r\ndata:c\n\nid: 1\n\n")) == ["a\nb", "c"]


MESSAGES = [
    INITIALIZE,
    HELLO,
    *(call(key, name) for key in (1, 2) for name in ("look", "walk")),
    *(result(key, text) for key in (1, 2) for text in ("a", "b")),
    request(1, "ping"),
    {"jsonrpc": "2.0", "id": 1, "result": {}},
]


def outcome(bodies, held, offsets):
    """Steps and reasons of rejects of a log whose messages stand at these offsets."""
    reader = SessionReader("wire", "log", held=held)
    found = [one for at, body in zip(offsets, bodies, strict=True) for one in reader.take(Message(at, body))]
    found += reader.finish()
    return [seen(one) if isinstance(one, Trajectory) else one.reason for one in found]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(MESSAGES), max_size=12))
def test_doubles_are_known_again_whether_messages_are_kept_or_hashed(bodies):
    near = range(len(bodies))
    far = [at << 30 for at in range(1, len(bodies) + 1)]
    crossing = [at << 22 for at in near]
    expected = outcome(bodies, True, near)
    assert outcome(bodies, False, near) == expected
    assert outcome(bodies, False, far) == expected
    assert outcome(bodies, False, crossing) == expected


def test_doubles_nested_as_deeply_as_a_reader_of_json_goes_are_known_again():
    def listed():
        return {"jsonrpc": "2.0", "id": 2, "result": orjson.loads(b'{"a":' * 590 + b"1" + b"}" * 590)}

    asked = [INITIALIZE, HELLO, request(2, "tools/list"), call(3), result(3, "a")]
    for held in (True, False):
        assert outcome([*asked, listed(), listed()], held, range(7)) == [[("look", "a")]]
        assert outcome([*asked, listed(), result(2, "b")], held, range(7)) == ["result_repeated", [("look", "a")]]
