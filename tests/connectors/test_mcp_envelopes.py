"""The object that a server sent: byte for byte where the log holds its text, else as we write JSON."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256

import pytest

from tests.connectors.wire_logs import HELLO, INITIALIZE, after, call, parse
from trajmill.connectors.apis.otel_genai.span_values import result_of
from trajmill.connectors.conversation.mcp_answer import answered
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.turns import Call, Part, Result

TOLD = '{"content":[{"type":"text","text":"caf\\u00e9 \\/ 1"}],"structuredContent":{"n":1.50,"m":1e2},"isError":false}'
"""As no writer of ours has it: without blanks, with escapes that are not needed, and numbers that are not shortest."""

VALUE = json.loads(TOLD)
OURS = (
    '{"content": [{"type": "text", "text": "café / 1"}], "structuredContent": {"n": 1.5, "m": 100.0}, "isError": false}'
)
LINE = f'{{"jsonrpc":"2.0","id":1,"result":{TOLD}}}'
ANSWER = json.loads(LINE)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
SEALED = b"".join(sha256(bytes([number])).digest() for number in range(9))


def told(body, text=None):
    """What a response to a call of a tool is observed as, and its envelope as a value."""
    seen = answered("tools/call", body, text=text)
    assert seen is not None
    return seen, json.loads(seen.envelope or "null")


def one(log, connector="mcp_jsonrpc"):
    """The observation after the one call of a log."""
    found, _, _ = parse(connector, log)
    return after(found[0].steps[0])


def asked(*more):
    return "".join(json.dumps(one) + "\n" for one in (INITIALIZE, HELLO, call(1))) + "".join(more)


@pytest.mark.parametrize(
    "line",
    [
        LINE,
        f'{{"result": {TOLD} , "id": 1, "jsonrpc": "2.0"}}',
        f"<-- {LINE}",
        f'{{"dir":"in","ts":1735689600,"msg":{LINE}}}',
        json.dumps({"line": LINE}),
        json.dumps({"response": {"body": f"event: message\ndata: {LINE}\n\n"}}),
    ],
)
def test_the_text_of_a_line_or_of_a_body_is_kept_byte_for_byte(line):
    seen = one(asked(line, "\n"))
    assert seen.content == "café / 1"
    assert seen.envelope == TOLD


def test_a_document_that_a_recorder_laid_out_is_written_by_our_own_writer():
    bodies = [INITIALIZE, HELLO, call(1), ANSWER]
    assert one(json.dumps(bodies, indent=2)).envelope == OURS
    assert one("".join(json.dumps(body, indent=2) for body in bodies)).envelope == OURS
    cassette = {"interactions": [{"type": "jsonrpc_request", "request": call(1), "response": ANSWER}]}
    assert one(json.dumps(cassette), "mcp_recorder").envelope == OURS


def test_a_result_that_stands_in_a_batch_is_that_of_its_call():
    batch = json.dumps([{"jsonrpc": "2.0", "id": 2, "result": {"content": []}}, ANSWER], separators=(",", ":"))
    log = asked(json.dumps(call(2)), "\n", batch, "\n")
    (session,), _, _ = parse("mcp_jsonrpc", log)
    assert [after(step).envelope for step in session.steps] == [
        json.dumps(VALUE, separators=(",", ":")),
        '{"content":[]}',
    ]


def test_an_error_of_the_protocol_has_no_result_and_no_envelope():
    error = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no"}})
    seen = one(asked(error, "\n"))
    assert (seen.envelope, seen.content) == (None, '{"code": -32602, "message": "no"}')


def test_what_is_nested_too_deeply_to_be_carried_on_is_no_envelope():
    deep = "[" * 200 + "]" * 200
    seen = one(
        asked(f'{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"a"}}],"x":{deep}}}}}', "\n")
    )
    assert (seen.content, seen.envelope) == ("a", None)


def test_pictures_and_sealed_words_are_references_in_the_envelope_as_in_the_content():
    picture, sealed = b64encode(PNG).decode(), b64encode(SEALED).decode()
    blocks = [
        {"type": "text", "text": f"got\n{sealed}\nend"},
        {"type": "image", "data": picture, "mimeType": "image/png"},
    ]
    body = {"id": 1, "result": {"content": blocks, "structuredContent": {"key": sealed, "short": picture[:20]}}}
    text = json.dumps(body, separators=(",", ":"))
    seen, value = told(body, text)
    written = seen.envelope or ""
    assert picture not in written
    assert sealed not in written
    references = [f"attachment:image/png;bytes=48;sha256={sha256(PNG).hexdigest()[:16]}"]
    references.append(
        f"attachment:application/octet-stream;bytes={len(SEALED)};sha256={sha256(SEALED).hexdigest()[:16]}"
    )
    assert value["content"] == [
        {"type": "text", "text": seen.content},
        {"type": "image", "data": references[0], "mimeType": "image/png"},
    ]
    assert value["structuredContent"] == {"key": references[1], "short": picture[:20]}
    assert seen.content == f"got\n{references[1]}\nend"
    assert {one.sha256 for one in seen.attachments} == {sha256(PNG).hexdigest(), sha256(SEALED).hexdigest()}
    assert written.startswith('{"content":[{"type":"text","text":"got\\n'), "the rest stands as the server wrote it"


def test_what_only_the_envelope_holds_is_attached_too():
    body = {
        "id": 1,
        "result": {"content": [{"type": "text", "text": "a"}], "structuredContent": [b64encode(SEALED).decode()]},
    }
    (attached,) = told(body)[0].attachments
    assert attached.sha256 == sha256(SEALED).hexdigest()


def test_an_image_alone_has_an_envelope_and_no_text():
    body = {
        "id": 1,
        "result": {"content": [{"type": "image", "data": b64encode(PNG).decode(), "mimeType": "image/png"}]},
    }
    seen, value = told(body)
    assert seen.content is None
    assert value["content"][0]["data"].startswith("attachment:image/png;")


def test_a_span_that_captured_a_result_has_its_envelope_and_one_that_captured_text_has_none():
    found = result_of(TOLD, "look", "1", 0)
    assert (found.content, found.envelope) == ("café / 1", TOLD)
    assert result_of(VALUE, "look", "1", 0).envelope == OURS
    assert result_of("café", "look", "1", 0).envelope is None
    assert result_of(VALUE["content"], "look", "1", 0).envelope is None


def test_the_envelope_of_a_result_in_which_the_harness_spoke_is_left_out():
    def shown(text):
        body = json.dumps({"content": [{"type": "text", "text": text}]})
        parts: list[Part] = [Call("look", "{}", "1", 0), Result("1", "look", text, 0, envelope=body)]
        return after(conversation(parts).steps[0])

    assert json.loads(shown("a").envelope or "")["content"][0]["text"] == "a"
    assert shown("a\n<system-reminder>be kind</system-reminder>").envelope is None
