"""What a request is to its page, and which site is whose: by recorders' words, by browsers', or where neither tells."""

import json
from typing import Any

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector
from trajmill.connectors.web.site import site_of

HTML = {"mime": "text/html", "text": "<p>Tides"}


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("https://Www.Tides.example/a?b", "tides.example"),
        ("https://api.tides.example:8443/", "tides.example"),
        ("wss://live.tides.co.uk/feed", "tides.co.uk"),
        ("https://tides.co.uk/", "tides.co.uk"),
        ("https://www.tides.gov.au./", "tides.gov.au"),
        ("https://www.tides.de/", "tides.de"),
        ("https://ann.github.io/tides/", "ann.github.io"),
        ("https://github.io/", "github.io"),
        ("https://tides.s3.eu-west-1.amazonaws.com/x", "tides.s3.eu-west-1.amazonaws.com"),
        ("http://user:word@127.0.0.1:5000/", "127.0.0.1"),
        ("http://[::1]:80/", "::1"),
        ("http://localhost:3000/", "localhost"),
        ("about:blank", ""),
        ("http://[broken/", ""),
    ],
)
def test_a_site_is_the_name_that_somebody_registered(url, site):
    assert site_of(url) == site


def entry(url, second, mime="application/json", text="{}", page="", sent=None, **more) -> dict[str, Any]:
    headers = [{"name": name, "value": value} for name, value in (sent or {}).items()]
    content = {"mimeType": mime, "text": text}
    return {
        "startedDateTime": f"2026-03-02T10:00:{second:06.3f}Z",
        "time": 10,
        "pageref": page,
        "request": {"method": "GET", "url": url, "headers": headers},
        "response": {"status": 200, "statusText": "", "headers": more.pop("received", []), "content": content},
    } | more


def roles(*entries) -> list[Any]:
    data = json.dumps({"log": {"version": "1.2", "creator": {"name": "x"}, "entries": entries}}).encode()
    return told(connector("har").parse(MemoryBlob("x.har", data)))


def told(trajectories) -> list[Any]:
    arguments = [json.loads(step.action.arguments) for trajectory in trajectories for step in trajectory.steps]
    return [(fields["url"], fields["resource_type"], fields.get("third_party")) for fields in arguments]


@pytest.mark.parametrize(
    ("more", "role"),
    [
        ({"_resourceType": "document"}, "frame"),
        ({"_resourceType": "document", "sent": {"sec-fetch-dest": "iframe"}}, "frame"),
        ({"_resourceType": "document", "sent": {"sec-fetch-dest": "document"}}, "document"),
        ({"_resourceType": "fetch"}, "call"),
        ({"_resourceType": "ping"}, "beacon"),
        ({"sent": {"content-type": "application/csp-report"}}, "beacon"),
        ({"sent": {"sec-fetch-dest": "empty"}}, "call"),
        ({"_resourceType": "fetch", "mime": "text/css"}, "asset"),
        ({"sent": {"accept": "application/json"}}, "call"),
        ({"sent": {"accept": "*/*"}, "mime": "text/html"}, "call"),
        ({"sent": {"accept": "text/html,*/*;q=0.8"}, "mime": "text/html"}, "frame"),
        ({"sent": {"x-requested-with": "XMLHttpRequest"}, "mime": "text/html"}, "call"),
    ],
)
def test_what_comes_after_the_document_is_what_the_browser_or_the_recorder_says(more, role):
    first = entry("https://tides.example/", 1, page="p", **HTML)
    assert roles(first, entry("https://other.example/x", 2, page="p", **more))[1][1] == role


def will(key, url, frame, word="Document", **more) -> dict[str, Any]:
    params = {"requestId": key, "frameId": frame, "type": word, "timestamp": float(key), "request": {"url": url}}
    return {"method": "Network.requestWillBeSent", "params": params | more}


def got(key) -> dict[str, Any]:
    response = {"status": 200, "headers": {}, "mimeType": "text/html", "body": "<p>Low"}
    return {"method": "Network.responseReceived", "params": {"requestId": key, "timestamp": 9.0, "response": response}}


def test_a_document_of_an_attached_frame_or_asked_for_by_a_parser_is_no_document_of_the_page():
    events = [
        will("1", "https://tides.example/", "main"),
        {"method": "Page.frameAttached", "params": {"frameId": "inner", "parentFrameId": "main"}},
        will("2", "https://ads.example/", "inner"),
        will("3", "https://more-ads.example/", "elsewhere", initiator={"type": "parser"}),
        will("4", "https://tides.example/low", "main", "Fetch", documentURL="https://tides.example/"),
        *(got(str(key)) for key in range(1, 5)),
    ]
    requests = told(connector("cdp").parse(MemoryBlob("log", json.dumps(events).encode())))
    assert [request[1:] for request in requests] == [
        ("document", None),
        ("frame", True),
        ("frame", True),
        ("call", False),
    ]
