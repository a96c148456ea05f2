"""What an answer holds: its parts, printed objects of MCP, failures, and the domain of a conversation."""

import hashlib
import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest

from trajmill.connectors.column_mapping import Rows
from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.connectors.conversation.content import Shown, shown
from trajmill.connectors.conversation.mcp_content import tool_result
from trajmill.connectors.conversation.mcp_printed import Printed, parse_printed
from trajmill.connectors.conversation.shapes import parts
from trajmill.connectors.conversation.tools import domain_of
from trajmill.connectors.conversation.turns import Result
from trajmill.connectors.registry import connectors
from trajmill.schemas import Trajectory

PICTURE = b"\x89PNG it is"
DATA = b64encode(PICTURE).decode()
DIGEST = hashlib.sha256(PICTURE).hexdigest()
URL = f"data:image/png;base64,{DATA}"

BLOCKS: list[tuple[dict[str, Any], str]] = [
    ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}, "image"),
    ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": DATA}}, "document"),
    ({"type": "image_url", "image_url": {"url": URL}}, "image"),
    ({"type": "input_image", "image_url": URL}, "image"),
    ({"type": "computer_screenshot", "image_url": URL}, "image"),
    ({"type": "file", "file": {"file_data": URL}}, "document"),
    ({"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}, "audio"),
    ({"type": "image", "data": DATA, "mimeType": "image/png"}, "image"),
    ({"type": "audio", "data": DATA, "mimeType": "audio/wav"}, "audio"),
    ({"type": "resource", "resource": {"uri": "file:///a", "blob": DATA}}, "resource"),
    ({"type": "picture", "inlineData": {"data": DATA, "mimeType": "image/png"}}, "image"),
]


@pytest.mark.parametrize(("block", "role"), BLOCKS)
def test_bytes_of_a_block_become_an_attachment_and_no_text(block, role):
    text, attached, _ = shown([block])
    assert text is None
    assert [(attachment.sha256, attachment.role) for attachment in attached] == [(DIGEST, role)]


NOTE = "The ferry leaves at nine."
NOTE_DATA = b64encode(NOTE.encode()).decode()

DOCUMENTS: list[dict[str, Any]] = [
    {"type": "document", "title": "n", "source": {"type": "text", "media_type": "text/plain", "data": NOTE}},
    {"type": "document", "source": {"type": "content", "content": NOTE}},
    {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": NOTE}]}},
    {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": NOTE_DATA}},
    {"type": "document", "document": {"id": "n", "data": {"text": NOTE}}},
    {"type": "document", "document": {"id": "n", "data": NOTE}},
    {"type": "document", "document": NOTE},
    {"type": "document", "text": NOTE},
    {"type": "input_file", "filename": "n.txt", "file_data": f"data:text/plain;base64,{NOTE_DATA}"},
    {"type": "file", "file": {"filename": "n.txt", "file_data": f"data:text/plain;base64,{NOTE_DATA}"}},
    {"type": "resource", "resource": {"uri": "file:///n", "text": NOTE}},
    {"type": "resource", "resource": {"uri": "file:///n", "mimeType": "text/plain", "blob": NOTE_DATA}},
    {"type": "file", "inlineData": {"mimeType": "text/plain", "data": NOTE_DATA}},
    {"type": "what_nobody_knows", "text": NOTE},
]


@pytest.mark.parametrize("block", DOCUMENTS)
def test_a_document_that_is_text_is_that_text(block):
    assert shown([block]) == Shown(NOTE)
    (part,) = parts({"role": "tool", "tool_call_id": "c", "content": [block]}, 0)
    assert isinstance(part, Result)
    assert (part.content, part.attachments, part.lost) == (NOTE, (), False)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "image", "data": "<omitted>"}, '{"type": "image", "data": "<omitted>"}'),
        ({"type": "resource", "resource": {"uri": "a:b"}}, '{"type": "resource", "resource": {"uri": "a:b"}}'),
        ({"type": "resource", "resource": {"mimeType": "text/csv", "blob": NOTE_DATA}}, NOTE),
    ],
)
def test_a_result_of_mcp_is_never_emptied(block, text):
    assert tool_result({"content": [block]}) == (text, [])


def test_a_picture_within_a_text_is_named_where_it_stood():
    text, attached, _ = shown(f"before ![screen]({URL}) after")
    assert text == f"before ![screen](attachment:image/png;bytes={len(PICTURE)};sha256={DIGEST[:16]}) after"
    assert [attachment.sha256 for attachment in attached] == [DIGEST]


@pytest.mark.parametrize(("response", "content"), [({}, None), ({"output": "Here it is."}, "Here it is.")])
@pytest.mark.parametrize("name", ["inlineData", "inline_data"])
def test_what_a_function_of_gemini_returns_beside_its_json_is_attached(response, content, name):
    data = b"%PDF-\xfb\xff\xfe"
    inline = {"data": urlsafe_b64encode(data).decode(), "mime_type": "application/pdf"}
    back = {"name": "get_file", "response": response, "parts": [{name: inline}, "not a part"]}
    (part,) = parts({"role": "user", "parts": [{"function_response": back}]}, 0)
    assert isinstance(part, Result)
    assert part.content == content
    (part_with_text,) = parts(
        {"role": "user", "parts": [{"function_response": {**back, "parts": [{"text": NOTE}]}}]}, 0
    )
    assert isinstance(part_with_text, Result)
    assert part_with_text.content == (NOTE if content is None else f"{content}\n{NOTE}")
    assert [(attachment.sha256, attachment.role) for attachment in part.attachments] == [
        (hashlib.sha256(data).hexdigest(), "document")
    ]


