"""Spans of OTLP JSON: attributes as plain values, and the content of GenAI spans as parts of a conversation.

The module reads the attributes of the GenAI semantic conventions (`gen_ai.input.messages`,
`gen_ai.tool.call.arguments`, …, from 1.37 on) and older and related forms (see `events`). A message's parts are text,
reasoning, `tool_call` and `tool_call_response`. It does not group spans; see `otel_genai`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from trajmill.connectors.apis.otel_genai.events import DETAILS, Event, messages_of, parse_structured
from trajmill.connectors.apis.otel_genai.exports import observations, runs
from trajmill.connectors.apis.otel_genai.kin import flatten_attributes, to_standard
from trajmill.connectors.conversation.answers import answer
from trajmill.connectors.conversation.calls import call
from trajmill.connectors.conversation.dialects import plain
from trajmill.connectors.conversation.failures import is_failure
from trajmill.connectors.conversation.mcp_content import blocks, tool_result
from trajmill.connectors.conversation.mcp_envelope import envelope
from trajmill.connectors.conversation.shapes import parts_in
from trajmill.connectors.conversation.turns import Part, Result, Said, System, Text, Thought
from trajmill.connectors.reading.fields import key_of, object_of, objects_of, plain_text, text_of
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.times import microseconds
from trajmill.schemas.record import record

_RESULT: Final = frozenset({"content", "isError", "structuredContent", "_meta", "meta"})
_BLOCKS: Final = ("text", "image", "audio", "resource", "resource_link")
_LEVELS: Final = 64
_ERRORS: Final = (2, "2", "STATUS_CODE_ERROR", "ERROR")
"""Words for a failed span."""


@record
class Span:
    """A span with plain attributes; `key` is its trace and its id, times are microseconds since 1970 UTC.

    `record`: this is a log record with one event of the span that has its ids; `exported`: the export has no order of
    its own.
    """

    offset: int
    trace: str
    key: tuple[str, str]
    name: str
    begin: int | None
    end: int | None
    failed: bool
    message: str | None
    values: dict[str, Any]
    events: tuple[Event, ...] = ()
    record: bool = False
    parent: str | None = None
    exported: bool = False

    def packed(self) -> tuple[Any, ...]:
        """Return the span as plain values; see `unpacked`."""
        first_cells = (self.offset, self.trace, self.key, self.name, self.begin, self.end, self.failed)
        return (*first_cells, self.message, self.values, self.events, self.record, self.parent, self.exported)

    @classmethod
    def unpacked(cls, values: tuple[Any, ...]) -> Span:
        """Invert `packed`."""
        return cls(*values)

    def text(self, *keys: str) -> str | None:
        """Return the first of the attributes that is a non-empty text."""
        return next((value for key in keys if isinstance(value := self.values.get(key), str) and value), None)

    @property
    def call_id(self) -> str | None:
        """Id of the call that the span executes."""
        return call_key(self.values.get("gen_ai.tool.call.id"))

    @property
    def seconds(self) -> float | None:
        """Duration in seconds; None if begin or end is unknown."""
        known = self.begin is not None and self.end is not None and self.end >= self.begin
        return (self.end - self.begin) / 1e6 if known and self.end is not None and self.begin is not None else None


def call_key(value: Any) -> str | None:
    """Return the id of a call; of a list, as the Agent Framework writes runs of the Assistants API, the last one."""
    return key_of(value[-1] if isinstance(value, list) and value else value)


def spans(offset: int, document: Any) -> Iterator[Span]:
    """Yield the spans, and the events among the log records, of a document in order; other content is skipped.

    A document is OTLP, or a span or a list of spans in the form of console exporters, MLflow and Phoenix, or an export
    of Langfuse or LangSmith.
    """
    data = object_of(document).get("data")
    listed = data if isinstance(data, list) else object_of(data).get("spans", object_of(document).get("spans"))
    for item in objects_of(document if isinstance(document, list) else listed or [document]):
        if isinstance(item.get("attributes"), dict):
            exported = listed is not None or "span_kind" in item
            yield replace(_span(offset, {**item, **object_of(item.get("context"))}), exported=exported)
            if "spanId" in item:
                continue
        for frame, values in (*observations(item), *runs(item)):
            exported_span = _span(offset, frame)
            own = {key: value for key, value in values.items() if value is not None}
            yield replace(exported_span, values={**to_standard(exported_span.name, own, ()), **own}, exported=True)
    for resource in _list_objects(document, "resourceSpans", "resource_spans", "batches"):
        for scope in _list_objects(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            for span in _list_objects(scope, "spans"):
                yield _span(offset, span)
    for resource in _list_objects(document, "resourceLogs", "resource_logs"):
        for scope in _list_objects(resource, "scopeLogs", "scope_logs"):
            for log_record in _list_objects(scope, "logRecords", "log_records"):
                yield _record(offset, log_record)


def _list_objects(value: Any, *keys: str) -> Iterator[dict[str, Any]]:
    for key in keys:
        entries = value.get(key) if isinstance(value, dict) else None
        if isinstance(entries, list):
            yield from (entry for entry in entries if isinstance(entry, dict))
            return


def _span(offset: int, span: dict[str, Any]) -> Span:
    status = span.get("status")
    status = status if isinstance(status, dict) else {}
    message = status.get("message", status.get("description"))
    events = tuple(
        (plain_text(event.get("name")), _attributes(event.get("attributes"))) for event in _list_objects(span, "events")
    )
    values = _attributes(span.get("attributes"))
    if (kind := span.get("span_kind")) is not None:  # Phoenix moves it out of the attributes
        values.setdefault("openinference.span.kind", kind)
    for name, details in events:
        values |= details if name == DETAILS else {}
    trace = _trace(span)
    return Span(
        offset=offset,
        trace=trace,
        key=(trace, plain_text(span.get("spanId", span.get("span_id", "")))),
        name=plain_text(span.get("name") or "")[:256],
        begin=_time(_first(span, "startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime")),
        end=_time(_first(span, "endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime")),
        failed=status.get("code", status.get("status_code", span.get("status_code"))) in _ERRORS,
        message=message if isinstance(message, str) and message else None,
        values=to_standard(plain_text(span.get("name") or ""), values, events),
        events=tuple(event for event in events if event[0].startswith("gen_ai.") and event[0] != DETAILS),
        parent=text_of(span.get("parentSpanId", span.get("parent_id", span.get("parent_span_id")))),
    )


def _trace(span: dict[str, Any]) -> str:
    trace = span.get("traceId", span.get("trace_id"))
    return trace if isinstance(trace, str) else ""


def _record(offset: int, record: dict[str, Any]) -> Span:
    """Convert a log record to a span that holds its values."""
    values, body = _attributes(record.get("attributes")), _plain(record.get("body"))
    name = plain_text(record.get("eventName") or record.get("event_name") or values.get("event.name") or "")
    trace = _trace(record)
    attributes = {**values, **body} if isinstance(body, dict) else values
    return Span(
        offset=offset,
        trace=trace,
        key=(trace, plain_text(record.get("spanId", record.get("span_id", "")))),
        name=name[:256],
        begin=None,
        end=None,
        failed=False,
        message=None,
        values=attributes if name == DETAILS else {},
        events=((name, attributes),) if name.startswith("gen_ai.") and name != DETAILS else (),
        record=True,
    )


def _first(span: dict[str, Any], *keys: str) -> Any:
    return next((span[key] for key in keys if key in span), None)


def _time(value: Any) -> int | None:
    """Convert nanoseconds (a number or its digits), seconds and nanoseconds, or ISO 8601 to microseconds since 1970."""
    if isinstance(value, list) and len(value) == 2 and all(type(part) is int for part in value):
        value = value[0] * 10**9 + value[1]
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not text.isdigit():
        return microseconds(text)
    nanoseconds = int(text) if text.isascii() and len(text) <= 20 else 0
    return nanoseconds // 1000 if 10**16 <= nanoseconds < 10**19 else None


def _attributes(listed: Any) -> dict[str, Any]:
    if isinstance(listed, dict):  # as the exporters to a console write them
        return flatten_attributes(listed)
    by_key: dict[str, Any] = {}
    for pair in listed if isinstance(listed, list) else ():
        if isinstance(pair, dict) and isinstance(pair.get("key"), str):
            by_key[pair["key"]] = _plain(pair.get("value"))
    return by_key


def _plain(value: Any, levels: int = _LEVELS) -> Any:
    """Return the plain value of an AnyValue of OTLP, in which integers may be texts."""
    if not isinstance(value, dict) or levels == 0:
        return None
    for kind, inner_value in value.items():
        if kind in ("stringValue", "string_value", "boolValue", "bool_value", "doubleValue", "double_value"):
            return inner_value
        if kind in ("intValue", "int_value"):
            text = plain_text(inner_value)
            return int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else None
        if kind in ("arrayValue", "array_value"):
            return [_plain(inner, levels - 1) for inner in _list_objects(inner_value, "values")]
        if kind in ("kvlistValue", "kvlist_value"):
            pairs = _list_objects(inner_value, "values")
            return {
                pair["key"]: _plain(pair.get("value"), levels - 1) for pair in pairs if isinstance(pair.get("key"), str)
            }
    return None


def history(span: Span) -> list[Part]:
    """List the parts before the span's request, the system prompt first; empty if they were not captured.

    Raises:
        MessageError: a message has no known shape.
    """
    messages = parse_structured(span.values.get("gen_ai.input.messages"))
    if messages is None:
        return parts_in(messages_of(span.values, span.events, "prompt"), span.offset)
    system = parse_structured(span.values.get("gen_ai.system_instructions"))
    parts = [{"type": "text", "content": system}] if isinstance(system, str) else system
    all_parts: list[Part] = []
    _message({"role": "system", "parts": parts}, span.offset, all_parts)
    for message in objects_of(messages):
        _message(message, span.offset, all_parts)
    return all_parts


def response_parts(span: Span) -> list[Part]:
    """List the parts of the span's response, of the first of several choices. Errors as for `history`."""
    messages = parse_structured(span.values.get("gen_ai.output.messages"))
    if messages is None:
        answer = messages_of(span.values, span.events, "completion")[:1]
        return parts_in([{**message, "role": "assistant"} for message in answer], span.offset)
    all_parts: list[Part] = []
    if any(
        "role" not in message and "content" not in message for message in objects_of(messages)
    ):  # items of the Responses API
        return parts_in(objects_of(messages), span.offset)
    for message in objects_of(messages)[:1]:
        _message(message if plain(message) else {**message, "role": "assistant"}, span.offset, all_parts)
    return all_parts


