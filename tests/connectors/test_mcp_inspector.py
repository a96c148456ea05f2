"""Exports of the MCP Inspector: answers stand in the entry of their request, and times say when they came."""

import json

import pytest

from tests.connectors.wire_logs import HELLO, INITIALIZE, call, parse, result, seen


def entry(message, response=None, at=0, duration=None, **more):
    """An entry of the history; `at` is in milliseconds within a minute."""
    told = {"id": f"{at}-x", "timestamp": f"2026-01-01T00:00:{at // 1000:02}.{at % 1000:03}Z", "direction": "request"}
    told |= {"message": message, **more}
    return told if response is None else {**told, "response": response, "duration": duration}


def history(*entries):
    return parse("mcp_inspector", json.dumps([entry(INITIALIZE, HELLO, 0, 1), *entries]))


def turns(trajectory):
    return [(one.turn, one.call_index, one.num_calls) for one in trajectory.steps]


def test_an_answer_whose_request_is_no_longer_in_the_history_is_rejected():
    found, rejects, _ = history(
        entry(result(9, "lost"), at=500, direction="response"), entry(call(1), result(1, "a"), 1000, 1)
    )
    assert seen(found[0]) == [("look", "a")]
    assert [one.reason for one in rejects] == ["result_without_call"]


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
