"""Attributes of conventions related to GenAI, under its standard names: OpenInference, OpenLLMetry, AI SDK.

Each of these writes spans of model calls and of tools with attributes of its own. Their values are copied to the
standard names (`gen_ai.tool.call.arguments`, …), unless the span has these already. Strands and Pydantic AI use nearly
the standard names. This module reads no files and makes no items.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from trajmill.connectors.apis.otel_genai.events import Event, parse_structured, unquote
from trajmill.connectors.apis.otel_genai.exports import model_call, tool
from trajmill.connectors.reading.fields import objects_of, plain_text

OPERATION: Final = "gen_ai.operation.name"
_KINDS: Final = {"TOOL": "execute_tool", "LLM": "chat", "tool": "execute_tool", "CHAT_MODEL": "chat"}
_MLFLOW: Final = ("mlflow.spanType", "mlflow.spanInputs", "mlflow.spanOutputs")
_SAME: Final = {
    "gen_ai.tool.name": ("tool.name", "ai.toolCall.name", "traceloop.entity.name"),
    "gen_ai.tool.call.id": ("ai.toolCall.id", "tool.id", "tool_call.id"),
    "gen_ai.tool.call.arguments": ("tool_arguments", "ai.toolCall.args", "ai.toolCall.input", "input.value"),
    "gen_ai.tool.call.result": ("tool_response", "ai.toolCall.result", "ai.toolCall.output", "output.value"),
}
_WRAPPED: Final = {
    "gen_ai.tool.call.arguments": ("traceloop.entity.input", ("inputs", "args", "kwargs")),
    "gen_ai.tool.call.result": ("traceloop.entity.output", ("outputs", "output")),
}
_NESTED: Final = frozenset({"llm", "openinference", "tool", "input", "output", "session"})
_TOOL: Final = re.compile(
    r"llm\.(?:tools\.(\d{1,4})\.tool\.json_schema|request\.functions\.(\d{1,4})\.(\w+))", re.ASCII
)


def to_standard(name: str, values: Mapping[str, Any], events: Iterable[Event]) -> dict[str, Any]:
    """Convert a span's attributes of related conventions to the standard names, which take precedence."""
    if _MLFLOW[0] in values:
        return {**values, **_mlflow(*(parse_structured(values.get(key)) for key in _MLFLOW))}
    kind = _KINDS.get(plain_text(values.get("openinference.span.kind", values.get("traceloop.span.kind"))))
    called = "gen_ai.tool.name" in values and ("tool_arguments" in values or "gen_ai.tool.call.id" in values)
    if kind is None and ("ai.toolCall.name" in values or called):
        kind = "execute_tool"
    if kind is None and name.startswith("ai.") and name.endswith((".doGenerate", ".doStream")):
        kind = "chat"
    operation = values.get(OPERATION, kind)
    converted: dict[str, Any] = {} if kind is None else {OPERATION: kind}
    if operation == "execute_tool":
        converted |= _tool(values, events)
    elif kind == "chat":
        converted |= _model_call(values)
    if "gen_ai.tool.definitions" not in values and (tools := _tools(values)):
        converted["gen_ai.tool.definitions"] = tools
    return {**converted, **values}


def _mlflow(kind: Any, span_input: Any, span_output: Any) -> dict[str, Any]:
    operation = _KINDS.get(plain_text(kind).strip('"'))
    if operation is None:
        return {}
    return {
        OPERATION: operation,
        **(tool(span_input, span_output) if operation == "execute_tool" else model_call(span_input, span_output)),
    }


def flatten_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten the attributes of OpenInference to dotted keys, where an export of Phoenix holds them as objects."""
    by_key: dict[str, Any] = {}
    waiting = list(attributes.items())[::-1]
    while waiting:
        key, value = waiting.pop()
        if key.partition(".")[0] in _NESTED and isinstance(value, dict | list) and value:
            inner = enumerate(value) if isinstance(value, list) else value.items()
            waiting += [(f"{key}.{name}", inner_value) for name, inner_value in inner][::-1]
        else:
            by_key[key] = value
    return by_key


def _tool(values: Mapping[str, Any], events: Iterable[Event]) -> dict[str, Any]:
    attributes = {}
    for key, synonyms in _SAME.items():
        raw_value = next((values[synonym] for synonym in synonyms if synonym in values), None)
        if raw_value is not None:
            attributes[key] = unquote(raw_value) if "ai.toolCall.name" in values else raw_value
    for key, (synonym, members) in _WRAPPED.items():
        raw_value = parse_structured(values.get(synonym))
        if isinstance(raw_value, dict):
            raw_value = next((raw_value[member] for member in members if member in raw_value), raw_value)
        if raw_value is not None:
            attributes[key] = raw_value
    if "openinference.span.kind" in values:
        attributes |= tool(attributes.get("gen_ai.tool.call.arguments"), attributes.get("gen_ai.tool.call.result"))
    for event, raw_value in events:  # as Strands writes them
        key, member = {"gen_ai.tool.message": ("arguments", "content"), "gen_ai.choice": ("result", "message")}.get(
            event, ("", "")
        )
        if key and raw_value.get(member) is not None:
            attributes[f"gen_ai.tool.call.{key}"] = raw_value[member]
    return attributes


def _model_call(values: Mapping[str, Any]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for key, synonym in (("gen_ai.request.model", "llm.model_name"), ("gen_ai.conversation.id", "session.id")):
        if isinstance(values.get(synonym), str):
            attributes[key] = values[synonym]
    asked = parse_structured(values.get("ai.prompt.messages"))
    if isinstance(asked, list):
        text, calls = values.get("ai.response.text"), parse_structured(values.get("ai.response.toolCalls"))
        answer = [{"type": "text", "text": text}] if isinstance(text, str) and text else []
        answer += [{"type": "tool-call", **tool_call} for tool_call in objects_of(calls)]
        attributes["gen_ai.input.messages"] = asked
        attributes["gen_ai.output.messages"] = [{"role": "assistant", "content": answer}]
    return attributes


def _tools(values: Mapping[str, Any]) -> list[Any]:
    """Return the tool definitions in numbered attributes, in order of their numbers."""
    by_number: dict[int, Any] = {}
    for key, value in values.items():
        match = _TOOL.fullmatch(key) if key.startswith("llm.") else None
        if match is None:
            continue
        if match[1] is not None:
            by_number[int(match[1])] = parse_structured(value)
        elif isinstance(tool := by_number.setdefault(int(match[2]), {}), dict):
            tool[match[3]] = parse_structured(value)
    return [by_number[number] for number in sorted(by_number)]
