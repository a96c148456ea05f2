"""Exports of the MCP Inspector: answers stand in the entry of their request, and times say when they came."""

import json

import pytest

from tests.conftest import ROOT
from tests.connectors.wire_logs import HELLO, INITIALIZE, call, failure, parse, request, result, seen
from tests.rows import parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector, sniff

INPUT = ROOT / "tests" / "fixtures" / "mcp_inspector" / "input"


def entry(message, response=None, at=0, duration=None, **more):
    """An entry of the history; `at` is in milliseconds within a minute."""
    told = {"id": f"{at}-x", "timestamp": f"2026-01-01T00:00:{at // 1000:02}.{at % 1000:03}Z", "direction": "request"}
    told |= {"message": message, **more}
    return told if response is None else {**told, "response": response, "duration": duration}


def history(*entries):
    return parse("mcp_inspector", json.dumps([entry(INITIALIZE, HELLO, 0, 1), *entries]))


def turns(trajectory):
    return [(one.turn, one.call_index, one.num_calls) for one in trajectory.steps]


def shown_before(trajectory):
    return [one.observation and one.observation.content for one in trajectory.steps]


def test_a_call_that_was_sent_before_the_answer_to_another_came_is_of_one_turn_with_it():
    found, rejects, _ = history(
        entry(call(1), result(1, "a"), 1000, 500),
        entry(call(2), result(2, "b"), 1499, 1),
        entry(call(3), result(3, "c"), 2000, 1),
    )
    assert seen(found[0]) == [("look", "a"), ("look", "b"), ("look", "c")]
    assert turns(found[0]) == [(0, 0, 2), (0, 1, 2), (1, 0, 1)]
    assert shown_before(found[0]) == [None, None, "b"]
    assert not rejects


def test_a_call_that_was_sent_when_the_answer_had_come_saw_it():
    found, _, _ = history(entry(call(1), result(1, "a"), 1000, 500), entry(call(2), result(2, "b"), 1500, 1))
    assert turns(found[0]) == [(0, 0, 1), (1, 0, 1)]
    assert shown_before(found[0]) == [None, "a"]


@pytest.mark.parametrize("duration", [None, "5", -1, True, 1e300])
def test_without_a_duration_an_answer_counts_as_come_at_once(duration):
    found, _, _ = history(entry(call(1), result(1, "a"), 1000, duration), entry(call(2), result(2, "b"), 1001, 1))
    assert turns(found[0]) == [(0, 0, 1), (1, 0, 1)]
    assert [one.duration_s for one in found[0].steps] == [None, 0.001]


def test_an_answer_that_would_come_after_the_session_is_of_its_session():
    found, rejects, _ = history(
        entry(call(1), result(1, "a"), 1000, 9000),
        entry(INITIALIZE, HELLO, 2000, 1),
        entry(call(1), result(1, "b"), 3000, 1),
    )
    assert [seen(one) for one in found] == [[("look", "a")], [("look", "b")]]
    assert not rejects


def test_an_answer_in_the_entry_of_what_the_server_asked_is_that_of_the_call_with_its_id():
    asked = request(1, "elicitation/create", message="?", requestedSchema={})
    found, rejects, _ = history(
        entry(call(1), at=1000), entry(asked, result(1, "a"), 1100, 900), entry(call(2), result(2, "b"), 3000, 1)
    )
    assert seen(found[0]) == [("look", "a"), ("look", "b")]
    assert "elicitation/create" in (found[0].steps[1].interleaved or "")
    assert not rejects


def test_an_answer_of_the_client_in_the_entry_of_what_the_server_asked_is_what_it_was_told():
    asked = request(1, "elicitation/create", message="?", requestedSchema={})
    told = {"jsonrpc": "2.0", "id": 1, "result": {"action": "decline"}}
    found, rejects, _ = history(
        entry(call(1), result(1, "a"), 1000, 2000),
        entry(asked, told, 1100, 900, origin="server"),
        entry(call(2), result(2, "b"), 4000, 1),
    )
    assert seen(found[0]) == [("look", "a"), ("look", "b")]
    assert [one["role"] for one in json.loads(found[0].steps[1].interleaved or "[]")] == ["environment", "user"]
    assert not rejects


def test_an_answer_whose_request_is_no_longer_in_the_history_is_rejected():
    found, rejects, _ = history(
        entry(result(9, "lost"), at=500, direction="response"), entry(call(1), result(1, "a"), 1000, 1)
    )
    assert seen(found[0]) == [("look", "a")]
    assert [one.reason for one in rejects] == ["result_without_call"]


