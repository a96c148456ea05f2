"""Declared tools as Markdown."""

import json

import pytest

from trajmill.pipelines.render.tool_list import tool_list

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Of the file."},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "mode": {"enum": ["r", "w"], "type": "string", "default": "r"},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "owner": {"type": "object", "properties": {"id": {"type": ["string", "null"]}}, "required": ["id"]},
        "all": {"type": "array", "items": {"type": "object", "properties": {"x": {}}}},
    },
    "required": ["path", "owner"],
}

SHOWN = """### `read`

Reads a file.

Parameters:
- `path` (string, REQUIRED): Of the file.
- `lines` (array of integer)
- `mode` (string): One of: "r", "w". Default: "r".
- `limit` (integer | null)
- `owner` (object, REQUIRED)
  - `id` (string | null, REQUIRED)
- `all` (array of object)
  - `x` (any)"""


@pytest.mark.parametrize(
    "declared",
    [
        {"name": "read", "description": "Reads a file.", "inputSchema": SCHEMA},
        {"name": "read", "description": " Reads a file.\n", "input_schema": SCHEMA},
        {"type": "function", "function": {"name": "read", "description": "Reads a file.", "parameters": SCHEMA}},
        {"type": "function", "name": "read", "description": "Reads a file.", "parameters": SCHEMA, "strict": True},
        {"toolSpec": {"name": "read", "description": "Reads a file.", "inputSchema": {"json": SCHEMA}}},
        {"functionDeclarations": [{"name": "read", "description": "Reads a file.", "parameters": SCHEMA}]},
        {"function_declarations": [{"name": "read", "description": "Reads a file.", "parametersJsonSchema": SCHEMA}]},
    ],
)
def test_a_tool_is_shown_alike_whoever_declares_it(declared):
    assert tool_list(json.dumps([declared])) == SHOWN


def test_tools_stand_one_below_the_other_and_one_without_parameters_says_so():
    tools = [{"name": "a", "inputSchema": {"type": "object", "properties": {}}}, "b"]
    assert tool_list(json.dumps(tools)) == "### `a`\n\nNo parameters.\n\n### `b`"


def test_tools_that_are_not_described_are_named():
    assert tool_list(json.dumps(["a", "b", "c"]), (1,)) == "### `b`\n\nDeclared too, and not described here: `a`, `c`"


def test_what_is_of_no_known_form_is_shown_as_it_stands():
    server = {"type": "mcp", "server_label": "deepwiki"}
    assert tool_list(json.dumps([server])) == '```json\n{\n  "type": "mcp",\n  "server_label": "deepwiki"\n}\n```'
    assert tool_list("click(bid): clicks an element") == "click(bid): clicks an element"
    assert tool_list('"Tools: ls"') == "Tools: ls"


def test_a_schema_that_holds_itself_many_times_ends():
    value: dict[str, object] = {"type": "string"}
    for _ in range(30):
        value = {"type": "object", "properties": {"x": value}}
    assert len(tool_list(json.dumps({"name": "deep", "inputSchema": value})).splitlines()) < 20
