"""Exports of Langfuse and LangSmith: observations and runs as spans, with the model's input and output.

Langfuse: a trace with its `observations`, a list of observations, or one per line. LangSmith: runs with their
`child_runs`, a list of runs, or one per line. Both hold requests and responses in the form of their clients: lists of
messages of any provider, whole bodies of an API, generations of LangChain. Neither has an order of its own, so spans
are sorted by time. MLflow and Phoenix export spans whose attributes hold everything (see `kin`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trajmill.connectors.apis.otel_genai.events import parse_structured, unquote
from trajmill.connectors.conversation.dialects import langchain, plain
from trajmill.connectors.conversation.literals import literal_value
from trajmill.connectors.conversation.shapes import ROLES
from trajmill.connectors.reading.fields import object_of, objects_of, text_of

Exported = tuple[dict[str, Any], dict[str, Any]]
"""The frame of a span in the terms of OpenTelemetry, and its attributes."""

_KINDS: Final = {"GENERATION": "chat", "TOOL": "execute_tool", "llm": "chat", "tool": "execute_tool"}
_OPERATION: Final = "gen_ai.operation.name"
_ZONE: Final = re.compile(r"(?:Z|[+-]\d\d:?\d\d)\Z")
_AGENT: Final = "invoke_agent"


def observations(document: Any) -> Iterator[Exported]:
    """Yield the observations of an export of Langfuse."""
    export = object_of(document)
    trace = object_of(export.get("trace")) or export
    session = text_of(trace.get("sessionId"))
    listed = export.get("observations", trace.get("observations", export.get("data", [document])))
    for item in objects_of(listed):
        if "startTime" not in item or not isinstance(item.get("type"), str):
            continue
        metadata = object_of(parse_structured(item.get("metadata")))
        frame = {
            "trace_id": text_of(item.get("traceId")) or text_of(trace.get("id")) or "",
            "span_id": item.get("id"),
            "parent_id": item.get("parentObservationId"),
            "name": str(item.get("name") or "").removeprefix("running tool: ").removeprefix("execute_tool "),
            "start_time": item["startTime"],
            "end_time": item.get("endTime"),
            "status": {"code": item.get("level"), "message": item.get("statusMessage")},
        }
        values = {**object_of(metadata.get("attributes")), "gen_ai.request.model": item.get("model")}
        values |= {"gen_ai.conversation.id": session} if session else {}
        kind = _kind(item["type"], item.get("parentObservationId"))
        yield frame, _values(values, kind, item.get("input"), item.get("output"), metadata)


def runs(document: Any) -> Iterator[Exported]:
    """Yield the runs of an export of LangSmith, each before its children."""
    export = object_of(document)
    for run in objects_of(export.get("runs", [document])):
        if not isinstance(run.get("run_type"), str):
            continue
        extra = object_of(run.get("extra"))
        metadata, asked = object_of(extra.get("metadata")), object_of(extra.get("invocation_params"))
        error = run.get("error")
        key = run.get("id", run.get("run_id"))
        frame = {
            "trace_id": text_of(run.get("trace_id")) or str(key),
            "span_id": key,
            "parent_id": run.get("parent_run_id"),
            "name": run.get("name"),
            "start_time": _utc(run.get("start_time")),
            "end_time": _utc(run.get("end_time")),
            "status": {"code": "ERROR" if error else None, "message": error},
        }
        values = {"gen_ai.request.model": metadata.get("ls_model_name", asked.get("model"))}
        named = text_of(metadata.get("thread_id")) or text_of(metadata.get("session_id"))
        values |= {"gen_ai.conversation.id": named} if named else {}
        kind = _kind(run["run_type"], run.get("parent_run_id"))
        yield frame, _values(values, kind, run.get("inputs"), run.get("outputs"), asked)
        for child in objects_of(run.get("child_runs")):
            yield from runs({"trace_id": run.get("trace_id", key), "parent_run_id": key, **child})


def _utc(time: Any) -> Any:
    """Return a time of LangSmith, which is UTC if it names no time zone."""
    return f"{time}Z" if isinstance(time, str) and not _ZONE.search(time) else time


def _kind(word: str, parent: Any) -> str | None:
    """Return the operation of a span of that kind; an unknown kind without a parent is assumed to be a whole agent."""
    return _KINDS.get(word, _AGENT if parent is None else None)


def _values(
    own: dict[str, Any], kind: str | None, model_input: Any, model_output: Any, beside: Mapping[str, Any]
) -> dict[str, Any]:
    if kind is None:
        return own
    if kind == _AGENT:  # its state holds the conversation
        state = _messages(object_of(parse_structured(model_output)).get("messages"))
        return own if state is None else {**own, _OPERATION: kind, "gen_ai.input.messages": state}
    attributes = model_call(model_input, model_output, beside) if kind == "chat" else tool(model_input, model_output)
    return {_OPERATION: kind, **attributes, **{key: value for key, value in own.items() if value is not None}}


def tool(tool_input: Any, tool_output: Any) -> dict[str, Any]:
    """Return the attributes of a tool's span with these arguments and this result."""
    arguments, result = parse_structured(tool_input), None if tool_output == "null" else unquote(tool_output)
    if isinstance(arguments, dict) and arguments.keys() == {"input"}:
        inner = parse_structured(arguments["input"])
        inner = literal_value(inner) if isinstance(inner, str) and inner[:1] == "{" else inner
        arguments = inner if isinstance(inner, dict) else arguments
    elif isinstance(arguments, str) and arguments[:1] == "{" and isinstance(inner := literal_value(arguments), dict):
        arguments = inner
    if isinstance(result, dict) and result.keys() == {"output"}:
        result = parse_structured(result["output"])
    result = (langchain.parse_printed(result) or result) if isinstance(result, str) else result
    attributes = {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result}
    answers = plain(result) if isinstance(result, dict) else None
    if answers and answers[0]["role"] == "tool" and text_of(answers[0].get("tool_call_id")):
        attributes["gen_ai.tool.call.id"] = answers[0]["tool_call_id"]
    return {key: value for key, value in attributes.items() if value is not None}


