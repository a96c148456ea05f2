"""Event logs of the DevTools Protocol: events of one request are put together, however they are spread and packed."""

import json
from typing import Any

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector
from trajmill.schemas import ParseError

CDP = connector("cdp")


def event(method, **params):
    return {"method": f"Network.{method}", "params": params}


def will(key, url, at=1.0, kind="Fetch", **more):
    return event(
        "requestWillBeSent", requestId=key, request={"url": url, "method": "GET"}, timestamp=at, type=kind, **more
    )


def received(key, at=2.0, status=200, **more):
    response = {"status": status, "headers": {"content-type": "application/json"}, "mimeType": "application/json"}
    return event("responseReceived", requestId=key, timestamp=at, type="Fetch", response=response | more)


def read(*events) -> list[Any]:
    return list(CDP.parse(MemoryBlob("log", json.dumps(events).encode())))


def test_hops_of_a_redirect_share_one_id_and_become_one_transition():
    moved = {"status": 301, "headers": {"Location": "http://a/2"}}
    (one,) = read(
        will("7", "http://a/1"),
        will("8", "http://a/2"),
        will("7", "http://a/2", 1.5, redirectResponse=moved),
        received("7", body='{"of": 7}'),
        received("8", body='{"of": 8}'),
    )
    told = [step.next_observation.content.split("\n\n") for step in one.steps]
    assert told == [
        ["HTTP 301\nlocation: http://a/2", "HTTP 200\ncontent-type: application/json", '{"of": 7}'],
        ["HTTP 200\ncontent-type: application/json", '{"of": 8}'],
    ]


@pytest.mark.parametrize("first", [True, False])
def test_headers_of_extra_info_are_taken_whether_they_come_before_or_after_their_request(first):
    extra = event("requestWillBeSentExtraInfo", requestId="1", headers={"Accept": "application/json"})
    begun = will("1", "http://a/")
    (one,) = read(*([extra, begun] if first else [begun, extra]), received("1"))
    assert json.loads(one.steps[0].action.arguments)["headers"] == {"accept": "application/json"}


def test_extra_info_of_fewer_hops_than_there_are_is_left_aside():
    moved = {"status": 301, "headers": {"Location": "http://a/2"}}
    extra = event("requestWillBeSentExtraInfo", requestId="1", headers={"Accept": "application/json"})
    (one,) = read(extra, will("1", "http://a/1"), will("1", "http://a/2", redirectResponse=moved), received("1"))
    assert "headers" not in json.loads(one.steps[0].action.arguments)


def test_events_stand_in_the_order_of_the_log_whatever_their_times_say():
    (one,) = read(will("1", "http://a/1", 9.0), received("1", 9.5), will("2", "http://a/2", 3.0), received("2", 3.5))
    assert [(step.action.text, step.turn) for step in one.steps] == [("GET http://a/1", 0), ("GET http://a/2", 1)]
    assert one.steps[1].observation is one.steps[0].next_observation


def test_what_is_asked_before_an_answer_came_is_a_call_of_the_same_turn():
    (one,) = read(
        will("1", "http://a/1"), will("2", "http://a/2"), received("2"), will("3", "http://a/3"), received("1")
    )
    assert [(step.turn, step.call_index) for step in one.steps] == [(0, 0), (0, 1), (1, 0)]
    assert one.steps[2].observation is one.steps[1].next_observation
    assert one.steps[2].next_observation is None


def test_a_request_that_is_never_answered_runs_beside_what_follows():
    (one,) = read(
        will("0", "http://a/"), received("0"), will("1", "http://a/1"), will("2", "http://a/2"), received("2")
    )
    assert [(step.turn, step.call_index) for step in one.steps] == [(0, 0), (1, 0), (1, 1)]
    assert one.steps[2].observation is one.steps[0].next_observation


def test_a_response_without_body_is_cut_by_the_recorder():
    (one,) = read(will("1", "http://a/"), received("1"))
    assert one.steps[0].next_observation.truncation == "recorder"
    (one,) = read(will("1", "http://a/"), received("1", body=""))
    assert one.steps[0].next_observation.truncation == "none"


