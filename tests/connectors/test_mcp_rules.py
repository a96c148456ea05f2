"""The rules of the protocol that decide what a transition is, on logs written by hand."""

import json

import pytest

from tests.connectors.wire_logs import HELLO, INITIALIZE, after, call, lines, parse, read, request, result, seen
from trajmill.connectors.registry import sniff

SAMPLING = request(0, "sampling/createMessage", messages=[], maxTokens=1)
SAMPLED = {"jsonrpc": "2.0", "id": 0, "result": {"role": "assistant", "model": "m", "content": {}}}


def notification(method, **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def stream(*events, begin=0):
    """A body of server-sent events with ids, as a server that can be resumed sends it."""
    return "".join(
        f"id: e{begin + at}\r\nevent: message\r\ndata: {json.dumps(one)}\r\n\r\n" for at, one in enumerate(events)
    )


def post(body, *events, begin=0, **headers):
    asked = {"method": "POST", "headers": {"accept": "text/event-stream", **headers}, "body": json.dumps(body)}
    return {"request": asked, "response": {"status": 200, "headers": {}, "body": stream(*events, begin=begin)}}


def resumed(last, *events, begin=0):
    asked = {"method": "GET", "headers": {"last-event-id": last}, "body": ""}
    return {"request": asked, "response": {"status": 200, "headers": {}, "body": stream(*events, begin=begin)}}


def test_sessions_of_one_file_that_run_at_the_same_time_are_kept_apart_by_their_ids():
    def told(session, body):
        return {"session_id": session, "message": body}

    rows = []
    for left, right in zip(
        (INITIALIZE, HELLO, call(1, "row"), result(1, "rowed")),
        (INITIALIZE, HELLO, call(1, "sail"), result(1, "sailed")),
        strict=True,
    ):
        rows += [told("left", left), told("right", right)]
    found, rejects, _ = parse("mcp_jsonrpc", lines(*rows))
    assert {one.native_id: seen(one) for one in found} == {
        "left/0": [("row", "rowed")],
        "right/0": [("sail", "sailed")],
    }
    assert not rejects


def test_a_session_that_is_cut_off_by_the_next_leaves_its_call_unanswered():
    found, rejects = read(
        INITIALIZE, HELLO, call(1), result(1, "a"), call(2, "walk"), INITIALIZE, HELLO, call(2), result(2, "b")
    )
    assert [seen(one) for one in found] == [[("look", "a"), ("walk", None)], [("look", "b")]]
    assert not rejects


@pytest.mark.parametrize("key", [0, -1, 7, 1.5, "0", "", "a-long-uuid", 2**60])
def test_an_id_of_any_kind_pairs_a_call_with_its_answer(key):
    found, rejects = read(INITIALIZE, HELLO, call(key), call("other", "walk"), result("other", "w"), result(key, "l"))
    assert seen(found[0]) == [("look", "l"), ("walk", "w")]
    assert [step.action.call_id for step in found[0].steps] == [str(key), "other"]
    assert not rejects


@pytest.mark.parametrize("key", [None, True, [], {}])
def test_what_is_no_id_pairs_nothing(key):
    found, rejects = read(INITIALIZE, HELLO, call(1), result(1, "a"), call(key), result(key, "b"))
    assert seen(found[0]) == [("look", "a")]
    assert [one.reason for one in rejects] == ["bad_id", "bad_id"]


def test_a_batch_is_one_turn_and_its_answers_go_by_id_in_any_order():
    """Batches are of protocol 2025-03-26 alone; notifications in them answer nothing."""
    asked = [call(1, "a"), notification("notifications/progress", progressToken=9, progress=1), call(2, "b")]
    found, rejects = read(
        INITIALIZE, HELLO, asked, [result(2, "two"), result(1, "one")], call(3, "c"), [result(3, "3")]
    )
    assert seen(found[0]) == [("a", "one"), ("b", "two"), ("c", "3")]
    assert [(one.turn, one.call_index, one.num_calls) for one in found[0].steps] == [(0, 0, 2), (0, 1, 2), (1, 0, 1)]
    assert not rejects


def test_a_batch_may_be_answered_piece_by_piece_and_one_of_it_never():
    found, rejects = read(
        INITIALIZE, HELLO, [call(1, "a"), call(2, "b"), call(3, "c")], result(3, "three"), [result(1, "one")]
    )
    assert seen(found[0]) == [("a", "one"), ("b", None), ("c", "three")]
    assert not rejects


def test_an_empty_batch_is_rejected_and_the_session_goes_on():
    found, rejects = read(INITIALIZE, HELLO, call(1), [], result(1, "a"))
    assert seen(found[0]) == [("look", "a")]
    assert [one.reason for one in rejects] == ["bad_message"]


def test_notifications_of_either_side_are_no_action_and_no_answer():
    noise = [
        notification("notifications/initialized"),
        notification("notifications/message", level="info", data="looking"),
        notification("notifications/tools/list_changed"),
        notification("notifications/roots/list_changed"),
        notification("notifications/resources/updated", uri="x://1"),
        notification("notifications/of/another/kind"),
    ]
    found, rejects = read(INITIALIZE, HELLO, *noise, call(1), *noise, result(1, "a"), *noise, call(2), result(2, "b"))
    assert seen(found[0]) == [("look", "a"), ("look", "b")]
    assert [one.interleaved for one in found[0].steps] == [None, None]
    assert [one.turn for one in found[0].steps] == [0, 1]
    assert not rejects


def test_progress_answers_nothing_even_where_its_token_is_the_id_of_another_call():
    asked = call(1)
    asked["params"]["_meta"] = {"progressToken": 2}
    progress = [notification("notifications/progress", progressToken=2, progress=at, total=2) for at in (1, 2)]
    found, rejects = read(
        INITIALIZE, HELLO, asked, *progress, call(2, "walk"), progress[0], result(2, "w"), result(1, "l")
    )
    assert seen(found[0]) == [("look", "l"), ("walk", "w")]
    assert [one.num_calls for one in found[0].steps] == [2, 2]
    assert "progress" not in (found[0].steps[0].action.arguments or "")
    assert not rejects


def test_a_server_that_cancels_its_own_request_leaves_the_call_of_the_same_id_open():
    found, rejects = read(
        INITIALIZE,
        HELLO,
        call(5),
        request(5, "sampling/createMessage", messages=[]),
        notification("notifications/cancelled", requestId=5),
        result(5, "done"),
        label=None,
    )
    assert seen(found[0]) == [("look", "done")]
    assert not rejects


def test_an_answer_that_came_in_spite_of_the_cancellation_is_the_answer():
    found, rejects = read(
        INITIALIZE,
        HELLO,
        call(1),
        notification("notifications/cancelled", requestId=1),
        result(1, "late"),
        call(2),
        result(2, "b"),
    )
    assert seen(found[0]) == [("look", "late"), ("look", "b")]
    assert not rejects


def test_cancelling_what_nobody_asked_changes_nothing():
    found, rejects = read(
        INITIALIZE,
        HELLO,
        call(1),
        *(notification("notifications/cancelled", requestId=key) for key in ("1", 9, None, True)),
        result(1, "a"),
    )
    assert seen(found[0]) == [("look", "a")]
    assert not rejects


def test_a_failed_tool_is_an_error_with_its_own_words_and_a_failed_call_one_with_its_code():
    unknown = {"jsonrpc": "2.0", "id": 2, "error": {"code": -32602, "message": "Unknown tool: look", "data": {"x": 1}}}
    found, _ = read(
        INITIALIZE,
        HELLO,
        call(1),
        result(1, "the lamp is broken", isError=True),
        call(2),
        unknown,
        call(3),
        result(3, "ok", isError=False),
    )
    shown = [after(one) for one in found[0].steps]
    assert [(one.is_error, one.content) for one in shown] == [
        (True, "the lamp is broken"),
        (True, '{"code": -32602, "message": "Unknown tool: look", "data": {"x": 1}}'),
        (False, "ok"),
    ]
    assert {one.origin for one in shown} == {"environment"}


def test_an_answer_that_a_resumed_stream_repeats_counts_once():
    """The stream of the call broke after its answer; the client resumed it and was sent the rest again."""
    progress = notification("notifications/progress", progressToken=1, progress=1)
    rows = [
        post(INITIALIZE, HELLO),
        post(call(1), progress, result(1, "a"), begin=10),
        resumed("e10", result(1, "a"), begin=11),
        post(call(2, "walk"), result(2, "b"), begin=20),
        resumed("e11", result(1, "a"), result(2, "b"), begin=12),
    ]
    found, rejects, _ = parse("mcp_jsonrpc", lines(*rows))
    assert seen(found[0]) == [("look", "a"), ("walk", "b")]
    assert not rejects


def test_an_answer_that_came_only_in_the_resumed_stream_is_the_call_s():
    progress = notification("notifications/progress", progressToken=1, progress=1)
    rows = [post(INITIALIZE, HELLO), post(call(1), progress, begin=10), resumed("e10", result(1, "a"), begin=11)]
    found, rejects, _ = parse("mcp_jsonrpc", lines(*rows))
    assert seen(found[0]) == [("look", "a")]
    assert not rejects


def test_what_the_server_asked_stands_once_though_a_resumed_stream_asks_it_again():
    rows = [
        post(INITIALIZE, HELLO),
        post(call(1), SAMPLING, begin=10),
        post(SAMPLED),
        resumed("e9", SAMPLING, result(1, "a"), begin=10),
        post(call(2, "walk"), result(2, "b"), begin=20),
    ]
    found, rejects, _ = parse("mcp_jsonrpc", lines(*rows))
    assert seen(found[0]) == [("look", "a"), ("walk", "b")]
    assert [one["role"] for one in json.loads(found[0].steps[1].interleaved or "[]")] == ["environment", "agent"]
    assert not rejects


def test_an_answer_that_a_resumed_stream_gives_otherwise_is_rejected():
    rows = [post(INITIALIZE, HELLO), post(call(1), result(1, "a")), resumed("e0", result(1, "another"))]
    found, rejects, _ = parse("mcp_jsonrpc", lines(*rows))
    assert seen(found[0]) == [("look", "a")]
    assert [one.reason for one in rejects] == ["result_repeated"]


def test_a_ping_of_the_server_with_the_id_of_an_open_call_is_not_taken_for_the_client_s():
    pong = {"jsonrpc": "2.0", "id": 1, "result": {}}
    for early in (False, True):
        both = [request(1, "ping"), call(1)] if early else [call(1), request(1, "ping")]
        found, rejects = read(*both, pong, result(1, "seen"))
        assert seen(found[0]) == [("look", "seen")]
        assert not rejects


def test_a_word_of_direction_is_learned_from_the_answer_to_what_only_a_client_asks():
    rows = [
        "--> " + json.dumps(INITIALIZE),
        "<-- " + json.dumps(HELLO),
        "--> " + json.dumps(call(1)),
        "<-- " + json.dumps(request(1, "ping")),
        "--> " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}),
        "<-- " + json.dumps(result(1, "seen")),
    ]
    found, rejects, _ = parse("mcp_jsonrpc", "\n".join(rows).encode())
    assert [seen(one) for one in found] == [[("look", "seen")]]
    assert not rejects