def _message(message: dict[str, Any], offset: int, all_parts: list[Part]) -> None:
    """Append the parts of a message in order."""
    parts, role = message.get("parts"), message.get("role")
    if parts is None or plain(message) is not None or not all("type" in part for part in objects_of(parts)):
        all_parts += parts_in([message], offset)
        return
    for part in objects_of(parts):
        kind, text = part.get("type"), part.get("content", part.get("text"))
        if kind in ("tool_call", "tool_use"):
            arguments = part.get("arguments", part.get("input"))
            all_parts.append(call(part.get("name"), parse_structured(arguments), call_key(part.get("id")), offset))
        elif kind in ("tool_call_response", "tool_result"):
            content = next((part[key] for key in ("response", "result", "content") if part.get(key) is not None), "")
            all_parts.append(result_of(content, None, call_key(part.get("id")), offset, is_failure(part)))
        elif not isinstance(text, str) or not text:
            continue
        elif kind in ("reasoning", "thinking"):
            all_parts.append(Thought(text, offset))
        elif role in ("assistant", "model"):
            all_parts.append(Text(text, offset))
        else:
            all_parts.append(System(text) if role in ("system", "developer") else Said("user", text))


def result_of(value: Any, name: str | None, call_id: str | None, offset: int, failed: bool | None = None) -> Result:
    """Convert the result of a call: the texts and files of an MCP result or its blocks, else the value as text."""
    parsed, envelope_of = parse_structured(value), None
    if isinstance(parsed, dict) and parsed.get("type") == "function_result" and "result" in parsed:
        value = parsed["result"]  # the Agent Framework of Microsoft writes its own object around it
        parsed = parse_structured(value)
    if isinstance(parsed, dict) and (message := plain(parsed)):  # of LangChain
        message_answer = answer(message[0], offset, None)
        return replace(
            message_answer,
            call_id=call_id,
            is_error=failed if message_answer.is_error is None else message_answer.is_error,
        )
    if isinstance(parsed, dict) and parsed.keys() <= _RESULT and _are_blocks(parsed.get("content")):
        text, attached = tool_result(parsed)
        envelope_of, more = envelope(parsed, value.strip() if isinstance(value, str) else None)
        digests = {attachment.sha256 for attachment in attached}
        attached += [attachment for attachment in more if attachment.sha256 not in digests]
        failed = True if parsed.get("isError") is True else failed
    elif parsed and _are_blocks(parsed):
        texts, attached = blocks(parsed)
        text = "\n".join(texts) if texts or not attached else None
    else:
        text, attached = text_of_value(value) or "", []
    return Result(call_id, name, text, offset, failed, tuple(attached), envelope=envelope_of)


def _are_blocks(value: Any) -> bool:
    """Return True if the value is a list of MCP content blocks."""
    return isinstance(value, list) and all(isinstance(block, dict) and block.get("type") in _BLOCKS for block in value)


def text_of_value(value: Any) -> str | None:
    """Return a captured value as text: as it is, or its JSON text; None if it is empty."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else shallow_json(value)
