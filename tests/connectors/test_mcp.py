"""Logs of MCP: the rules of the protocol, envelopes, and the logs of the wire and of the Inspector."""

import json
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.wire_logs import (
    HELLO,
    INITIALIZE,
    after,
    call,
    failure,
    lines,
    parse,
    read,
    request,
    result,
    seen,
)
from tests.rows import split_records
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.conversation.mcp_answer import response_observation
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.turns import Call, Part, Result
from trajmill.connectors.mcp.mcp_jsonrpc import McpJsonRpc
from trajmill.connectors.mcp.wire_reader import SessionReader
from trajmill.connectors.mcp.wire_session import Message
from trajmill.connectors.registry import sniff
from trajmill.schemas import ParseError, Reject, Trajectory


def test_a_capture_of_a_document_ends_at_its_fault_with_its_offset():
    text = "".join(json.dumps(message, indent=1) + "\n" for message in (INITIALIZE, HELLO, call(1), result(1, "ä")))
    trajectories, _, _ = parse("mcp_jsonrpc", text + "{\n oops")
    error = failure("mcp_jsonrpc", text + "{\n oops")
    assert seen(trajectories[0]) == [("look", "ä")]
    assert (error.reason, error.offset) == ("bad_json", len(text.encode()))


def test_every_way_to_write_one_session_gives_the_same_transitions():
    bodies = [INITIALIZE, HELLO, call(1, x="ü"), result(1, "a"), call(2), result(2, "b")]
    ways = [
        lines(*bodies),
        json.dumps(bodies, indent=2),
        "".join(json.dumps(body, indent=2) for body in bodies),
        lines(*({"dir": "a" if "method" in body else "b", "ts": 1735689600, "msg": body} for body in bodies)),
        lines(*({"line": json.dumps(body)} for body in bodies)),
        "\n".join(("> " if "method" in body else "< ") + json.dumps(body) for body in bodies),
        lines(*({"session": 7, "direction": "in" if "method" in body else "out", **body} for body in bodies)),
        lines(*({"sent" if "method" in body else "received": body} for body in bodies)),
        lines(*({"side": "client" if "method" in body else "server", "jsonrpc": body} for body in bodies)),
        lines(*({"level": "debug", "message": "Message: " + json.dumps(body)} for body in bodies)),
        lines(*({"dir": "req" if "method" in body else "res", **body, "jsonrpc": None} for body in bodies)).replace(
            ', "jsonrpc": null', ""
        ),
        json.dumps({"entries": [{"request": bodies[at], "response": bodies[at + 1]} for at in (0, 2, 4)]}),
    ]
    for way in ways:
        trajectories, rejects, error = parse("mcp_jsonrpc", way)
        assert [seen(trajectory) for trajectory in trajectories] == [[("look", "a"), ("look", "b")]], way
        assert not rejects
        assert error is None
        head = way.encode()[:65536]
        assert sniff(head, "x.log")[0][0].name == "mcp_jsonrpc"
        steps = trajectories[0].steps
        assert steps[0].offset < steps[1].offset


def notification(method, **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def test_two_open_calls_of_one_id_with_two_answers_have_none_that_is_sure():
    bodies = [INITIALIZE, HELLO, call(1, "row"), call(1, "sail"), result(1, "rowed"), result(1, "sailed"), call(2)]
    trajectories, rejects = read(*bodies, result(2, "seen"))
    assert seen(trajectories[0]) == [("row", None), ("sail", None), ("look", "seen")]
    assert trajectories[0].steps[2].observation is None
    assert [reject.reason for reject in rejects] == ["ambiguous_id"]


def test_without_a_handshake_each_message_names_its_side_and_a_discovery_with_an_old_id_is_a_new_session():
    client = {"_meta": {"io.modelcontextprotocol/clientInfo": {"name": "harbour", "version": "3"}}}
    server = {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "pier", "version": "4"}}}
    discover = request(0, "server/discover", **client)
    known = {"jsonrpc": "2.0", "id": 0, "result": {"resultType": "complete", **server}}
    session = [discover, known, call(1, "row"), result(1, "rowed", **server)]
    trajectories, rejects = read(
        *session, *session, request(1, "tools/list"), {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}
    )
    assert [seen(each) for each in trajectories] == [[("row", "rowed")]] * 2
    assert {(each.environment.id, each.environment.version) for each in trajectories} == {("pier", "4")}
    assert {(each.agent.name, each.agent.version) for each in trajectories} == {("harbour", "3")}
    trajectories, _ = read(call(1, "row"), result(1, "rowed", **server))
    assert trajectories[0].environment.id == "pier"
    assert not rejects


