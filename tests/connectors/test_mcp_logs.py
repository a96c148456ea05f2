"""The logs of the wire itself: captures, recorder cassettes, interceptor traces, desktop logs."""

import json

import pytest

from tests.connectors.wire_logs import HELLO, INITIALIZE, after, call, failure, lines, parse, request, result, seen
from trajmill.connectors.registry import connector, sniff


def test_a_cut_capture_keeps_what_stands_before_the_cut():
    text = lines(INITIALIZE, HELLO, call(1), result(1, "a"), call(2), result(2, "b"))
    found, rejects, error = parse("mcp_jsonrpc", text[:-30])
    assert seen(found[0]) == [("look", "a"), ("look", None)]
    assert [(one.reason, one.offset) for one in rejects] == [
        ("truncated", len(lines(INITIALIZE, HELLO, call(1), result(1, "a"), call(2))))
    ]
    assert error is None


def test_a_capture_of_a_document_ends_at_its_fault_with_its_offset():
    text = "".join(json.dumps(one, indent=1) + "\n" for one in (INITIALIZE, HELLO, call(1), result(1, "ä")))
    found, _, _ = parse("mcp_jsonrpc", text + "{\n oops")
    error = failure("mcp_jsonrpc", text + "{\n oops")
    assert seen(found[0]) == [("look", "ä")]
    assert (error.reason, error.offset) == ("bad_json", len(text.encode()))


def test_every_way_to_write_one_session_gives_the_same_transitions():
    bodies = [INITIALIZE, HELLO, call(1, x="ü"), result(1, "a"), call(2), result(2, "b")]
    ways = [
        lines(*bodies),
        json.dumps(bodies, indent=2),
        "".join(json.dumps(one, indent=2) for one in bodies),
        lines(*({"dir": "a" if "method" in one else "b", "ts": 1735689600, "msg": one} for one in bodies)),
        lines(*({"line": json.dumps(one)} for one in bodies)),
        "\n".join(("> " if "method" in one else "< ") + json.dumps(one) for one in bodies),
        lines(*({"session": 7, "direction": "in" if "method" in one else "out", **one} for one in bodies)),
        lines(*({"sent" if "method" in one else "received": one} for one in bodies)),
        lines(*({"side": "client" if "method" in one else "server", "jsonrpc": one} for one in bodies)),
        lines(*({"level": "debug", "message": "Message: " + json.dumps(one)} for one in bodies)),
        lines(*({"dir": "req" if "method" in one else "res", **one, "jsonrpc": None} for one in bodies)).replace(
            ', "jsonrpc": null', ""
        ),
        json.dumps({"entries": [{"request": bodies[at], "response": bodies[at + 1]} for at in (0, 2, 4)]}),
    ]
    for way in ways:
        found, rejects, error = parse("mcp_jsonrpc", way)
        assert [seen(one) for one in found] == [[("look", "a"), ("look", "b")]], way
        assert not rejects
        assert error is None
        head = way.encode()[:65536]
        assert sniff(head, "x.log")[0][0].name == "mcp_jsonrpc"
        steps = found[0].steps
        assert steps[0].offset < steps[1].offset


@pytest.mark.parametrize(
    "head",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"textDocument/hover","params":{}}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":1,"rootUri":null}}\n',
        b'{"$schema": "x", "properties": {"jsonrpc": {"const": "2.0"}, "method": {"const": "tools/call"}}}',
        json.dumps({"type": "user", "message": {"role": "user", "content": "say " + json.dumps(call(1))}}).encode()
        + b"\n",
        b'{"id":1,"method":"Page.navigate","params":{}}\n',
        b'{"id":1,"result":{"frameId":"x"}}\n',
        json.dumps({"role": "user", "content": "say " + json.dumps(call(1))}).encode() + b"\n",
        json.dumps({"role": "user", "text": "say " + json.dumps(call(1))}).encode() + b"\n",
    ],
)
def test_other_protocols_and_talk_of_mcp_are_not_recognized(head):
    assert connector("mcp_jsonrpc").sniff(head, "log.jsonl") is None


@pytest.mark.parametrize("name", ["connection", "sessionId", "server"])
def test_sessions_are_kept_apart_by_numbers_and_names_beside_their_messages(name):
    rows = [{name: at, **body} for body in (INITIALIZE, HELLO, call(1)) for at in (1, 2)]
    rows += [{name: at, **result(1, f"of {at}")} for at in (1, 2)]
    found, rejects, _ = parse("mcp_jsonrpc", lines(*rows))
    assert [(one.native_id, seen(one)) for one in found] == [("1/0", [("look", "of 1")]), ("2/0", [("look", "of 2")])]
    assert not rejects


def test_an_answer_without_a_session_is_of_the_one_that_waits_for_its_id():
    rows = [{"server": name, "message": call(key, name)} for key, name in ((1, "row"), (2, "sail"))]
    rows += [{"message": result(2, "sailed")}, {"message": result(1, "rowed")}]
    found, rejects, _ = parse("mcp_jsonrpc", lines(*rows))
    assert [seen(one) for one in found] == [[("row", "rowed")], [("sail", "sailed")]]
    assert not rejects
    both = [{"server": name, "message": call(1, name)} for name in ("row", "sail")]
    found, rejects, error = parse("mcp_jsonrpc", lines(*both, {"message": result(1, "rowed")}))
    assert not found
    assert [one.reason for one in rejects] == ["result_without_call", "no_results", "no_results"]
    assert error is not None


