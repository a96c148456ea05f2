"""The rules of the protocol that decide what a transition is, on logs written by hand."""

import json

import pytest

from tests.connectors.wire_logs import HELLO, INITIALIZE, after, call, read, request, result, seen
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.mcp.mcp_jsonrpc import McpJsonRpc
from trajmill.connectors.registry import sniff
from trajmill.schemas import ParseError, Reject, Trajectory


def notification(method, **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def test_two_open_calls_of_one_id_with_two_answers_have_none_that_is_sure():
    bodies = [INITIALIZE, HELLO, call(1, "row"), call(1, "sail"), result(1, "rowed"), result(1, "sailed"), call(2)]
    found, rejects = read(*bodies, result(2, "seen"))
    assert seen(found[0]) == [("row", None), ("sail", None), ("look", "seen")]
    assert found[0].steps[2].observation is None
    assert [one.reason for one in rejects] == ["ambiguous_id"]


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


def halves(requests: list, answers: list) -> tuple[list[Trajectory], list[Reject]]:
    members = {
        name: "".join(json.dumps(one) + "\n" for one in messages).encode()
        for name, messages in (("x.in.jsonl", requests), ("x.out.jsonl", answers))
    }
    found = list(McpJsonRpc().parse(MemoryBlob("tee", members)))
    return [one for one in found if isinstance(one, Trajectory)], [one for one in found if isinstance(one, Reject)]


def test_captures_of_one_direction_are_joined_by_ids_in_the_order_of_the_requests():
    told = notification("notifications/message", level="info", data="wind")
    opened = result(0, protocolVersion="2025-06-18", serverInfo={"name": "harbour"}, capabilities={})
    (made,), rejects = halves(
        [INITIALIZE, call(1, "row"), call(2, "sail")], [opened, told, result(2, "b"), result(1, "a")]
    )
    assert seen(made) == [("row", "a"), ("sail", "b")]
    assert rejects == []
    assert {step.member for step in made.steps} == {"x.in.jsonl"}


def test_two_captures_of_both_directions_are_read_each_by_itself():
    whole = [INITIALIZE, HELLO, call(1, "row"), result(1, "a")]
    made, _ = halves(whole, whole)
    assert [seen(one) for one in made] == [[("row", "a")], [("row", "a")]]


def test_a_capture_of_one_direction_is_refused_by_name():
    for messages in ([INITIALIZE, call(1)], [result(1, "a"), result(2, "b")]):
        data = "".join(json.dumps(one) + "\n" for one in messages).encode()
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