def test_what_the_client_gives_to_a_call_that_wanted_input_stands_before_the_call_that_is_made_again():
    wanted = {"resultType": "input_required", "inputRequests": {"who": {"method": "elicitation/create", "params": {}}}}
    again = call(2, "row")
    again["params"] |= {"inputResponses": {"who": {"action": "decline"}}, "requestState": "s"}
    trajectories, _ = read(call(1, "row"), {"jsonrpc": "2.0", "id": 1, "result": wanted}, again, result(2, "rowed"))
    first, second = trajectories[0].steps
    assert json.loads(after(first).content or "") == wanted
    assert second.interleaved is not None
    assert json.loads(second.interleaved) == [{"role": "user", "content": '{"who": {"action": "decline"}}'}]
    assert seen(trajectories[0])[1] == ("row", "rowed")


def halves(requests: list, answers: list) -> tuple[list[Trajectory], list[Reject]]:
    members = {
        name: "".join(json.dumps(message) + "\n" for message in messages).encode()
        for name, messages in (("x.in.jsonl", requests), ("x.out.jsonl", answers))
    }
    return split_records(McpJsonRpc().parse(MemoryBlob("tee", members)))


def test_captures_of_one_direction_are_joined_by_ids_in_the_order_of_the_requests():
    notice = notification("notifications/message", level="info", data="wind")
    opened = result(0, protocolVersion="2025-06-18", serverInfo={"name": "harbour"}, capabilities={})
    (trajectory,), rejects = halves(
        [INITIALIZE, call(1, "row"), call(2, "sail")], [opened, notice, result(2, "b"), result(1, "a")]
    )
    assert seen(trajectory) == [("row", "a"), ("sail", "b")]
    assert rejects == []
    assert {step.member for step in trajectory.steps} == {"x.in.jsonl"}


def test_two_captures_of_both_directions_are_read_each_by_itself():
    whole = [INITIALIZE, HELLO, call(1, "row"), result(1, "a")]
    trajectories, _ = halves(whole, whole)
    assert [seen(trajectory) for trajectory in trajectories] == [[("row", "a")], [("row", "a")]]


def test_a_capture_of_one_direction_is_refused_by_name():
    for messages in ([INITIALIZE, call(1)], [result(1, "a"), result(2, "b")]):
        data = "".join(json.dumps(message) + "\n" for message in messages).encode()
        assert sniff(data, "x.log")[0][0].name == "mcp_jsonrpc"
        with pytest.raises(ParseError) as caught:
            list(McpJsonRpc().parse(MemoryBlob("x.log", data)))
        assert caught.value.reason == "one_direction"


@pytest.mark.parametrize(
    ("paths", "uris"),
    [
        (["a/x.in.jsonl", "a/x.out.jsonl"], ["a"]),
        (["stdin.log", "stdout.log"], ["stdin.log"]),
        (
            ["a/requests.jsonl", "a/responses.jsonl", "a/b_client.txt", "a/b_server.txt"],
            ["a/requests.jsonl", "a/b_client.txt"],
        ),
        (["a/begin.jsonl", "a/begout.jsonl", "a/in.log", "b/out.log"], []),
    ],
)
def test_names_tell_which_captures_are_two_directions_of_one(paths, uris):
    assert sorted(log.uri for log in McpJsonRpc().join(sorted(paths))) == sorted(uris)


PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


def told(body, text=None):
    """What a response to a call of a tool is observed as, and its envelope as a value."""
    seen = response_observation("tools/call", body, text=text)
    assert seen is not None
    return seen, json.loads(seen.envelope or "null")


def one(log, connector="mcp_jsonrpc"):
    """The observation after the one call of a log."""
    trajectories, _, _ = parse(connector, log)
    return after(trajectories[0].steps[0])


def asked(*more):
    return "".join(json.dumps(message) + "\n" for message in (INITIALIZE, HELLO, call(1))) + "".join(more)


def test_what_is_nested_too_deeply_to_be_carried_on_is_no_envelope():
    deep = "[" * 200 + "]" * 200
    seen = one(
        asked(f'{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"a"}}],"x":{deep}}}}}', "\n")
    )
    assert (seen.content, seen.envelope) == ("a", None)


def test_an_image_alone_has_an_envelope_and_no_text():
    body = {
        "id": 1,
        "result": {"content": [{"type": "image", "data": b64encode(PNG).decode(), "mimeType": "image/png"}]},
    }
    seen, value = told(body)
    assert seen.content is None
    assert value["content"][0]["data"].startswith("attachment:image/png;")


def test_the_envelope_of_a_result_in_which_the_harness_spoke_is_left_out():
    def shown(text):
        body = json.dumps({"content": [{"type": "text", "text": text}]})
        parts: list[Part] = [Call("look", "{}", "1", 0), Result("1", "look", text, 0, envelope=body)]
        return after(conversation(parts).steps[0])

    assert json.loads(shown("a").envelope or "")["content"][0]["text"] == "a"
    assert shown("a\n<system-reminder>be kind</system-reminder>").envelope is None


