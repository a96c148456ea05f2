"""HTTP archives: what of a recording becomes a transition, and what the recorders do to bodies, times and order."""

import base64
import binascii
import gzip
import io
import json
import zipfile
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.connectors.registry import connector
from trajmill.connectors.web.bodies import byte_body, text_body, unbase64
from trajmill.connectors.web.request_kind import kind_of
from trajmill.schemas import ParseError, Reject, Trajectory

HAR = connector("har")


def entry(url, at=None, time=10, status=200, mime="application/json", text="{}", method="GET", **extra):
    record = {
        "request": {"method": method, "url": url, "headers": extra.pop("sent", [])},
        "response": {
            "status": status,
            "statusText": "",
            "headers": extra.pop("received", []),
            "content": {"mimeType": mime, **({"text": text} if text is not None else {"size": 5})},
        },
        "time": time,
    }
    if at is not None:
        record["startedDateTime"] = f"2026-03-02T10:00:{at:06.3f}Z"
    return record | extra


def read(blob) -> list[Any]:
    return list(HAR.parse(blob))


def trajectories(*entries, choices=None, **log) -> list[Any]:
    data = json.dumps({"log": {"version": "1.2", "creator": {"name": "x"}, "entries": entries, **log}}).encode()
    return read(MemoryBlob("x.har", data, choices or Choices()))


def steps(*entries, **more):
    (trajectory,) = trajectories(*entries, **more)
    return trajectory.steps


def test_a_redirect_is_not_joined_with_a_post_to_its_target():
    moved = entry("http://a/old", 1, 10, 302, "", "", received=[{"name": "location", "value": "/new"}])
    assert len(steps(moved, entry("http://a/new", 1.1, method="POST"))) == 2


@pytest.mark.parametrize(
    ("word", "url", "headers", "media_type", "wanted"),
    [
        ("script", "http://a/api", {}, "application/json", "asset"),
        ("fetch", "http://a/app.js", {}, "text/javascript", "data"),
        ("", "http://a/app", {"sec-fetch-dest": "image"}, "text/html", "asset"),
        ("", "http://a/app", {"sec-fetch-dest": "empty"}, "text/html", "data"),
        ("", "http://a/font.woff2?v=1", {}, "application/octet-stream", "asset"),
        ("", "http://a/notes.txt", {}, "text/plain", "data"),
        ("other", "http://a/favicon.ico", {}, "", "asset"),
        ("other", "http://a/icon", {"accept": "image/webp,*/*"}, "text/html", "asset"),
        ("preflight", "http://a/api", {}, "", "preflight"),
    ],
)
def test_what_a_request_is_for_is_told_by_the_recorder_then_the_browser_then_the_response(
    word, url, headers, media_type, wanted
):
    assert kind_of(word, "GET", url, headers, media_type) == wanted


def test_a_page_is_shown_with_the_style_sheets_that_it_links():
    head = "<base href=http://a/assets/><link rel=stylesheet href=menu.css><link rel=stylesheet href=gone.css>"
    page = entry("http://a/", 1, mime="text/html", text=f"{head}<p>Tides</p><ul class=menu><li>Export</ul>")
    sheet = entry("http://a/assets/menu.css", 2, mime="text/css", text=".menu { display: none }")
    for later, is_shown in ((sheet, False), (sheet | {"response": {"status": 404}}, True)):
        (step,) = steps(page, later)
        assert ('"Export"' in step.next_observation.content) is is_shown
        assert '"Tides"' in step.next_observation.content


def test_html_that_nests_too_deeply_for_a_page_stays_as_it_is():
    text = "<div>" * 3000
    (step,) = steps(entry("http://a/", mime="text/html", text=text))
    assert step.next_observation.content.endswith(text)


def test_a_body_in_a_file_outside_of_the_input_is_not_read():
    log = {"log": {"entries": [entry("http://a/", text=None)]}}
    log["log"]["entries"][0]["response"]["content"]["_file"] = "../secret"
    blob = MemoryBlob("in", {"a/x.har": json.dumps(log).encode(), "secret": b"inside", "a/body": b"other"})
    (trajectory,) = read(blob)
    assert trajectory.steps[0].next_observation.content.endswith("inside")
    log["log"]["entries"][0]["response"]["content"]["_file"] = "../../secret"
    (trajectory,) = read(MemoryBlob("in", {"a/x.har": json.dumps(log).encode(), "secret": b"outside"}))
    assert trajectory.steps[0].next_observation.truncation == "recorder"


def test_faults_within_an_archive_are_placed_where_its_member_begins():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("0" * 40 + ".html", "<p>")
        archive.writestr("har.har", json.dumps({"log": {"entries": [entry("http://a/")] * 99}})[:-5])
    offset = zipfile.ZipFile(packed).getinfo("har.har").header_offset
    with pytest.raises(ParseError) as caught:
        read(MemoryBlob("x.har.zip", packed.getvalue()))
    assert (caught.value.reason, caught.value.offset) == ("truncated", offset)


