"""Attributes of kin of the GenAI conventions under the names of the conventions: OpenInference, OpenLLMetry, AI SDK.

Each writes spans of model calls and of tools with attributes of its own. What they say is told again under the standard
name (`gen_ai.tool.call.arguments`, …), unless the span says that already. Strands and Pydantic AI name theirs almost
so. It reads no file and makes no items.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from trajmill.connectors.apis.otel_genai.events import Event, structured, unquoted
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


def standard(name: str, values: Mapping[str, Any], events: Iterable[Event]) -> dict[str, Any]:
    """What a span of that name says with attributes of its kin, under the standard names; those it has come first."""
    if _MLFLOW[0] in values:
        return {**values, **_mlflow(*(structured(values.get(key)) for key in _MLFLOW))}
    kind = _KINDS.get(plain_text(values.get("openinference.span.kind", values.get("traceloop.span.kind"))))
    if kind is None and ("ai.toolCall.name" in values or ("tool_arguments" in values and "gen_ai.tool.name" in values)):
        kind = "execute_tool"
    if kind is None and name.startswith("ai.") and name.endswith((".doGenerate", ".doStream")):
        kind = "chat"
    operation = values.get(OPERATION, kind)
    found: dict[str, Any] = {} if kind is None else {OPERATION: kind}
    if operation == "execute_tool":
        found |= _tool(values, events)
    elif kind == "chat":
        found |= _model_call(values)
    if "gen_ai.tool.definitions" not in values and (tools := _tools(values)):
        found["gen_ai.tool.definitions"] = tools
    return {**found, **values}


def _mlflow(kind: Any, given: Any, gave: Any) -> dict[str, Any]:
    operation = _KINDS.get(plain_text(kind).strip('"'))
    if operation is None:
        return {}
    return {OPERATION: operation, **(tool(given, gave) if operation == "execute_tool" else model_call(given, gave))}


def flat(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes with those of OpenInference under dotted keys, where an export of Phoenix holds them as objects."""
    found: dict[str, Any] = {}
    waiting = list(attributes.items())[::-1]
    while waiting:
        key, value = waiting.pop()
        if key.partition(".")[0] in _NESTED and isinstance(value, dict | list) and value:
            inner = enumerate(value) if isinstance(value, list) else value.items()
            waiting += [(f"{key}.{name}", one) for name, one in inner][::-1]
        else:
            found[key] = value
    return found


def _tool(values: Mapping[str, Any], events: Iterable[Event]) -> dict[str, Any]:
    found = {}
    for key, others in _SAME.items():
        told = next((values[other] for other in others if other in values), None)
        if told is not None:
            found[key] = unquoted(told) if "ai.toolCall.name" in values else told
    for key, (other, members) in _WRAPPED.items():
        told = structured(values.get(other))
        if isinstance(told, dict):
            told = next((told[member] for member in members if member in told), told)
        if told is not None:
            found[key] = told
    if "openinference.span.kind" in values:
        found |= tool(found.get("gen_ai.tool.call.arguments"), found.get("gen_ai.tool.call.result"))
    for event, told in events:  # as Strands writes them
        key, member = {"gen_ai.tool.message": ("arguments", "content"), "gen_ai.choice": ("result", "message")}.get(
            event, ("", "")
        )
        if key and told.get(member) is not None:
            found[f"gen_ai.tool.call.{key}"] = told[member]
    return found


def _model_call(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, other in (("gen_ai.request.model", "llm.model_name"), ("gen_ai.conversation.id", "session.id")):
        if isinstance(values.get(other), str):
            found[key] = values[other]
    asked = structured(values.get("ai.prompt.messages"))
    if isinstance(asked, list):
        text, calls = values.get("ai.response.text"), structured(values.get("ai.response.toolCalls"))
        said = [{"type": "text", "text": text}] if isinstance(text, str) and text else []
        said += [{"type": "tool-call", **one} for one in objects_of(calls)]
        found["gen_ai.input.messages"] = asked
        found["gen_ai.output.messages"] = [{"role": "assistant", "content": said}]
    return found


def _tools(values: Mapping[str, Any]) -> list[Any]:
    """Definitions of tools that stand in numbered attributes, by their numbers."""
    found: dict[int, Any] = {}
    for key, value in values.items():
        match = _TOOL.fullmatch(key) if key.startswith("llm.") else None
        if match is None:
            continue
        if match[1] is not None:
            found[int(match[1])] = structured(value)
        elif isinstance(tool := found.setdefault(int(match[2]), {}), dict):
            tool[match[3]] = structured(value)
    return [found[place] for place in sorted(found)]