BLOCK = "TextContent(type='text', text={}, annotations=None, meta=None)"


def result(*texts: str, end: str = " isError=False") -> str:
    return f"meta=None content=[{', '.join(BLOCK.format(text) for text in texts)}]{end}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (result(r"'a\n\'b\' \"c\" \\'"), Printed("a\n'b' \"c\" \\", False, False)),
        (
            result('"it\'s"', "'two'", end=" structuredContent={'a': 'b'} isError=True"),
            Printed("it's\ntwo", True, False),
        ),
        (result(), Printed("", False, False)),
        (result("'a'", end=" structured_content=None is_error=True result_type='complete'"), Printed("a", True, False)),
        (
            "CallToolResult(content=[TextContent(type='text', text='a')], structured_content=None, is_error=False)",
            Printed("a", False, False),
        ),
        ("meta=None content=[TextContent(type='text', text='half \\", Printed("half ", None, True)),
        ("meta=None content=[TextContent(type='text', text='a\\\\", Printed("a\\", None, True)),
        ("content=[TextContent(type='text', text='caf\\xe", Printed("caf", None, True)),
    ],
)
def test_a_printed_result_is_its_texts_with_its_error_flag_and_cut(text, wanted):
    assert parse_printed(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["meta=None content=[ImageContent(type='image', data='aa')] isError=False", "content=[1, 2]", "meta=None", ""],
)
def test_what_is_no_result_of_texts_is_left_as_it_is(text):
    assert parse_printed(text) is None


def told(message: dict[str, Any]) -> tuple[bool | None, int | None, str | None]:
    """(is_error, exit code, content) of the one result that a message holds."""
    results = [part for part in parts(message, 0) if isinstance(part, Result)]
    assert len(results) == 1
    return results[0].is_error, results[0].exit_code, results[0].content


def tool(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "k", "content": content, **more}


def gemini(response: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": response}}]}


def block(content: Any, kind: str = "tool_result", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": kind, "tool_use_id": "k", "content": content, **more}]}


def bedrock(**fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"toolResult": {"toolUseId": "k", **fields}}]}


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


SEARCHES = [("web_search", {"query": "lamp"}, "1. lamp"), ("visit", {"url": "https://lamp.example"}, "A lamp.")]
OTHERS = [*SEARCHES, ("buy", {"item": "lamp"}, "bought")]


def chat(calls: list[tuple[str, dict[str, str], str]]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find a lamp."}]
    for number, (name, arguments, answer) in enumerate(calls):
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        messages += [{"role": "assistant", "content": "", "tool_calls": [call]}]
        messages += [{"role": "tool", "tool_call_id": f"c{number}", "content": answer}]
    return messages


def wire(calls: list[tuple[str, dict[str, str], str]]) -> str:
    lines: list[dict[str, Any]] = []
    for number, (name, arguments, answer) in enumerate(calls):
        lines.append({"id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
        lines.append({"id": number, "result": {"content": [{"type": "text", "text": answer}]}})
    return "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)


def domains(connector: str, data: str, rows: Rows | None = None) -> set[str]:
    blob = MemoryBlob("log", data.encode(), Choices() if rows is None else Choices(rows=rows))
    return {record.domain for record in connectors()[connector].parse(blob) if isinstance(record, Trajectory)}


@pytest.mark.parametrize(("calls", "domain"), [(SEARCHES, "search"), (OTHERS, "mcp"), (OTHERS[2:], "mcp")])
def test_the_tools_alone_tell_the_domain_in_every_container(calls, domain):
    mapped = Rows(layout="messages", columns=(("messages", "talk"),))
    assert domains("chat_tools", json.dumps({"messages": chat(calls)})) == {domain}
    assert domains("table", json.dumps({"talk": chat(calls)}) + "\n", mapped) == {domain}
    assert domains("mcp_jsonrpc", wire(calls)) == {domain}


def test_a_domain_that_the_recipe_states_holds():
    stated = Rows(layout="messages", columns=(("messages", "talk"),), domain="mcp")
    assert domains("table", json.dumps({"talk": chat(SEARCHES)}) + "\n", stated) == {"mcp"}


@pytest.mark.parametrize(
    ("names", "domain"),
    [
        (["WebSearch", "FetchURL"], "search"),
        (["mcp__brave__brave_web_search", "WebFetch"], "search"),
        (["mcp__shop__buy", "mcp__shop__search"], "mcp"),
        (["WebSearch", "Bash"], "terminal"),
        (["task_complete", "web-search"], "search"),
        (["memory"], "terminal"),
        ([], "terminal"),
    ],
)
def test_a_client_s_own_words_and_those_of_its_servers_are_known(names, domain):
    assert domain_of(names, "terminal") == domain
