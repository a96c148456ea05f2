"""Declared tools as Markdown: name, description, and each parameter with its type and whether it is required.

The definitions of MCP, OpenAI, Anthropic, Gemini and Bedrock are recognized. Any other form is shown unchanged, since
the agent saw it too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from trajmill.connectors.reading.values import value_or_none
from trajmill.pipelines.render.fences import block
from trajmill.schemas import json_text

_LISTS: Final = ("functionDeclarations", "function_declarations", "tools")
_INNER: Final = ("function", "toolSpec", "systemTool", "custom")
_SCHEMAS: Final = ("inputSchema", "input_schema", "parameters", "parametersJsonSchema", "parameters_json_schema")
_DEEPEST: Final = 6
_STEP: Final = "  "


BETWEEN_TOOLS: Final = "\n\n"
ALSO: Final = "Declared too, and not described here: "


def tool_list(action_space: str, shown: Collection[int] | None = None) -> str:
    """Format an action space as Markdown.

    Args:
        action_space: action space of a transition's context: definitions of tools as JSON text, or any text.
        shown: numbers of the tools to describe; the others are named. None describes all.
    """
    tools = tool_texts(action_space)
    if shown is None or len(shown) == len(tools):
        return BETWEEN_TOOLS.join(text for _, text in tools)
    descriptions = [text for number, (_, text) in enumerate(tools) if number in shown]
    names = [name for number, (name, _) in enumerate(tools) if number not in shown]
    return BETWEEN_TOOLS.join([*descriptions, ALSO + "".join(map(format_name, names)).removesuffix(", ")])


def format_name(name: str) -> str:
    """Format a tool that is only named, as an item of a list."""
    return f"`{name}`, "


def tool_texts(action_space: str) -> list[tuple[str, str]]:
    """Return (name, Markdown) of each tool that an action space declares. The name is empty if there is none."""
    value = value_or_none(action_space)
    if isinstance(value, str):
        return [("", value)]
    entries = value if isinstance(value, list) else [value] if isinstance(value, dict) else None
    if entries is None:
        return [("", action_space)]
    return [tool for entry in entries for tool in _tools(entry)]


def _tools(entry: Any) -> Iterator[tuple[str, str]]:
    if isinstance(entry, str):
        yield entry, f"### `{entry}`"
        return
    if not isinstance(entry, dict):
        yield "", block(json_text(entry))
        return
    inner = next((entry[key] for key in _LISTS if isinstance(entry.get(key), list)), None)
    if inner is not None:
        for inner_entry in inner:
            yield from _tools(inner_entry)
        return
    definition = next((entry[key] for key in _INNER if isinstance(entry.get(key), dict)), entry)
    name = definition.get("name")
    if not isinstance(name, str):
        yield "", block(json_text(entry))
        return
    parts = [f"### `{name}`"]
    if isinstance(definition.get("description"), str) and definition["description"].strip():
        parts.append(definition["description"].strip())
    schema = next((_schema(definition[key]) for key in _SCHEMAS if isinstance(definition.get(key), dict)), None)
    if schema is not None:
        parts.append("\n".join(["Parameters:", *_parameters(schema)]) if schema.get("properties") else "No parameters.")
    yield name, "\n\n".join(parts)


def _schema(value: Mapping[str, Any]) -> Mapping[str, Any]:
    return value["json"] if isinstance(value.get("json"), dict) else value


def _parameters(schema: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield a line for each property of an object, followed by those of nested objects."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return
    needed = set(map(str, required)) if isinstance(required, list) else set()
    for name, value in properties.items():
        property_schema = value if isinstance(value, dict) else {}
        words = [_type(property_schema), *(["REQUIRED"] if name in needed else [])]
        yield f"{_STEP * depth}- `{name}` ({', '.join(words)}){_describe(property_schema)}"
        inner = property_schema.get("items") if isinstance(property_schema.get("items"), dict) else property_schema
        if isinstance(inner, dict) and depth < _DEEPEST:
            yield from _parameters(inner, depth + 1)


def _type(schema: Mapping[str, Any]) -> str:
    """Name the type of a value in readable form: `array of string`, `string | null`."""
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return (
                " | ".join(dict.fromkeys(_type(option) for option in schema[key] if isinstance(option, dict))) or "any"
            )
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(map(str, kind))
    if not isinstance(kind, str):
        return "one of the values below" if isinstance(schema.get("enum"), list) else "any"
    named = kind.lower()
    if named == "array" and isinstance(schema.get("items"), dict):
        return f"array of {_type(schema['items'])}"
    return named


def _describe(schema: Mapping[str, Any]) -> str:
    """Describe a value: its meaning, its possible values, its default."""
    sentences = [schema["description"].strip()] if isinstance(schema.get("description"), str) else []
    if isinstance(schema.get("enum"), list):
        sentences.append(
            "One of: " + ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"]) + "."
        )
    if "default" in schema:
        sentences.append(f"Default: {json.dumps(schema['default'], ensure_ascii=False)}.")
    text = " ".join(sentence for sentence in sentences if sentence)
    return f": {text}" if text else ""
