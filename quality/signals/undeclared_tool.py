"""Signal of calls of tools that the trajectory's own list of tools lacks.

It applies only if `context.action_space` is given and all its entries can be read; a server of MCP whose tools are not
listed may have any. A call is declared if the list holds the action's name or the name in its text, since connectors
map tool names to one vocabulary. A call is also declared if its tool is one that an API defines and calls by another
name than the declared one (`code_execution` is called as `bash_code_execution`).

Waits, the declaration that the task is done, keystrokes and messages to the user are no tools, nor are the methods by
which an MCP client reads a resource, gets a prompt or requests a completion: no list of tools holds them.

A call that was refused, by the harness or with an error, does not count: the answer that there is no such tool is the
right one. A tool that answers although no list holds it shows that the list is incomplete. The answer is genuine all
the same, so this is a mark on the row, by which no built-in recipe drops anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.signals.error_observation import flag_errors
from trajmill.schemas import COMPLETE, KEYSTROKES, MESSAGE, WAIT

_METHODS: Final = frozenset({"resources/read", "prompts/get", "completion/complete"})
_NO_TOOLS: Final = frozenset({"", MESSAGE, COMPLETE, WAIT, KEYSTROKES}) | _METHODS
_SERVERS: Final = frozenset({"mcp", "mcp_toolset", "namespace"})
_LISTS: Final = ("tools", "functions", "functionDeclarations", "function_declarations")
_CALLED: Final = r'^\{"name": "(?P<name>[^"\\]+)"'

_CODE: Final = frozenset({"code_execution", "bash_code_execution", "text_editor_code_execution"})
_FAMILIES: Final[Mapping[str, frozenset[str]]] = {
    "code_execution": _CODE,
    "tool_search": frozenset(
        {"tool_search", "search_tools", "tool_search_tool_bm25", "tool_search_tool_regex", "tool_search_tool"}
    ),
    "web_search": frozenset({"web_search"}),
    "web_fetch": frozenset({"web_fetch"}),
    "file_search": frozenset({"file_search"}),
    "code_interpreter": frozenset({"code_interpreter"}),
    "image_generation": frozenset({"image_generation"}),
    "computer": frozenset({"computer"}),
    "local_shell": frozenset({"local_shell"}),
    "shell": frozenset({"shell"}),
    "apply_patch": frozenset({"apply_patch"}),
}
"""Names of calls by the type of an API's own tool; a declaration's type begins with the key."""

_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("googleSearch", "google_search", "googleSearchRetrieval"), frozenset({"google_search"})),
    **dict.fromkeys(("codeExecution", "code_execution"), _CODE),
    **dict.fromkeys(("urlContext", "url_context"), frozenset({"url_context"})),
    "cachePoint": frozenset(),
}
"""Names of calls by the member with which Gemini declares its own tools. Bedrock's mark among tools declares none."""

_FILTERED: Final = re.compile(r"web_(?:search|fetch)_(20[0-9]{6})")
_FILTERING: Final = "20260209"
"""First version of Anthropic's search tools that run undeclared code over their results."""


def _names(entry: Any) -> set[str] | None:
    """Return the names that one entry of a list of tools declares; None if its form is unknown."""
    if isinstance(entry, str):
        return {entry}
    if not isinstance(entry, dict):
        return None
    names = _family(entry)
    for key in _LISTS:
        if isinstance(entry.get(key), list):
            inner = _all_names(entry[key])
            return None if inner is None else inner | names
    for key in ("function", "toolSpec", "systemTool", "custom"):
        if isinstance(entry.get(key), dict):
            entry = entry[key]
    name = entry.get("name")
    if isinstance(name, str) and entry.get("type") not in _SERVERS:
        names.add(name)
    return names if names or entry.keys() <= _MEMBERS.keys() else None


def _family(entry: Mapping[str, Any]) -> set[str]:
    """Return the call names of an API's own tools, by the entry's type or, for Gemini, its members."""
    kind = entry.get("type")
    if not isinstance(kind, str):
        return {name for key in entry for name in _MEMBERS.get(key, ())}
    named = next((key for key in _FAMILIES if kind == key or kind.startswith((f"{key}_", f"{key}-"))), "")
    names = set(_FAMILIES.get(named, ()))
    dated = _FILTERED.fullmatch(kind)
    return names | _CODE if dated is not None and dated[1] >= _FILTERING else names


def _all_names(entries: list[Any]) -> set[str] | None:
    names: set[str] = set()
    for entry in entries:
        own = _names(entry)
        if own is None:
            return None
        names |= own
    return names


def declared_names(action_space: str) -> set[str] | None:
    """Return the names of the tools that an action space (JSON text) declares; None if its form is unknown.

    Known forms are lists of names, and definitions in the forms of MCP, OpenAI, Anthropic and Gemini.
    """
    value = json.loads(action_space)
    names = _all_names(value) if isinstance(value, list) else _names(value) if isinstance(value, dict) else None
    return names or None


class UndeclaredTool(Signal):
    """1 if a call was answered although the action space does not hold its tool, else 0."""

    name: ClassVar[str] = "undeclared_tool"
    measures: ClassVar[str] = (
        "1: a call that was answered, of a tool that `context.action_space` does not hold, where it is given and "
        "can be read; a mark, by which no built-in recipe drops. A call that was refused does not count, nor does "
        "reading a resource or getting a prompt of MCP"
    )

    def measure(self, measured: Measured) -> Numbers:
        spaces, names = measured.texts("context", "action_space"), measured.texts("action", "name")
        rows = np.flatnonzero(spaces.index >= 0)
        called = names.texts.to_pylist()
        pairs, pair = np.unique(spaces.index[rows] * len(called) + names.index[rows], return_inverse=True)
        declares = {
            space_number: declared_names(spaces.texts[space_number].as_py())
            for space_number in np.unique(spaces.index[rows]).tolist()
        }
        unknown = np.zeros(len(pairs), np.bool_)
        for pair_number, (space, name) in enumerate(divmod(number, len(called)) for number in pairs.tolist()):
            known = declares[space]
            unknown[pair_number] = known is not None and called[name] not in known | _NO_TOOLS
        suspects = rows[unknown[pair]]
        refused = measured.texts("next_observation", "origin").matching("^harness$") | measured.around(flag_errors)
        suspects = suspects[~refused[suspects]]
        alias = pc.extract_regex(
            pc.struct_field(measured.batch["action"], "text").take(pa.array(suspects)).cast(pa.string()), _CALLED
        )
        marks = np.zeros(measured.batch.num_rows, np.float32)
        for row, call in zip(suspects.tolist(), alias.to_pylist(), strict=True):
            tools = declares[int(spaces.index[row])] or set[str]()
            marks[row] = call is None or call["name"] not in tools
        return marks