def test_a_word_that_tells_the_kind_of_a_message_tells_no_direction():
    asked = request(1, "sampling/createMessage", messages=[], maxTokens=1)
    sampled = {"jsonrpc": "2.0", "id": 1, "result": {"role": "assistant", "model": "m", "content": {}}}
    told = [
        {"type": "request", "message": INITIALIZE},
        {"type": "response", "message": HELLO},
        {"type": "request", "message": call(1)},
        {"type": "request", "message": asked},
        {"type": "response", "message": sampled},
        {"type": "response", "message": result(1, "seen")},
    ]
    found, rejects, _ = parse("mcp_jsonrpc", lines(*told))
    assert [seen(one) for one in found] == [[("look", "seen")]]
    assert not rejects


def test_two_open_calls_of_one_id_with_two_answers_have_none_that_is_sure():
    bodies = [INITIALIZE, HELLO, call(1, "row"), call(1, "sail"), result(1, "rowed"), result(1, "sailed"), call(2)]
    found, rejects = read(*bodies, result(2, "seen"))
    assert seen(found[0]) == [("row", None), ("sail", None), ("look", "seen")]
    assert found[0].steps[2].observation is None
    assert [one.reason for one in rejects] == ["ambiguous_id"]


def test_a_null_result_beside_an_error_is_an_error():
    failed = {"jsonrpc": "2.0", "id": 1, "result": None, "error": {"code": -32601, "message": "no such"}}
    found, _ = read(call(1), failed)
    assert after(found[0].steps[0]).is_error
    assert after(found[0].steps[0]).content == '{"code": -32601, "message": "no such"}'


