"""Exports of Langfuse and LangSmith: observations and runs as spans, and what a model was asked and said in them.

Langfuse: a trace with its `observations`, a list of observations, or one a line. LangSmith: runs with their
`child_runs`, a list of runs, or one a line. Both hold requests and responses as their clients had them: lists of
messages of any maker, whole bodies of an API, generations of LangChain. Neither has an order of its own, so spans
stand in that of their times. MLflow and Phoenix export spans whose attributes tell all (see `kin`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trajmill.connectors.apis.otel_genai.events import structured, unquoted
from trajmill.connectors.conversation.dialects import langchain, plain
from trajmill.connectors.conversation.literals import literal_value
from trajmill.connectors.conversation.shapes import ROLES
from trajmill.connectors.reading.fields import object_of, objects_of, text_of

Exported = tuple[dict[str, Any], dict[str, Any]]
"""A span's frame in the words of OpenTelemetry, and its attributes."""

_KINDS: Final = {"GENERATION": "chat", "TOOL": "execute_tool", "llm": "chat", "tool": "execute_tool"}
_OPERATION: Final = "gen_ai.operation.name"
_ZONE: Final = re.compile(r"(?:Z|[+-]\d\d:?\d\d)\Z")
_AGENT: Final = "invoke_agent"


def observations(document: Any) -> Iterator[Exported]:
    """The observations of an export of Langfuse."""
    found = object_of(document)
    trace = object_of(found.get("trace")) or found
    session = text_of(trace.get("sessionId"))
    listed = found.get("observations", trace.get("observations", found.get("data", [document])))
    for one in objects_of(listed):
        if "startTime" not in one or not isinstance(one.get("type"), str):
            continue
        metadata = object_of(structured(one.get("metadata")))
        frame = {
            "trace_id": text_of(one.get("traceId")) or text_of(trace.get("id")) or "",
            "span_id": one.get("id"),
            "parent_id": one.get("parentObservationId"),
            "name": str(one.get("name") or "").removeprefix("running tool: ").removeprefix("execute_tool "),
            "start_time": one["startTime"],
            "end_time": one.get("endTime"),
            "status": {"code": one.get("level"), "message": one.get("statusMessage")},
        }
        values = {**object_of(metadata.get("attributes")), "gen_ai.request.model": one.get("model")}
        values |= {"gen_ai.conversation.id": session} if session else {}
        kind = _kind(one["type"], one.get("parentObservationId"))
        yield frame, _values(values, kind, one.get("input"), one.get("output"), metadata)


def runs(document: Any) -> Iterator[Exported]:
    """The runs of an export of LangSmith, each before its children."""
    found = object_of(document)
    for one in objects_of(found.get("runs", [document])):
        if not isinstance(one.get("run_type"), str):
            continue
        extra = object_of(one.get("extra"))
        metadata, asked = object_of(extra.get("metadata")), object_of(extra.get("invocation_params"))
        error = one.get("error")
        key = one.get("id", one.get("run_id"))
        frame = {
            "trace_id": text_of(one.get("trace_id")) or str(key),
            "span_id": key,
            "parent_id": one.get("parent_run_id"),
            "name": one.get("name"),
            "start_time": _utc(one.get("start_time")),
            "end_time": _utc(one.get("end_time")),
            "status": {"code": "ERROR" if error else None, "message": error},
        }
        values = {"gen_ai.request.model": metadata.get("ls_model_name", asked.get("model"))}
        named = text_of(metadata.get("thread_id")) or text_of(metadata.get("session_id"))
        values |= {"gen_ai.conversation.id": named} if named else {}
        kind = _kind(one["run_type"], one.get("parent_run_id"))
        yield frame, _values(values, kind, one.get("inputs"), one.get("outputs"), asked)
        for child in objects_of(one.get("child_runs")):
            yield from runs({"trace_id": one.get("trace_id", key), "parent_run_id": key, **child})


def _utc(time: Any) -> Any:
    """A time as LangSmith writes it, which is of UTC where it names no zone."""
    return f"{time}Z" if isinstance(time, str) and not _ZONE.search(time) else time


def _kind(word: str, parent: Any) -> str | None:
    """The operation of a span of that kind; one that stands in no other is of a whole agent, as far as it is known."""
    return _KINDS.get(word, _AGENT if parent is None else None)


def _values(own: dict[str, Any], kind: str | None, given: Any, gave: Any, beside: Mapping[str, Any]) -> dict[str, Any]:
    if kind is None:
        return own
    if kind == _AGENT:  # its state holds the conversation
        state = _messages(object_of(structured(gave)).get("messages"))
        return own if state is None else {**own, _OPERATION: kind, "gen_ai.input.messages": state}
    told = model_call(given, gave, beside) if kind == "chat" else tool(given, gave)
    return {_OPERATION: kind, **told, **{key: value for key, value in own.items() if value is not None}}


