"""Event logs of the DevTools Protocol: events of one request are put together, however they are spread and packed."""

import json
from typing import Any

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector

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


def test_frames_of_a_socket_opened_before_the_log_have_no_opening():
    def frame(way, text):
        return event(f"webSocketFrame{way}", requestId="9", timestamp=1.0, response={"opcode": 1, "payloadData": text})

    (trajectory,) = read(frame("Received", "hello"), frame("Sent", "a"), frame("Received", "b"))
    (step,) = trajectory.steps
    assert (step.observation.content, step.action.text, step.next_observation.content) == ("hello", "a", "b")


def test_requests_of_two_targets_with_one_id_have_each_its_own_answer():
    first, second = {"sessionId": "A"}, {"sessionId": "B"}
    target_a, target_b = read(
        will("7", "http://a/1") | first,
        will("7", "http://b/1") | second,
        received("7", body='{"of": "a"}') | first,
        received("7", body='{"of": "b"}') | second,
    )[0].steps
    assert [step.action.text for step in (target_a, target_b)] == ["GET http://a/1", "GET http://b/1"]
    assert [step.next_observation.content[-1 - len('"of": "a"}') :] for step in (target_a, target_b)] == [
        '{"of": "a"}',
        '{"of": "b"}',
    ]


def test_documents_of_a_target_that_is_a_frame_are_frames_of_their_page():
    def opened(key, url, session):
        html = event("responseReceived", requestId=key, type="Document", response={"status": 200})
        return [will(key, url, kind="Document") | session, html | session]

    attached = {"method": "Target.attachedToTarget", "params": {"sessionId": "B", "targetInfo": {"type": "iframe"}}}
    page = opened("1", "http://news.example/", {"sessionId": "A"})
    ad = opened("2", "http://ads.example/sync", {"sessionId": "B"})
    call = [will("3", "http://ads.example/bid") | {"sessionId": "A"}, received("3") | {"sessionId": "A"}]
    (trajectory,) = read(*page, attached, *ad, *call)
    arguments = [json.loads(step.action.arguments) for step in trajectory.steps]
    assert [(told["resource_type"], told.get("third_party")) for told in arguments] == [
        ("document", None), ("frame", True), ("call", True)
    ]  # fmt: skip


def test_the_answer_to_a_call_for_a_body_names_the_call_by_its_number():
    call = {"id": 3, **event("getResponseBody", requestId="7")}
    (step,) = read(
        will("7", "http://a/1"),
        received("7"),
        call,
        {"id": 2, "result": {"body": "of another"}},
        {"id": 3, "result": {"body": "eyJvayI6IDF9", "base64Encoded": True}},
        {"id": [3], "result": 1},
    )[0].steps
    assert step.next_observation.content.endswith('\n\n{"ok": 1}')
    texts = [json.dumps(message) for message in (will("7", "http://a/1"), received("7"), call)]
    lines = "\n".join(json.dumps(text) for text in texts).encode()
    records: list[Any] = list(CDP.parse(MemoryBlob("log", lines)))
    ((step,),) = [trajectory.steps for trajectory in records]
    assert step.next_observation.truncation == "recorder"