def test_a_cut_archive_gives_its_log_and_a_reject_for_the_rest():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("har.har", json.dumps({"log": {"entries": [entry("http://a/"), entry("http://a/b")]}}))
        archive.writestr("../outside.html", "<p>")
        archive.writestr("body.html", "<p>")
    data = packed.getvalue()
    records = read(MemoryBlob("x.har.zip", data[: data.rindex(b"PK\x03\x04") + 10]))
    assert [len(record.steps) for record in records if isinstance(record, Trajectory)] == [2]
    assert [record.reason for record in records if isinstance(record, Reject)] == ["truncated", "unsafe_name"]


def test_bodies_are_unpacked_only_where_they_are_packed():
    packed = gzip.compress(b'{"a": 1}')
    assert byte_body(packed, "application/json", "gzip").text == '{"a": 1}'
    assert byte_body(b'{"a": 1}', "application/json", "gzip").text == '{"a": 1}'
    assert byte_body(packed[:-4], "application/json", "gzip").lost
    assert text_body(packed.decode("latin-1"), "application/json").text == '{"a": 1}'
    assert byte_body(b"\x8b\x02\x80\x00\xff\xfe" * 9, "text/html", "br").lost


PAGE = "<html><body><h1>Boats</h1>" + "<p>The next one leaves at 8.</p>" * 20 + "</body></html>"
BROTLI = base64.b64decode(
    "G6cC4K2Od5C7GejKqBhLoUPxNY4P2pt6gSseoXahCnNTIHRVNucYB+z3ZNMLTQiDQ87g/IUFaXuGtkCyvk2KWpGQnw+GzwEINzEA"
)
"""The page as the reference library packs it (brotli.compress)."""


@pytest.mark.parametrize(
    ("text", "kind", "coding"),
    [
        (base64.b64encode(PAGE.encode()).decode(), "text/html", ""),
        (base64.b64encode(PAGE.encode()).decode(), "application/json", ""),
        (base64.b64encode(gzip.compress(PAGE.encode())).decode(), "text/html", "gzip"),
        (base64.b64encode(BROTLI).decode(), "text/html", "br"),
        (BROTLI.hex(), "text/html", "br"),
        (BROTLI.decode("latin-1"), "text/html", "br"),
        (json.dumps([gzip.compress(PAGE.encode()).hex()]), "text/html", ""),
        (json.dumps([BROTLI.hex()[:40], BROTLI.hex()[40:]]), "text/html", "br"),
    ],
)
def test_bytes_that_a_recorder_wrote_as_text_are_decoded(text, kind, coding):
    assert text_body(text, kind, coding).text == PAGE


def test_packed_bytes_that_were_taken_for_utf_8_are_lost():
    for packed in (gzip.compress(PAGE.encode()), BROTLI):
        for kind in ("text/html", "application/json", "", "application/octet-stream"):
            assert text_body(packed.decode("utf-8", "replace"), kind, "br").lost
    all_steps = steps(entry("http://a/", mime="text/html", text=BROTLI.decode("utf-8", "replace")))
    assert all_steps[0].next_observation.content == "HTTP 200\ncontent-type: text/html"
    assert all_steps[0].next_observation.truncation == "recorder"


@pytest.mark.parametrize(
    ("text", "kind", "coding"),
    [
        ("dGVzdA==", "text/plain", ""),
        (base64.b64encode(b"a token of the site's own").decode(), "text/plain", ""),
        ("password", "text/html", "br"),
        ("123456781234567812345678", "application/json", ""),
        ('["aGVsbG8gd29ybGQsIGhvdyBhcmUgeW91"]', "application/json", ""),
        ("5e884898da28047151d0e56f8dc62927", "text/plain", "gzip"),
        ("Die Fähre fährt um 8, kostet 5 € – täglich", "text/html", "gzip"),
        ("NÃO DÁ", "text/plain", ""),
        ("\x1b[1mSold out\x1b[0m, come back tomorrow morning for the boat at eight", "text/plain", "gzip"),
    ],
)
def test_a_text_that_stands_for_no_bytes_stays_as_it_is(text, kind, coding):
    assert text_body(text, kind, coding, len(text)).text == text


def test_characters_whose_bytes_were_told_apart_are_put_together():
    for taken_for in ("latin-1", "cp1252"):
        assert text_body("Fähre à 5 €".encode().decode(taken_for), "text/html").text == "Fähre à 5 €"


def test_the_size_of_a_body_tells_whether_plain_text_stands_for_bytes():
    text = base64.b64encode(b"Boats leave at 8, 10 and 12.").decode()
    assert text_body(text, "text/plain", size=28).text == "Boats leave at 8, 10 and 12."
    assert text_body(text, "text/plain", size=len(text)).text == text