def test_a_time_with_its_zone_before_a_message_is_its_time_and_one_without_is_none():
    for zone, begun, lasted in (("Z", 1750000000000000, 2.5), ("+02:00", 1749992800000000, 2.5), ("", None, None)):
        words = "a.logger.of.many.words.that.stand.before.each.line (thread 12): "
        told = [
            f'[2025-06-15T15:06:39{zone}] {words} says "hello"',
            f"[2025-06-15T15:06:40{zone}] {words} client -> server: " + json.dumps(call(1)),
            f"[2025-06-15T15:06:41,000{zone}] {words} server -> client: " + json.dumps(request(1, "roots/list")),
            f"[2025-06-15T15:06:42{zone}] {words} client -> server: " + json.dumps(result(1)),
            f"[2025-06-15T15:06:42.500{zone}] {words} server -> client: " + json.dumps(result(1, "a")),
        ]
        found, rejects, _ = parse("mcp_jsonrpc", "\n".join(told))
        assert [seen(one) for one in found] == [[("look", "a")]]
        assert (found[0].steps[0].started_at, found[0].steps[0].duration_s) == (begun, lasted)
        assert not rejects


def test_a_direction_and_a_time_beside_the_members_of_a_message_are_those_of_it():
    pinged = [
        ("c", call(1)),
        ("s", {"jsonrpc": "2.0", "id": 2, "method": "ping"}),
        ("c", result(2)),
        ("s", result(1, "a")),
    ]
    rows = [{"ts": 1750000000 + at, "dir": side, **one} for at, (side, one) in enumerate(pinged)]
    found, rejects, _ = parse("mcp_jsonrpc", lines({"dir": "c", **INITIALIZE}, {"dir": "s", **HELLO}, *rows))
    assert [seen(one) for one in found] == [[("look", "a")]]
    assert found[0].steps[0].duration_s == 3.0
    assert not rejects


def test_server_noise_on_standard_error_is_passed_over():
    text = "starting\n" + lines(INITIALIZE, HELLO) + "Traceback:\n  KeyError: {'a'}\n" + lines(call(1), result(1, "a"))
    found, rejects, _ = parse("mcp_jsonrpc", text)
    assert seen(found[0]) == [("look", "a")]
    assert not rejects


def test_servers_in_one_desktop_log_are_kept_apart():
    text = ""
    for body, who in ((INITIALIZE, "client"), (HELLO, "server"), (call(1), "client"), (result(1, "a"), "server")):
        for name in ("one", "two"):
            text += f"2025-06-03T20:49:51.000Z [{name}] [info] Message from {who}: {json.dumps(body)}\n"
    found, rejects, _ = parse("mcp_desktop_log", text)
    assert [(one.native_id, seen(one)) for one in found] == [("one/0", [("look", "a")]), ("two/0", [("look", "a")])]
    assert not rejects


def test_a_cut_answer_in_a_desktop_log_is_marked_as_cut_by_the_recorder():
    told = json.dumps(result(1, "x...[9000 chars truncated]...y"))
    text = f"2025-06-03T20:49:51.000Z [s] [info] Message from client: {json.dumps(call(1))} {{ metadata: undefined }}\n"
    text += f"2025-06-03T20:49:52.500Z [s] [info] Message from server: {told} {{ metadata: undefined }}\n"
    step = parse("mcp_desktop_log", text)[0][0].steps[0]
    assert after(step).truncation == "recorder"
    assert step.duration_s == 1.5


def test_an_interceptor_trace_pairs_by_count():
    def line(kind, count, **more):
        return {"type": kind, "timestamp": "2025-10-23T23:02:51", "count": count, "method": "call_tool", **more}

    told = {
        "_type": "CallToolResult",
        "content": [{"_type": "TextContent", "type": "text", "text": "b"}],
        "isError": None,
    }
    text = lines(
        line("request", 1, args=["a", {"x": 1}], kwargs={}),
        line("request", 2, args=["b"], kwargs={"arguments": {"_type": 3}}),
        line("response", 2, result=told, error=None),
        line("response", 1, result=None, error="McpError: gone"),
    )
    steps = parse("mcp_interceptor", text)[0][0].steps
    assert [(one.action.name, after(one).content) for one in steps] == [("a", "McpError: gone"), ("b", "b")]
    assert [after(one).is_error for one in steps] == [True, False]


def test_recorders_offsets_are_those_of_their_interactions():
    pairs = [(INITIALIZE, HELLO), (call(1, q='"interactions": [{'), result(1, "a")), (call(2), result(2, "b"))]
    listed = [{"type": "jsonrpc_request", "request": ask, "response": told} for ask, told in pairs]
    text = json.dumps({"version": "1.0", "metadata": {"x": [{}]}, "interactions": listed}, indent=1)
    steps = parse("mcp_recorder", text)[0][0].steps
    for step, one in zip(steps, listed[1:], strict=True):
        assert json.JSONDecoder().raw_decode(text[step.offset :])[0] == one


def test_a_request_of_the_server_in_a_recording_is_no_action():
    session: dict[str, object] = {"initialize_request": INITIALIZE, "initialize_response": HELLO}
    session["interactions"] = [
        {
            "direction": "server_to_client",
            "request": request(1, "roots/list"),
            "response": {"id": 1, "result": {"roots": []}},
        },
        {"direction": "client_to_server", "request": call(1), "response": result(1, "a")},
    ]
    found, rejects, _ = parse("agent_vcr", json.dumps({"format_version": "1.0.0", "session": session}))
    assert seen(found[0]) == [("look", "a")]
    assert not rejects