def test_an_error_without_an_id_answers_no_call_but_ends_the_turn():
    broken = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
    found, rejects = read(call(1), broken, call(2), result(2, "seen"))
    assert [(one.turn, one.num_calls) for one in found[0].steps] == [(0, 1), (1, 1)]
    assert seen(found[0]) == [("look", None), ("look", "seen")]
    assert [one.reason for one in rejects] == ["bad_id"]


def test_a_notification_with_a_null_id_is_one():
    found, rejects = read(
        call(1), {**notification("notifications/progress", progressToken=1), "id": None}, result(1, "x")
    )
    assert seen(found[0]) == [("look", "x")]
    assert not rejects


def test_bodies_and_session_ids_of_http_exchanges_are_found_beside_each_other():
    def exchange(session, asked, told, *, greets=False):
        one = {"method": "POST", "request_body": json.dumps(asked), "response_body": stream(told)}
        return {**one, ("response_headers" if greets else "request_headers"): {"Mcp-Session-Id": session}}

    told = [exchange(session, INITIALIZE, HELLO, greets=True) for session in ("row", "sail")]
    told += [exchange(session, call(1, session), result(1, session + "ed")) for session in ("row", "sail")]
    found, rejects, _ = parse("mcp_jsonrpc", lines(*told))
    assert [seen(one) for one in found] == [[("row", "rowed")], [("sail", "sailed")]]
    assert not rejects


