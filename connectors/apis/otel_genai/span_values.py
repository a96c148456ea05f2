"""Spans of OTLP JSON: attributes as plain values, and what GenAI spans say, as parts of a conversation.

Read are the attributes of the GenAI semantic conventions (`gen_ai.input.messages`, `gen_ai.tool.call.arguments`, …,
from 1.37 on) and what was written before them and beside them (see `events`). A message's parts are text,
reasoning, `tool_call` and `tool_call_response`. It groups no spans; see `otel_genai`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from trajmill.connectors.apis.otel_genai.events import DETAILS, Event, messages_of, structured
from trajmill.connectors.apis.otel_genai.exports import observations, runs
from trajmill.connectors.apis.otel_genai.kin import flat, standard
from trajmill.connectors.conversation.answers import answer
from trajmill.connectors.conversation.calls import call
from trajmill.connectors.conversation.dialects import plain
from trajmill.connectors.conversation.failures import failed
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

    `record`: it is no span but a log record, with the one event that it tells of the span of its ids; `exported`: what
    holds it has no order of its own.
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
        """The span as plain values; see `unpacked`."""
        told = (self.offset, self.trace, self.key, self.name, self.begin, self.end, self.failed)
        return (*told, self.message, self.values, self.events, self.record, self.parent, self.exported)

    @classmethod
    def unpacked(cls, values: tuple[Any, ...]) -> Span:
        """The inverse of `packed`."""
        return cls(*values)

    def text(self, *keys: str) -> str | None:
        """The first of the attributes that is a text and not empty."""
        return next((told for key in keys if isinstance(told := self.values.get(key), str) and told), None)

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        known = self.begin is not None and self.end is not None and self.end >= self.begin
        return (self.end - self.begin) / 1e6 if known and self.end is not None and self.begin is not None else None


def spans(offset: int, document: Any) -> Iterator[Span]:
    """The spans and the events among the log records of a document, in its order; what is neither is passed over.

    A document is of OTLP, or a span or a list of spans as the exporters to a console, MLflow and Phoenix write them, or
    an export of Langfuse or LangSmith.
    """
    data = object_of(document).get("data")
    listed = data if isinstance(data, list) else object_of(data).get("spans", object_of(document).get("spans"))
    for one in objects_of(document if isinstance(document, list) else listed or [document]):
        if isinstance(one.get("attributes"), dict):
            yield replace(_span(offset, {**one, **object_of(one.get("context"))}), exported=listed is not None)
        for frame, values in (*observations(one), *runs(one)):
            made = _span(offset, frame)
            own = {key: value for key, value in values.items() if value is not None}
            yield replace(made, values={**standard(made.name, own, ()), **own}, exported=True)
    for resource in _listed(document, "resourceSpans", "resource_spans", "batches"):
        for scope in _listed(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            for span in _listed(scope, "spans"):
                yield _span(offset, span)
    for resource in _listed(document, "resourceLogs", "resource_logs"):
        for scope in _listed(resource, "scopeLogs", "scope_logs"):
            for told in _listed(scope, "logRecords", "log_records"):
                yield _record(offset, told)


def _listed(value: Any, *keys: str) -> Iterator[dict[str, Any]]:
    for key in keys:
        found = value.get(key) if isinstance(value, dict) else None
        if isinstance(found, list):
            yield from (one for one in found if isinstance(one, dict))
            return


def _span(offset: int, span: dict[str, Any]) -> Span:
    status = span.get("status")
    status = status if isinstance(status, dict) else {}
    message = status.get("message", status.get("description"))
    events = tuple((plain_text(one.get("name")), _attributes(one.get("attributes"))) for one in _listed(span, "events"))
    values = _attributes(span.get("attributes"))
    for name, told in events:
        values |= told if name == DETAILS else {}
    trace = _trace(span)
    return Span(
        offset=offset,
        trace=trace,
        key=(trace, plain_text(span.get("spanId", span.get("span_id", "")))),
        name=plain_text(span.get("name") or "")[:256],
        begin=_time(span.get("startTimeUnixNano", span.get("start_time_unix_nano", span.get("start_time")))),
        end=_time(span.get("endTimeUnixNano", span.get("end_time_unix_nano", span.get("end_time")))),
        failed=status.get("code", status.get("status_code", span.get("status_code"))) in _ERRORS,
        message=message if isinstance(message, str) and message else None,
        values=standard(plain_text(span.get("name") or ""), values, events),
        events=tuple(one for one in events if one[0].startswith("gen_ai.") and one[0] != DETAILS),
        parent=text_of(span.get("parentSpanId", span.get("parent_id", span.get("parent_span_id")))),
    )


def _trace(one: dict[str, Any]) -> str:
    trace = one.get("traceId", one.get("trace_id"))
    return trace if isinstance(trace, str) else ""


def _record(offset: int, record: dict[str, Any]) -> Span:
    """A log record as what it tells of its span."""
    values, body = _attributes(record.get("attributes")), _plain(record.get("body"))
    name = plain_text(record.get("eventName") or record.get("event_name") or values.get("event.name") or "")
    trace = _trace(record)
    told = {**values, **body} if isinstance(body, dict) else values
    return Span(
        offset=offset,
        trace=trace,
        key=(trace, plain_text(record.get("spanId", record.get("span_id", "")))),
        name=name[:256],
        begin=None,
        end=None,
        failed=False,
        message=None,
        values=told if name == DETAILS else {},
        events=((name, told),) if name.startswith("gen_ai.") and name != DETAILS else (),
        record=True,
    )


def _time(value: Any) -> int | None:
    """Microseconds since 1970 UTC of nanoseconds as a number or its digits, or of an ISO 8601 text."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not text.isdigit():
        return microseconds(text)
    nanoseconds = int(text) if text.isascii() and len(text) <= 20 else 0
    return nanoseconds // 1000 if 10**16 <= nanoseconds < 10**19 else None