def test_pieces_in_base64_are_put_together():
    packed = gzip.compress(PAGE.encode())
    pieces = [base64.b64encode(packed[:100]).decode(), base64.b64encode(packed[100:]).decode()]
    record = entry("http://a/", mime="text/plain", received=[{"name": "content-encoding", "value": "gzip"}])
    record["response"]["content"] |= {"text": json.dumps(pieces), "encoding": "base64"}
    assert steps(record)[0].next_observation.content.partition("\n\n")[2] == PAGE


@given(
    st.text(st.sampled_from("AQgz09+/==-_ \n\u00fc\ud800"))
    | st.binary().map(lambda data: base64.b64encode(data).decode())
)
def test_base64_stands_for_the_same_bytes_whichever_decoder_reads_it(text):
    try:
        assert unbase64(text) == binascii.a2b_base64(text)
    except ValueError:
        assert unbase64(text) is None


@pytest.mark.parametrize(
    ("data", "content_type", "text"),
    [
        ("Käse".encode("latin-1"), "text/html; charset=ISO-8859-1", "Käse"),
        ("“ja”".encode("cp1252"), "text/html; charset=iso-8859-1", "“ja”"),
        ("Käse".encode("latin-1"), "text/html", "Käse"),
        (b"\xef\xbb\xbfK\xc3\xa4se", "text/html; charset=iso-8859-1", "Käse"),
        ('<meta charset="shift_jis">港'.encode("shift_jis"), "text/html", '<meta charset="shift_jis">港'),
        ("港".encode(), "text/html; charset=rot13", "港"),
        (b"\x89PNG\x00", "", None),
        (b"plain", "", "plain"),
    ],
)
def test_text_is_decoded_as_browsers_do(data, content_type, text):
    assert byte_body(data, content_type).text == text


def test_web_socket_messages_sent_in_a_row_are_one_action():
    raw = base64.b64encode(b"hi").decode()
    messages = [
        {"type": "send", "opcode": 1, "data": "a"},
        {"type": "send", "opcode": 2, "data": raw},
        {"type": "receive", "opcode": 1, "data": "c"},
        {"type": "receive", "opcode": 9, "data": ""},
        {"type": "receive", "opcode": 1, "data": "d"},
        {"type": "send", "opcode": 1, "data": "e"},
    ]
    opened, first, last = steps(entry("ws://a/", status=101, text="", _webSocketMessages=messages))
    assert opened.next_observation.content.startswith("HTTP 101")
    assert (first.action.name, first.action.text, first.next_observation.content) == ("websocket_send", "a\nhi", "c\nd")
    assert last.next_observation is None


def said(way: str, **fields: Any) -> dict[str, Any]:
    return {"type": way, "opcode": 1, "data": json.dumps({"v": 1, **fields})}


@pytest.mark.parametrize(
    ("messages", "cut"),
    [
        (
            [("send", 1), ("send", 2), ("receive", 1), ("send", 3), ("receive", 2), ("send", 4), ("receive", 4)],
            [0, 1, 0],
        ),
        ([("send", 1), ("receive", 1), ("send", 2), ("receive", 1), ("receive", 2)], [0, 0]),
        ([("send", 1), ("receive", None), ("send", 2), ("receive", None)], [0, 0]),
        ([("send", 7), ("receive", 7), ("send", 7), ("receive", 7)], [0, 0]),
    ],
    ids=["one is late", "one is late and its own too", "none has a number", "numbers of which none tells apart"],
)
def test_what_a_socket_brings_is_cut_where_it_answers_earlier_messages_only(messages, cut):
    frames = [said(way, **({} if number is None else {"d": {"r": number}})) for way, number in messages]
    _, *sent = steps(entry("ws://a/", status=101, text="", _webSocketMessages=frames))
    assert [step.next_observation.truncation == "recorder" for step in sent] == list(map(bool, cut))


def test_messages_of_a_socket_are_taken_in_the_order_of_their_times():
    messages = [
        {"type": "send", "opcode": 1, "data": "a", "time": 1.5},
        {"type": "send", "opcode": 1, "data": "c", "time": 3.5},
        {"type": "receive", "opcode": 1, "data": "b", "time": 2.5},
    ]
    _, *sent = steps(entry("ws://a/", status=101, text="", _webSocketMessages=messages))
    assert [(step.action.text, step.next_observation and step.next_observation.content) for step in sent] == [
        ("a", "b"),
        ("c", None),
    ]
    del messages[2]["time"]
    _, *sent = steps(entry("ws://a/", status=101, text="", _webSocketMessages=messages))
    assert [step.action.text for step in sent] == ["a\nc"]


def test_a_body_deflated_without_a_header_is_unpacked_as_browsers_do():
    packed = zlib.compress(b'{"a": 1}')[2:-4]
    assert byte_body(packed, "application/json", "deflate").text == '{"a": 1}'
    assert byte_body(packed[:-1], "application/json", "deflate").text is None
    assert byte_body(b'{"a": 1}', "application/json", "deflate").text == '{"a": 1}'
