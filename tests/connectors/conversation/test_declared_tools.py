"""Which tools a session declares, wherever it does."""

import pytest

from trajmill.connectors.conversation.declared_tools import declare, declared_by

ADD, DIVIDE = {"name": "add", "inputSchema": {}}, {"type": "function", "function": {"name": "divide"}}


@pytest.mark.parametrize(
    ("first", "more", "all_of_them"),
    [
        ([ADD], [DIVIDE], [ADD, DIVIDE]),
        ([ADD], [{"type": "function", "name": "add", "strict": True}], [ADD]),
        ([{"type": "web_search"}], [{"type": "web_search"}], [{"type": "web_search"}]),
        (
            [{"functionDeclarations": [ADD]}],
            [{"functionDeclarations": [ADD, {"name": "divide"}]}],
            [{"functionDeclarations": [ADD]}, {"functionDeclarations": [{"name": "divide"}]}],
        ),
        ([{"toolSpec": {"name": "add"}}], [ADD], [{"toolSpec": {"name": "add"}}]),
        ([ADD], [{"type": "namespace", "name": "add", "tools": [ADD]}], [ADD]),
        ([], ["add", "add", 7], ["add", 7]),
    ],
)
def test_a_tool_that_is_declared_again_counts_once(first, more, all_of_them):
    tools = list(first)
    declare(tools, more)
    assert tools == all_of_them


def test_tools_stand_in_requests_listings_and_answers_to_searches():
    request = {
        "tools": [{"type": "tool_search"}],
        "mcp_servers": [{"type": "url", "url": "https://s.example/mcp", "name": "docs", "authorization_token": "t"}],
        "input": [{"type": "tool_search_output", "tools": [ADD]}, {"type": "function_call_output", "tools": [1]}],
    }
    response = {"tools": [{"name": "echo"}], "output": [{"type": "mcp_list_tools", "tools": [DIVIDE]}]}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "docs"}
    assert list(declared_by(request, response)) == [{"type": "tool_search"}, toolset, ADD, DIVIDE]
    assert list(declared_by({}, response)) == [{"name": "echo"}, DIVIDE]
    assert list(declared_by({"toolConfig": {"tools": [{"toolSpec": {"name": "add"}}]}}, {})) == [
        {"toolSpec": {"name": "add"}}
    ]