def model_call(model_input: Any, model_output: Any, beside: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the attributes of a model's span with this input and output; `beside` may hold its tools."""
    asked, parsed_output = parse_structured(model_input), parse_structured(model_output)
    before, answer = _messages(asked), _messages(parsed_output)
    tools = [message["content"] for message in before or () if _is_definition(message)]
    before = before and [message for message in before if not _is_definition(message)]
    if answer is None and before is not None and isinstance(parsed_output, str) and parsed_output:
        answer = [{"role": "assistant", "content": parsed_output}]
    attributes: dict[str, Any] = {"gen_ai.input.messages": before, "gen_ai.output.messages": answer}
    system = object_of(asked).get("system", object_of(object_of(asked).get("config")).get("system_instruction"))
    if isinstance(system, str) and before is not None:
        attributes["gen_ai.input.messages"] = [{"role": "system", "content": system}, *before]
    listed = tools or object_of(asked).get("tools") or (beside or {}).get("tools")
    if isinstance(listed, list):
        attributes["gen_ai.tool.definitions"] = [parse_structured(tool_definition) for tool_definition in listed]
    attributes["gen_ai.request.model"] = text_of(object_of(asked).get("model"))
    return {key: value for key, value in attributes.items() if value is not None}


def _is_definition(message: Mapping[str, Any]) -> bool:
    """Return True if a message is the definition of a tool, as Langfuse's client for Python writes them."""
    return message.get("role") == "tool" and "function" in object_of(message.get("content"))


def _messages(value: Any) -> list[dict[str, Any]] | None:
    """Find the messages in a model's input or output; None if there are none."""
    if isinstance(value, list):
        while len(value) == 1 and isinstance(value[0], list):
            value = value[0]  # a batch of one
        if objects_of(value) and all("toolCallId" in item and "toolName" in item for item in objects_of(value)):
            return [{"role": "assistant", "content": [{"type": "tool-call", **item} for item in objects_of(value)]}]
        listed = objects_of(value)
        return [_name_role(item) for item in listed] if listed and all(map(_is_message, listed)) else None
    state = object_of(value)
    if _is_message(state):
        return [_name_role(state)]
    for key, inner in (("choices", "message"), ("candidates", "content"), ("generations", "message")):
        first = state.get(key)
        while isinstance(first, list) and first:
            first = first[0]
        if isinstance(first, dict) and inner in first:
            return _messages(first[inner])
    if isinstance(state.get("prompt"), str):
        return [{"role": "user", "content": state["prompt"]}]
    keys = ("messages", "contents", "message", "content", "output")
    return next((messages for key in keys if key in state and (messages := _messages(state[key])) is not None), None)


def _name_role(message: dict[str, Any]) -> dict[str, Any]:
    """Set the role of a message whose role may be the name of a tool, as Langfuse's client for JavaScript writes it.

    The client for Python keeps calls where LangChain does.
    """
    role, extra = message.get("role"), object_of(message.get("additional_kwargs"))
    if isinstance(role, str) and role not in ROLES and plain(message) is None:
        return {**message, "role": "tool", "name": role}
    return {**message, "tool_calls": extra["tool_calls"]} if extra.get("tool_calls") and role else message


def _is_message(value: Mapping[str, Any]) -> bool:
    spoken = "content" in value or "parts" in value or "tool_calls" in value
    return (isinstance(value.get("role"), str) and spoken) or _is_item(value) or plain(value) is not None


def _is_item(value: Mapping[str, Any]) -> bool:
    return value.get("type") in ("function_call", "function_call_output", "reasoning")