def test_times_without_a_wall_clock_are_those_of_another_request():
    known = will("1", "http://a/1", 10.0, wallTime=1_700_000_000.0)
    (one,) = read(known, received("1", 10.5), will("2", "http://a/2", 12.0), received("2", 12.25))
    assert [step.started_at for step in one.steps] == [1_700_000_000_000_000, 1_700_000_002_000_000]
    assert [step.duration_s for step in one.steps] == [0.5, 0.25]


def test_frames_of_a_socket_opened_before_the_log_have_no_opening():
    def frame(way, text):
        return event(f"webSocketFrame{way}", requestId="9", timestamp=1.0, response={"opcode": 1, "payloadData": text})

    (one,) = read(frame("Received", "hello"), frame("Sent", "a"), frame("Received", "b"))
    (step,) = one.steps
    assert (step.observation.content, step.action.text, step.next_observation.content) == ("hello", "a", "b")


def test_events_within_a_drivers_log_are_taken_out_of_their_envelopes():
    plain = [will("1", "http://a/"), received("1")]
    packed = [{"level": "INFO", "message": json.dumps({"message": one, "webview": "x"})} for one in plain]
    lines = "\n".join(json.dumps(one) for one in packed).encode()
    for data in (json.dumps(packed).encode(), lines):
        assert CDP.sniff(data, "perf.json") is not None
        (one,) = list(CDP.parse(MemoryBlob("log", data)))
        assert one.steps[0].action.text == "GET http://a/"  # type: ignore[union-attr]


def test_messages_of_other_protocols_are_left_to_others():
    calls = [{"jsonrpc": "2.0", "method": "tools/call", "params": {}}] * 3
    assert CDP.sniff(json.dumps(calls).encode(), "x.json") is None


def test_a_log_that_only_knows_pages_is_refused():
    with pytest.raises(ParseError) as caught:
        read({"method": "Page.frameNavigated", "params": {"frame": {"url": "http://a/"}}})
    assert caught.value.reason == "no_transitions"


def test_requests_of_two_targets_with_one_id_have_each_its_own_answer():
    first, second = {"sessionId": "A"}, {"sessionId": "B"}
    one, other = read(
        will("7", "http://a/1") | first,
        will("7", "http://b/1") | second,
        received("7", body='{"of": "a"}') | first,
        received("7", body='{"of": "b"}') | second,
    )[0].steps
    assert [step.action.text for step in (one, other)] == ["GET http://a/1", "GET http://b/1"]
    assert [step.next_observation.content[-1 - len('"of": "a"}') :] for step in (one, other)] == [
        '{"of": "a"}',
        '{"of": "b"}',
    ]


def test_an_event_of_a_request_that_another_target_tells_is_still_its_own():
    (one,) = read(will("7", "http://a/1") | {"sessionId": "A"}, received("7") | {"sessionId": "frame"})[0].steps
    assert one.next_observation.content.startswith("HTTP 200")


def test_the_answer_to_a_call_for_a_body_names_the_call_by_its_number():
    call = {"id": 3, **event("getResponseBody", requestId="7")}
    (one,) = read(
        will("7", "http://a/1"),
        received("7"),
        call,
        {"id": 2, "result": {"body": "of another"}},
        {"id": 3, "result": {"body": "eyJvayI6IDF9", "base64Encoded": True}},
        {"id": [3], "result": 1},
    )[0].steps
    assert one.next_observation.content.endswith('\n\n{"ok": 1}')
    texts = [json.dumps(one) for one in (will("7", "http://a/1"), received("7"), call)]
    lines = "\n".join(json.dumps(text) for text in texts).encode()
    found: list[Any] = list(CDP.parse(MemoryBlob("log", lines)))
    ((one,),) = [told.steps for told in found]
    assert one.next_observation.truncation == "recorder"