def entry(message, response=None, at=0, duration=None, **more):
    """An entry of the history; `at` is in milliseconds within a minute."""
    fields = {"id": f"{at}-x", "timestamp": f"2026-01-01T00:00:{at // 1000:02}.{at % 1000:03}Z", "direction": "request"}
    fields |= {"message": message, **more}
    return fields if response is None else {**fields, "response": response, "duration": duration}


def history(*entries):
    return parse("mcp_inspector", json.dumps([entry(INITIALIZE, HELLO, 0, 1), *entries]))


def turns(trajectory):
    return [(step.turn, step.call_index, step.num_calls) for step in trajectory.steps]


def test_an_answer_whose_request_is_no_longer_in_the_history_is_rejected():
    trajectories, rejects, _ = history(
        entry(result(9, "lost"), at=500, direction="response"), entry(call(1), result(1, "a"), 1000, 1)
    )
    assert seen(trajectories[0]) == [("look", "a")]
    assert [reject.reason for reject in rejects] == ["result_without_call"]


def network(asked, body, status=200, method="POST"):
    answer = {"responseStatus": status, "responseHeaders": {}, "responseBody": body}
    where = {"method": method, "url": "https://s.example/mcp", "requestHeaders": {}, "category": "transport"}
    sent = {} if asked is None else {"requestBody": json.dumps(asked)}
    return {"id": "x", "timestamp": "2026-01-01T00:00:00Z", **sent, **where, **answer}


@pytest.mark.parametrize("status", [404, 500])
def test_a_call_that_http_refused_ends_its_turn(status):
    opened = network(INITIALIZE, json.dumps(HELLO))
    calls = [network(call(2), "Not Found", status), network(call(3), json.dumps(result(3, "c")))]
    trajectories, rejects, _ = parse("mcp_inspector", json.dumps([opened, *calls]))
    assert seen(trajectories[0]) == [("look", None), ("look", "c")]
    assert turns(trajectories[0]) == [(0, 0, 1), (1, 0, 1)]
    assert not rejects


def test_a_prompt_keeps_no_base64():
    data = b64encode(b"bytes").decode()
    block = {"type": "image", "data": data, "mimeType": "image/png"}
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"messages": [{"role": "user", "content": block}]}}
    shown = after(read(request(1, "prompts/get", name="p"), answer)[0][0].steps[0])
    assert data not in (shown.content or "")
    assert len(shown.attachments) == 1


def test_a_task_is_answered_by_its_result():
    begun = {"jsonrpc": "2.0", "id": 1, "result": {"task": {"taskId": "t", "status": "working"}}}
    trajectories, _ = read(
        call(1),
        begun,
        request(2, "tasks/get", taskId="t"),
        result(2),
        request(3, "tasks/result", taskId="t"),
        result(3, "at last"),
    )
    assert seen(trajectories[0]) == [("look", "at last")]


def test_arguments_that_are_too_deep_are_rejected_and_their_answer_with_them():
    deep: object = 1
    for _ in range(400):
        deep = [deep]
    trajectories, rejects = read(call(1, deep=deep), result(1, "x"), call(2), result(2, "y"))
    assert seen(trajectories[0]) == [("look", "y")]
    assert [reject.reason for reject in rejects] == ["nested_too_deeply"]


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


@given(st.lists(messages, max_size=8))
def test_any_messages_become_steps_or_rejects(bodies):
    trajectories, _ = read(*bodies)
    for trajectory in trajectories:
        assert any(step.next_observation is not None for step in trajectory.steps)
        assert [step.offset for step in trajectory.steps] == sorted(step.offset for step in trajectory.steps)


MESSAGES = [
    INITIALIZE,
    HELLO,
    *(call(key, name) for key in (1, 2) for name in ("look", "walk")),
    *(result(key, text) for key in (1, 2) for text in ("a", "b")),
    request(1, "ping"),
    {"jsonrpc": "2.0", "id": 1, "result": {}},
]


def outcome(bodies, in_memory, offsets):
    """Steps and reasons of rejects of a log whose messages stand at these offsets."""
    reader = SessionReader("wire", "log", in_memory=in_memory)
    records = [record for at, body in zip(offsets, bodies, strict=True) for record in reader.take(Message(at, body))]
    records += reader.finish()
    return [seen(record) if isinstance(record, Trajectory) else record.reason for record in records]


@given(st.lists(st.sampled_from(MESSAGES), max_size=12))
def test_doubles_are_known_again_whether_messages_are_kept_or_hashed(bodies):
    near = range(len(bodies))
    far = [at << 30 for at in range(1, len(bodies) + 1)]
    crossing = [at << 22 for at in near]
    expected = outcome(bodies, True, near)
    assert outcome(bodies, False, near) == expected
    assert outcome(bodies, False, far) == expected
    assert outcome(bodies, False, crossing) == expected
