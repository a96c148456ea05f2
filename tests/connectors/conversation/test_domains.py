"""A conversation that only searches and reads pages is of the domain `search`, whatever its container."""

import json
from typing import Any

import pytest

from trajmill.connectors.column_mapping import Rows
from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.connectors.conversation.tools import domain_of
from trajmill.connectors.registry import connectors
from trajmill.schemas import Trajectory

SEARCHES = [("web_search", {"query": "lamp"}, "1. lamp"), ("visit", {"url": "https://lamp.example"}, "A lamp.")]
OTHERS = [*SEARCHES, ("buy", {"item": "lamp"}, "bought")]


def chat(calls: list[tuple[str, dict[str, str], str]]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find a lamp."}]
    for number, (name, given, answer) in enumerate(calls):
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        messages += [{"role": "assistant", "content": "", "tool_calls": [call]}]
        messages += [{"role": "tool", "tool_call_id": f"c{number}", "content": answer}]
    return messages


def wire(calls: list[tuple[str, dict[str, str], str]]) -> str:
    lines: list[dict[str, Any]] = []
    for number, (name, given, answer) in enumerate(calls):
        lines.append({"id": number, "method": "tools/call", "params": {"name": name, "arguments": given}})
        lines.append({"id": number, "result": {"content": [{"type": "text", "text": answer}]}})
    return "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)


def domains(connector: str, data: str, rows: Rows | None = None) -> set[str]:
    blob = MemoryBlob("log", data.encode(), Choices() if rows is None else Choices(rows=rows))
    return {one.domain for one in connectors()[connector].parse(blob) if isinstance(one, Trajectory)}


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