def test_without_a_handshake_each_message_names_its_side_and_a_discovery_with_an_old_id_is_a_new_session():
    client = {"_meta": {"io.modelcontextprotocol/clientInfo": {"name": "harbour", "version": "3"}}}
    server = {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "pier", "version": "4"}}}
    discover = request(0, "server/discover", **client)
    known = {"jsonrpc": "2.0", "id": 0, "result": {"resultType": "complete", **server}}
    one = [discover, known, call(1, "row"), result(1, "rowed", **server)]
    found, rejects = read(*one, *one, request(1, "tools/list"), {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}})
    assert [seen(each) for each in found] == [[("row", "rowed")]] * 2
    assert {(each.environment.id, each.environment.version) for each in found} == {("pier", "4")}
    assert {(each.agent.name, each.agent.version) for each in found} == {("harbour", "3")}
    found, _ = read(call(1, "row"), result(1, "rowed", **server))
    assert found[0].environment.id == "pier"
    assert not rejects


def test_what_the_client_gives_to_a_call_that_wanted_input_stands_before_the_call_that_is_made_again():
    wanted = {"resultType": "input_required", "inputRequests": {"who": {"method": "elicitation/create", "params": {}}}}
    again = call(2, "row")
    again["params"] |= {"inputResponses": {"who": {"action": "decline"}}, "requestState": "s"}
    found, _ = read(call(1, "row"), {"jsonrpc": "2.0", "id": 1, "result": wanted}, again, result(2, "rowed"))
    first, second = found[0].steps
    assert json.loads(after(first).content or "") == wanted
    assert second.interleaved is not None
    assert json.loads(second.interleaved) == [{"role": "user", "content": '{"who": {"action": "decline"}}'}]
    assert seen(found[0])[1] == ("row", "rowed")


@pytest.mark.parametrize("name", ["mcp_recorder", "agent_vcr"])
def test_recordings_that_begin_with_a_byte_order_mark_are_recognized_and_read(name):
    pair = {"request": call(1), "response": result(1, "seen")}
    session = {"initialize_request": INITIALIZE, "initialize_response": HELLO, "interactions": [pair]}
    documents = {
        "mcp_recorder": {"version": "1", "interactions": [{"type": "jsonrpc_request", **pair}]},
        "agent_vcr": {"format_version": "1", "metadata": {}, "session": session},
    }
    data = b"\xef\xbb\xbf" + json.dumps(documents[name], indent=2).replace("\n", "\r\n").encode()
    assert sniff(data, "log.json")[0][0].name == name
    found, rejects, _ = parse(name, data)
    assert [seen(one) for one in found] == [[("look", "seen")]]
    assert not rejects