def test_offsets_are_those_of_the_entries():
    for path in INPUT.iterdir():
        data = path.read_bytes()
        rows, _ = parsed(connector("mcp_inspector"), MemoryBlob(path.name, data))
        for row in rows:
            told = json.JSONDecoder().raw_decode(data[row["provenance"]["offset"] :].decode())[0]
            message = told.get("message") or json.loads(told["requestBody"])
            assert str(message["id"]) == row["action"]["call_id"]


def test_requests_for_access_and_open_streams_are_no_messages():
    entries = json.loads((INPUT / "network.json").read_text("utf-8"))
    assert {one["category"] for one in entries} == {"auth", "transport"}
    for one in entries:
        if one["category"] == "auth":
            one["requestBody"] = json.dumps(call(77, "leak"))
    found, rejects, _ = parse("mcp_inspector", json.dumps(entries))
    assert "leak" not in {step.action.name for one in found for step in one.steps}
    assert not rejects


def test_sessions_of_the_network_log_are_told_apart_by_the_id_in_their_headers():
    entries = json.loads((INPUT / "network.json").read_text("utf-8"))
    other = json.loads(json.dumps(entries).replace("5f1c", "77aa"))
    mixed = [one for pair in zip(entries, other, strict=True) for one in pair]
    found, rejects, _ = parse("mcp_inspector", json.dumps(mixed))
    assert {one.native_id for one in found} == {"5f1c/0", "77aa/0"}
    assert seen(found[0]) == seen(found[1])
    assert not rejects


def network(asked, told, status=200, method="POST"):
    answer = {"responseStatus": status, "responseHeaders": {}, "responseBody": told}
    where = {"method": method, "url": "https://s.example/mcp", "requestHeaders": {}, "category": "transport"}
    sent = {} if asked is None else {"requestBody": json.dumps(asked)}
    return {"id": "x", "timestamp": "2026-01-01T00:00:00Z", **sent, **where, **answer}


@pytest.mark.parametrize("status", [404, 500])
def test_a_call_that_http_refused_ends_its_turn(status):
    opened = network(INITIALIZE, json.dumps(HELLO))
    calls = [network(call(2), "Not Found", status), network(call(3), json.dumps(result(3, "c")))]
    found, rejects, _ = parse("mcp_inspector", json.dumps([opened, *calls]))
    assert seen(found[0]) == [("look", None), ("look", "c")]
    assert turns(found[0]) == [(0, 0, 1), (1, 0, 1)]
    assert not rejects


def test_a_stream_that_a_server_does_not_offer_ends_no_turn():
    opened = network(INITIALIZE, json.dumps(HELLO))
    late = json.dumps([result(2, "b"), result(3, "c")])
    calls = [network(call(2), "", 202), network(None, "", 405, "GET"), network(call(3), late)]
    found, rejects, _ = parse("mcp_inspector", json.dumps([opened, *calls]))
    assert seen(found[0]) == [("look", "b"), ("look", "c")]
    assert turns(found[0]) == [(0, 0, 2), (0, 1, 2)]
    assert not rejects


def test_an_export_whose_first_message_is_longer_than_the_head_is_recognized():
    long = entry(
        request(1, "tools/list"), {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "x" * 99}] * 999}}, 0, 1
    )
    data = json.dumps([long, entry(call(2), result(2, "a"), 5, 1)], indent=2).encode()
    assert sniff(data[:65536], "x")[0][0].name == "mcp_inspector"


@pytest.mark.parametrize(
    "value",
    [
        [{"id": "1", "timestamp": "2026-01-01T00:00:00Z", "level": "info", "data": "jsonrpc"}],
        [{"direction": "outgoing", "timestamp": "2026-01-01T00:00:00Z", "message": call(1)}],
        [{"direction": "request", "message": "tools/call of jsonrpc"}],
        [{"url": "https://x.example", "category": "news", "requestHeaders": {}, "responseBody": "jsonrpc"}],
        {"direction": "request", "message": call(1)},
    ],
)
def test_other_lists_of_entries_are_not_claimed(value):
    assert connector("mcp_inspector").sniff(json.dumps(value).encode(), "inspector-history-x.json") is None


def test_a_cut_export_is_refused_with_its_offset():
    data = (INPUT / "history.json").read_bytes()[:2000]
    error = failure("mcp_inspector", data)
    assert error.reason == "truncated"
    assert 0 < error.offset <= 2000