def tool(given: Any, gave: Any) -> dict[str, Any]:
    """The attributes of the span of a tool with these arguments and this result."""
    arguments, result = structured(given), None if gave == "null" else unquoted(gave)
    if isinstance(arguments, dict) and arguments.keys() == {"input"}:
        inner = structured(arguments["input"])
        inner = literal_value(inner) if isinstance(inner, str) and inner[:1] == "{" else inner
        arguments = inner if isinstance(inner, dict) else arguments
    elif isinstance(arguments, str) and arguments[:1] == "{" and isinstance(inner := literal_value(arguments), dict):
        arguments = inner
    if isinstance(result, dict) and result.keys() == {"output"}:
        result = structured(result["output"])
    result = (langchain.printed(result) or result) if isinstance(result, str) else result
    found = {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result}
    answers = plain(result) if isinstance(result, dict) else None
    if answers and answers[0]["role"] == "tool" and text_of(answers[0].get("tool_call_id")):
        found["gen_ai.tool.call.id"] = answers[0]["tool_call_id"]
    return {key: value for key, value in found.items() if value is not None}


def model_call(given: Any, gave: Any, beside: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The attributes of the span of a model that was asked and said this; `beside` may hold its tools."""
    asked, told = structured(given), structured(gave)
    before, said = _messages(asked), _messages(told)
    tools = [one["content"] for one in before or () if _is_definition(one)]
    before = before and [one for one in before if not _is_definition(one)]
    if said is None and before is not None and isinstance(told, str) and told:
        said = [{"role": "assistant", "content": told}]
    found: dict[str, Any] = {"gen_ai.input.messages": before, "gen_ai.output.messages": said}
    system = object_of(asked).get("system", object_of(object_of(asked).get("config")).get("system_instruction"))
    if isinstance(system, str) and before is not None:
        found["gen_ai.input.messages"] = [{"role": "system", "content": system}, *before]
    listed = tools or object_of(asked).get("tools") or (beside or {}).get("tools")
    if isinstance(listed, list):
        found["gen_ai.tool.definitions"] = [structured(one) for one in listed]
    found["gen_ai.request.model"] = text_of(object_of(asked).get("model"))
    return {key: value for key, value in found.items() if value is not None}


def _is_definition(message: Mapping[str, Any]) -> bool:
    """Whether a message is the definition of a tool, as Langfuse's client for Python writes them."""
    return message.get("role") == "tool" and "function" in object_of(message.get("content"))


def _messages(value: Any) -> list[dict[str, Any]] | None:
    """The messages in what a model was asked or said; None where none can be told."""
    if isinstance(value, list):
        while len(value) == 1 and isinstance(value[0], list):
            value = value[0]  # a batch of one
        if objects_of(value) and all("toolCallId" in one and "toolName" in one for one in objects_of(value)):
            return [{"role": "assistant", "content": [{"type": "tool-call", **one} for one in objects_of(value)]}]
        listed = objects_of(value)
        return [_named(one) for one in listed] if listed and all(map(_is_message, listed)) else None
    held = object_of(value)
    if _is_message(held):
        return [_named(held)]
    for key, inner in (("choices", "message"), ("candidates", "content"), ("generations", "message")):
        first = held.get(key)
        while isinstance(first, list) and first:
            first = first[0]
        if isinstance(first, dict) and inner in first:
            return _messages(first[inner])
    if isinstance(held.get("prompt"), str):
        return [{"role": "user", "content": held["prompt"]}]
    keys = ("messages", "contents", "message", "content", "output")
    return next((told for key in keys if key in held and (told := _messages(held[key])) is not None), None)


def _named(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose role may be the name of the tool that answered, as Langfuse's client for JavaScript writes it.

    That for Python keeps calls where LangChain does.
    """
    role, kept = message.get("role"), object_of(message.get("additional_kwargs"))
    if isinstance(role, str) and role not in ROLES and plain(message) is None:
        return {**message, "role": "tool", "name": role}
    return {**message, "tool_calls": kept["tool_calls"]} if kept.get("tool_calls") and role else message


def _is_message(value: Mapping[str, Any]) -> bool:
    spoken = "content" in value or "parts" in value or "tool_calls" in value
    return (isinstance(value.get("role"), str) and spoken) or _is_item(value) or plain(value) is not None


def _is_item(value: Mapping[str, Any]) -> bool:
    return value.get("type") in ("function_call", "function_call_output", "reasoning")
