"""What the envelope of a result says of how its call ended, and that no word in a content does."""

import json
from typing import Any

import pytest

from trajmill.connectors.conversation.shapes import parts
from trajmill.connectors.conversation.turns import Result


def told(message: dict[str, Any]) -> tuple[bool | None, int | None, str | None]:
    """(is_error, exit code, content) of the one result that a message holds."""
    found = [part for part in parts(message, 0) if isinstance(part, Result)]
    assert len(found) == 1
    return found[0].is_error, found[0].exit_code, found[0].content


def tool(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "k", "content": content, **more}


def gemini(response: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": response}}]}


def block(content: Any, kind: str = "tool_result", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": kind, "tool_use_id": "k", "content": content, **more}]}


def bedrock(**given: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"toolResult": {"toolUseId": "k", **given}}]}


PROTOCOL = {"content": [{"type": "text", "text": "no bed 7"}], "isError": True}


@pytest.mark.parametrize(
    ("message", "error", "code"),
    [
        (tool("no", error="no such bed"), True, None),
        (tool("no", error={"type": "timeout", "message": "slow"}), True, None),
        (tool("dry", error=False), False, None),
        (tool("dry", error=None, status="success"), False, None),
        (tool("no", isError=True), True, None),
        (tool("no", status="failed", exit_code=2), True, 2),
        (tool("no", success=False), True, None),
        (tool({"error": "no such bed"}), True, None),
        (tool({"stdout": "", "exit_code": 1}), None, 1),
        (tool(json.dumps(PROTOCOL)), True, None),
        (tool(json.dumps({**PROTOCOL, "isError": False})), False, None),
        (gemini({"error": "no such bed"}), True, None),
        (gemini({"error": "no such bed", "code": 7}), True, None),
        (gemini({"status": "error", "message": "no"}), True, None),
        (gemini(PROTOCOL), True, None),
        (block("no", is_error=True), True, None),
        (block({"type": "x_tool_result_error", "error_code": "unavailable"}, "x_tool_result"), True, None),
        (block({"type": "bash_code_execution_result", "return_code": 3}, "bash_code_execution_tool_result"), None, 3),
        (bedrock(content=[{"text": "no"}], status="error"), True, None),
        (bedrock(content=[{"json": {"stdErr": "no", "exitCode": 1}}], status="success"), False, 1),
        ({"type": "function_call_output", "call_id": "k", "output": "no", "status": "completed"}, None, None),
        ({"type": "apply_patch_call_output", "call_id": "k", "output": "no", "status": "failed"}, True, None),
        (
            {
                "type": "shell_call_output",
                "call_id": "k",
                "output": [{"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 127}}],
            },
            None,
            127,
        ),
    ],
)
def test_the_envelope_tells_whether_a_call_failed(message, error, code):
    assert told(message)[:2] == (error, code)


@pytest.mark.parametrize(
    "message",
    [
        tool('{"error": "no such bed"}'), tool('{"isError": true, "beds": []}'), tool("Error: no such bed"),
        tool({"error": ""}), tool({"error": None, "beds": [1]}), tool({"height": 3.1, "error": 0.02}),
        tool({"order": 7, "status": "failed"}), tool("dry", status="completed"), gemini({"result": "an error"}),
        block([{"type": "text", "text": '{"status": "error"}'}]),
    ],
)  # fmt: skip
def test_what_a_tool_says_in_its_own_words_tells_nothing(message):
    assert told(message)[:2] == (None, None)
