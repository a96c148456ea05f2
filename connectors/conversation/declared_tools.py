"""Tools that a session declares: in requests, lists of servers, results of tool searches and system prompts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from trajmill.connectors.reading.fields import OBJECT, objects_of, str_of
from trajmill.connectors.reading.values import JsonError, first_value

_GROUPS: Final = ("functionDeclarations", "function_declarations", "tools")
"""Members of a declaration that declare several tools: Gemini's, and OpenAI's namespaces."""

_LISTINGS: Final = frozenset({"mcp_list_tools", "tool_search_output"})
"""Items of the Responses API with definitions of tools."""

_LIST: Final = re.compile(r'\[\s*\{\s*"(?:name|type|function|description|parameters)"')
_VALUE: Final = re.compile(r"[\[{]")


def declare(tools: list[Any], more: Iterable[Any]) -> None:
    """Add those of `more` that are new to the tools of a session, compared by name or, without a name, by content."""
    known = {name for tool in tools for name in _names(tool)}
    for tool in more:
        new = _without(tool, known)
        if new is not None and new not in tools:
            tools.append(new)
            known |= set(_names(new))


def _without(tool: Any, known: set[str]) -> Any:
    """Return a declaration without the tools of known names; None if nothing remains."""
    key = next((key for key in _GROUPS if isinstance(tool, dict) and isinstance(tool.get(key), list)), None)
    if key is None:
        return tool if known.isdisjoint(_names(tool)) else None
    new = [entry for entry in tool[key] if known.isdisjoint(_names(entry))]
    return {**tool, key: new} if new or not tool[key] else None


def iterate_listed(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the tools in items of the Responses API: those of a server, or found by a search."""
    for item in items:
        if isinstance(item, OBJECT) and "tools" in item and str_of(item.get("type")) in _LISTINGS:
            yield from objects_of(item["tools"])


def iterate_declared(request: Mapping[str, Any], response: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the tools that an exchange with an API declares, in the API's own form.

    A server of the Model Context Protocol that a request names without a list of its tools becomes an `mcp_toolset`, as
    in newer versions of the API, without its address.
    """
    config = request.get("toolConfig")
    tools = request.get("tools", request.get("functions", config.get("tools") if isinstance(config, dict) else None))
    tools = tools if isinstance(tools, list) and tools else response.get("tools")
    yield from tools if isinstance(tools, list) else ()
    servers = {tool.get("mcp_server_name") for tool in objects_of(tools)}
    for server in objects_of(request.get("mcp_servers")):
        if server.get("name") not in servers:
            yield {"type": "mcp_toolset", "mcp_server_name": server.get("name")}
    yield from iterate_listed(objects_of(request.get("input")))
    yield from iterate_listed(objects_of(response.get("output")))


def _names(tool: Any) -> Iterator[str]:
    """Yield the names in a declaration of any vendor."""
    if isinstance(tool, str):
        yield tool
        return
    if not isinstance(tool, dict):
        return
    for key in ("function", "toolSpec", "custom"):
        yield from _names(tool[key]) if isinstance(tool.get(key), dict) else ()
    if isinstance(tool.get("name"), str) and tool.get("type") != "namespace":
        yield tool["name"]
    for key in _GROUPS:
        for member in objects_of(tool.get(key)):
            yield from _names(member)


def parse_prompt_tools(prompt: str) -> list[dict[str, Any]]:
    """Return the tools that a system prompt declares as JSON, between `<tools>` tags or as a list of functions."""
    tagged = [piece.partition("</tools>")[0] for piece in prompt.split("<tools>")[1:]]
    if tagged:
        return [tool for inner in tagged for value in _values(inner, 0) for tool in _tools(value)]
    begins = _LIST.search(prompt)
    return [] if begins is None else _tools(next(_values(prompt, begins.start()), None))


def names_in(tools: Iterable[Any]) -> frozenset[str]:
    """Return the names of declared tools."""
    return frozenset(name for tool in tools for name in _names(tool))


def _values(text: str, position: int) -> Iterator[Any]:
    """Yield the adjacent JSON values in a text, up to the first invalid one."""
    while begins := _VALUE.search(text, position):
        try:
            value, position = first_value(text, begins.start())
        except JsonError:
            return
        yield value


def _tools(value: Any) -> list[dict[str, Any]]:
    return [tool for tool in objects_of(value if isinstance(value, list) else [value]) if any(_names(tool))]
