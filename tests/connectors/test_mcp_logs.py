"""The logs of the wire itself: captures, recorder cassettes, desktop logs."""

import json

from tests.connectors.wire_logs import HELLO, INITIALIZE, call, failure, lines, parse, result, seen
from trajmill.connectors.registry import sniff


def test_a_capture_of_a_document_ends_at_its_fault_with_its_offset():
    text = "".join(json.dumps(one, indent=1) + "\n" for one in (INITIALIZE, HELLO, call(1), result(1, "ä")))
    found, _, _ = parse("mcp_jsonrpc", text + "{\n oops")
    error = failure("mcp_jsonrpc", text + "{\n oops")
    assert seen(found[0]) == [("look", "ä")]
    assert (error.reason, error.offset) == ("bad_json", len(text.encode()))


def test_every_way_to_write_one_session_gives_the_same_transitions():
    bodies = [INITIALIZE, HELLO, call(1, x="ü"), result(1, "a"), call(2), result(2, "b")]
    ways = [
        lines(*bodies),
        json.dumps(bodies, indent=2),
        "".join(json.dumps(one, indent=2) for one in bodies),
        lines(*({"dir": "a" if "method" in one else "b", "ts": 1735689600, "msg": one} for one in bodies)),
        lines(*({"line": json.dumps(one)} for one in bodies)),
        "\n".join(("> " if "method" in one else "< ") + json.dumps(one) for one in bodies),
        lines(*({"session": 7, "direction": "in" if "method" in one else "out", **one} for one in bodies)),
        lines(*({"sent" if "method" in one else "received": one} for one in bodies)),
        lines(*({"side": "client" if "method" in one else "server", "jsonrpc": one} for one in bodies)),
        lines(*({"level": "debug", "message": "Message: " + json.dumps(one)} for one in bodies)),
        lines(*({"dir": "req" if "method" in one else "res", **one, "jsonrpc": None} for one in bodies)).replace(
            ', "jsonrpc": null', ""
        ),
        json.dumps({"entries": [{"request": bodies[at], "response": bodies[at + 1]} for at in (0, 2, 4)]}),
    ]
    for way in ways:
        found, rejects, error = parse("mcp_jsonrpc", way)
        assert [seen(one) for one in found] == [[("look", "a"), ("look", "b")]], way
        assert not rejects
        assert error is None
        head = way.encode()[:65536]
        assert sniff(head, "x.log")[0][0].name == "mcp_jsonrpc"
        steps = found[0].steps
        assert steps[0].offset < steps[1].offset
