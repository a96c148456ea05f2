"""Calls in tags: JSON of name and arguments, or a function and its parameters, each in a tag of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from trajmill.connectors.conversation.literals import literal_value
from trajmill.connectors.conversation.written_calls.form import Block, bad_call, call_block
from trajmill.connectors.reading.values import JsonError, first_value

_END: Final = re.compile(r"\s*(?:</tool_call>|(?=<tool_call>)|\Z)")
_ARGUMENTS: Final = ("arguments", "parameters", "args")


class _Tags(NamedTuple):
    """Patterns that open a function and a parameter, each with its name, and that close them."""

    function: re.Pattern[str]
    parameter: re.Pattern[str]
    value_end: re.Pattern[str]
    end: re.Pattern[str]


_QWEN: Final = _Tags(
    re.compile(r"\s*<function=([^<>\s]{1,200})>"),
    re.compile(r"\s*<parameter=([^<>\s]{1,200})>"),
    re.compile(r"</parameter>(?=\s*(?:<parameter=|</function>|\Z))"),
    re.compile(r"\s*(?:</function>|\Z)"),
)
_GLM: Final = _Tags(
    re.compile(r"\s*([^\s<>{}()=]{1,200})"),
    re.compile(r"\s*<arg_key>([^<>]{1,200})</arg_key>\s*<arg_value>"),
    re.compile(r"</arg_value>(?=\s*(?:<arg_key>|</tool_call>|\Z))"),
    re.compile(r"(?=\s*(?:</tool_call>|\Z))"),
)


def read_tags(text: str, mark: re.Match[str]) -> tuple[list[Block], int]:
    """Return the calls between `<tool_call>` tags: JSON, a Python literal, or tags of Qwen3-Coder or GLM."""
    begin = mark.end()
    inside = text[begin : begin + 4096].lstrip()
    if inside[:1] in ("{", "["):
        calls, position = _json(text, text.index(inside[:1], begin))
    else:
        call, position = _parameters(text, begin, _QWEN if inside.startswith("<function=") else _GLM)
        calls = [call]
    end = _END.match(text, position)
    if end is None:
        raise bad_call("one call between tags", text, begin)
    return calls, end.end()


def function(text: str, mark: re.Match[str]) -> tuple[list[Block], int]:
    """Return the call of a function in Qwen3-Coder's tags."""
    call, end = _parameters(text, mark.start(), _QWEN)
    return [call], end


def _parameters(text: str, begin: int, tags: _Tags) -> tuple[Block, int]:
    """Return a function with its parameters, whose values are texts, and its end."""
    opened = tags.function.match(text, begin)
    arguments: dict[str, str] = {}
    position = begin if opened is None else opened.end()
    while opened is not None and (parameter := tags.parameter.match(text, position)) is not None:
        value_end = tags.value_end.search(text, parameter.end())
        if value_end is None:
            raise bad_call("a parameter that is closed", text, position)
        value = text[parameter.end() : value_end.start()]
        arguments.setdefault(parameter[1].strip(), value.removeprefix("\n").removesuffix("\n"))
        position = value_end.end()
    end = tags.end.match(text, position)
    if opened is None or end is None:
        raise bad_call("a function with its parameters", text, begin)
    return call_block(opened[1], arguments), end.end()


def _json(text: str, begin: int) -> tuple[list[Block], int]:
    """Return the call, or list of calls, in a JSON value or a Python literal, and its end."""
    try:
        value, end = first_value(text, begin)
    except JsonError:
        end = text.find("</tool_call>", begin)
        end = len(text) if end < 0 else end
        value = literal_value(text[begin:end])
    calls = [_call(entry) for entry in (value if isinstance(value, list) else [value])]
    if not calls or None in calls:
        raise bad_call("name and arguments between tags", text, begin)
    return [call for call in calls if call is not None], end


def _call(value: Any) -> Block | None:
    function = value.get("function", value) if isinstance(value, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str) or not name:
        return None
    return call_block(name, next((function[key] for key in _ARGUMENTS if key in function), None))