def _attributes(listed: Any) -> dict[str, Any]:
    if isinstance(listed, dict):  # as the exporters to a console write them
        return flat(listed)
    found: dict[str, Any] = {}
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and isinstance(one.get("key"), str):
            found[one["key"]] = _plain(one.get("value"))
    return found


def _plain(value: Any, levels: int = _LEVELS) -> Any:
    """The plain value of an AnyValue of OTLP; integers may be texts there."""
    if not isinstance(value, dict) or levels == 0:
        return None
    for kind, one in value.items():
        if kind in ("stringValue", "string_value", "boolValue", "bool_value", "doubleValue", "double_value"):
            return one
        if kind in ("intValue", "int_value"):
            text = plain_text(one)
            return int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else None
        if kind in ("arrayValue", "array_value"):
            return [_plain(inner, levels - 1) for inner in _listed(one, "values")]
        if kind in ("kvlistValue", "kvlist_value"):
            pairs = _listed(one, "values")
            return {
                pair["key"]: _plain(pair.get("value"), levels - 1) for pair in pairs if isinstance(pair.get("key"), str)
            }
    return None


def history(span: Span) -> list[Part]:
    """What was said before the span's request, the system prompt first; empty where it was not captured.

    Raises:
        MessageError: a message has no known shape.
    """
    told = structured(span.values.get("gen_ai.input.messages"))
    if told is None:
        return parts_in(messages_of(span.values, span.events, "prompt"), span.offset)
    system = structured(span.values.get("gen_ai.system_instructions"))
    parts = [{"type": "text", "content": system}] if isinstance(system, str) else system
    found: list[Part] = []
    _message({"role": "system", "parts": parts}, span.offset, found)
    for one in objects_of(told):
        _message(one, span.offset, found)
    return found


def spoken(span: Span) -> list[Part]:
    """What the span's response says; of several choices the first. Errors as of `history`."""
    told = structured(span.values.get("gen_ai.output.messages"))
    if told is None:
        answer = messages_of(span.values, span.events, "completion")[:1]
        return parts_in([{**one, "role": "assistant"} for one in answer], span.offset)
    found: list[Part] = []
    if any("role" not in one and "content" not in one for one in objects_of(told)):  # items of the Responses API
        return parts_in(objects_of(told), span.offset)
    for one in objects_of(told)[:1]:
        _message(one if plain(one) else {**one, "role": "assistant"}, span.offset, found)
    return found


def _message(one: dict[str, Any], offset: int, found: list[Part]) -> None:
    """Adds the parts of a message in their order."""
    parts, role = one.get("parts"), one.get("role")
    if parts is None or plain(one) is not None or not all("type" in part for part in objects_of(parts)):
        found += parts_in([one], offset)
        return
    for part in objects_of(parts):
        kind, text = part.get("type"), part.get("content", part.get("text"))
        if kind in ("tool_call", "tool_use"):
            given = part.get("arguments", part.get("input"))
            found.append(call(part.get("name"), structured(given), part.get("id"), offset))
        elif kind in ("tool_call_response", "tool_result"):
            told = next((part[key] for key in ("response", "result", "content") if part.get(key) is not None), "")
            found.append(result_of(told, None, key_of(part.get("id")), offset, failed(part)))
        elif not isinstance(text, str) or not text:
            continue
        elif kind in ("reasoning", "thinking"):
            found.append(Thought(text, offset))
        elif role in ("assistant", "model"):
            found.append(Text(text, offset))
        else:
            found.append(System(text) if role in ("system", "developer") else Said("user", text))


def result_of(value: Any, name: str | None, call_id: str | None, offset: int, failed: bool | None = None) -> Result:
    """What a call gave: texts and files of a result of MCP or of its blocks, else the value as text."""
    told, envelope_of = structured(value), None
    if isinstance(told, dict) and (message := plain(told)):  # of LangChain
        made = answer(message[0], offset, None)
        return replace(made, call_id=call_id, is_error=failed if made.is_error is None else made.is_error)
    if isinstance(told, dict) and told.keys() <= _RESULT and _are_blocks(told.get("content")):
        text, attached = tool_result(told)
        envelope_of, more = envelope(told, value.strip() if isinstance(value, str) else None)
        held = {one.sha256 for one in attached}
        attached += [one for one in more if one.sha256 not in held]
        failed = True if told.get("isError") is True else failed
    elif told and _are_blocks(told):
        texts, attached = blocks(told)
        text = "\n".join(texts) if texts or not attached else None
    else:
        text, attached = written(value) or "", []
    return Result(call_id, name, text, offset, failed, tuple(attached), envelope=envelope_of)


def _are_blocks(value: Any) -> bool:
    """Whether it is a list of content blocks as MCP has them."""
    return isinstance(value, list) and all(isinstance(one, dict) and one.get("type") in _BLOCKS for one in value)


def written(value: Any) -> str | None:
    """A captured value as text: as it is, or its JSON text; None if it is empty."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else shallow_json(value)
