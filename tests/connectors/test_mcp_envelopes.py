"""The object that a server sent: byte for byte where the log holds its text, else as we write JSON."""

import json
from base64 import b64encode

from tests.connectors.wire_logs import HELLO, INITIALIZE, after, call, parse
from trajmill.connectors.conversation.mcp_answer import answered
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.turns import Call, Part, Result

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


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
