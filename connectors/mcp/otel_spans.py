"""Spans of OTLP JSON: attributes as plain values, and what GenAI spans say, as items of a conversation.

Read are the attributes of the GenAI semantic conventions (`gen_ai.input.messages`, `gen_ai.tool.call.arguments`, …,
from 1.37 on) and the numbered ones of OpenLLMetry (`gen_ai.prompt.0.content`). A message's parts are text, reasoning,
`tool_call` and `tool_call_response`. It groups no spans; see `otel_genai`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from connectors.mcp.llm_items import CALL, REASONING, RESULT, SYSTEM, TEXT, USER, Item, message_items
from connectors.mcp.wire_values import shallow_json
from connectors.records import json_value

_NUMBERED: Final = re.compile(
    r"gen_ai\.(prompt|completion)\.(\d{1,4})\.(role|content|tool_call_id|tool_calls\.(\d{1,3})\.(id|name|arguments))"
)
_LEVELS: Final = 64
_ERRORS: Final = (2, "2", "STATUS_CODE_ERROR", "ERROR")


@dataclass(frozen=True, slots=True)
class Span:
    """A span with plain attributes; `key` is its trace and its id, times are microseconds since 1970 UTC."""

    offset: int
    trace: str
    key: tuple[str, str]
    name: str
    begin: int | None
    end: int | None
    failed: bool
    message: str | None
    values: dict[str, Any]

    def packed(self) -> tuple[Any, ...]:
        """The span as plain values; see `unpacked`."""
        told = (self.offset, self.trace, self.key, self.name, self.begin, self.end, self.failed)
        return (*told, self.message, self.values)

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
    """The spans of an OTLP document in its order; what is no span is passed over."""
    for resource in _listed(document, "resourceSpans", "resource_spans", "batches"):
        for scope in _listed(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            for span in _listed(scope, "spans"):
                yield _span(offset, span)


def _listed(value: Any, *keys: str) -> Iterator[dict[str, Any]]:
    for key in keys:
        found = value.get(key) if isinstance(value, dict) else None
        if isinstance(found, list):
            yield from (one for one in found if isinstance(one, dict))
            return


def _span(offset: int, span: dict[str, Any]) -> Span:
    status = span.get("status")
    status = status if isinstance(status, dict) else {}
    message = status.get("message")
    trace = span.get("traceId", span.get("trace_id"))
    trace = trace if isinstance(trace, str) else ""
    return Span(
        offset=offset,
        trace=trace,
        key=(trace, str(span.get("spanId", span.get("span_id", "")))),
        name=str(span.get("name") or "")[:256],
        begin=_time(span.get("startTimeUnixNano", span.get("start_time_unix_nano"))),
        end=_time(span.get("endTimeUnixNano", span.get("end_time_unix_nano"))),
        failed=status.get("code") in _ERRORS,
        message=message if isinstance(message, str) and message else None,
        values=_attributes(span.get("attributes")),
    )


def _time(value: Any) -> int | None:
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    nanoseconds = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0
    return nanoseconds // 1000 if 10**16 <= nanoseconds < 10**19 else None


def _attributes(listed: Any) -> dict[str, Any]:
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
            text = str(one)
            return int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else None
        if kind in ("arrayValue", "array_value"):
            return [_plain(inner, levels - 1) for inner in _listed(one, "values")]
        if kind in ("kvlistValue", "kvlist_value"):
            pairs = _listed(one, "values")
            return {
                pair["key"]: _plain(pair.get("value"), levels - 1) for pair in pairs if isinstance(pair.get("key"), str)
            }
    return None


def structured(value: Any) -> Any:
    """An attribute that is structured, or JSON text of it."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json_value(value)
        except ValueError:
            return value
    return value


def history(span: Span) -> list[Item]:
    """What was said before the span's request, the system prompt first; empty where it was not captured."""
    told = structured(span.values.get("gen_ai.input.messages"))
    if told is None:
        return list(message_items(_numbered(span, "prompt")))
    system = structured(span.values.get("gen_ai.system_instructions"))
    parts = [{"type": "text", "content": system}] if isinstance(system, str) else system
    return [*_message({"role": "system", "parts": parts}), *_messages(told)]


def spoken(span: Span) -> list[Item]:
    """What the span's response says; of several choices the first."""
    told = structured(span.values.get("gen_ai.output.messages"))
    if told is None:
        answer = _numbered(span, "completion")[:1]
        return list(message_items([{**one, "role": "assistant"} for one in answer]))
    return list(_messages(told[:1] if isinstance(told, list) else told, "assistant"))


def _messages(told: Any, role: str | None = None) -> Iterator[Item]:
    for one in told if isinstance(told, list) else ():
        if isinstance(one, dict):
            yield from _message(one if role is None else {**one, "role": role})


def _message(one: dict[str, Any]) -> Iterator[Item]:
    parts = one.get("parts")
    if parts is None and "content" in one:
        yield from message_items([one])
        return
    role = one.get("role")
    kind = TEXT if role in ("assistant", "model") else SYSTEM if role in ("system", "developer") else USER
    for part in parts if isinstance(parts, list) else ():
        yield from _part(part, kind) if isinstance(part, dict) else ()


def _part(part: dict[str, Any], kind: str) -> Iterator[Item]:
    said = part.get("content", part.get("text"))
    if part.get("type") in ("tool_call", "tool_use"):
        if isinstance(part.get("name"), str):
            yield Item(
                CALL, None, part["name"], _word(part.get("id")), written(part.get("arguments", part.get("input")))
            )
    elif part.get("type") in ("tool_call_response", "tool_result"):
        answer = next((part[key] for key in ("response", "result", "content") if part.get(key) is not None), None)
        yield Item(RESULT, written(answer) or "", None, _word(part.get("id")))
    elif part.get("type") in ("reasoning", "thinking"):
        yield from [Item(REASONING, said)] if isinstance(said, str) and said else []
    elif isinstance(said, str) and said:
        yield Item(kind, said)


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def written(value: Any) -> str | None:
    """A captured value as text: as it is, or its JSON text; None if it is empty."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else shallow_json(value)


def _numbered(span: Span, which: str) -> list[dict[str, Any]]:
    """The messages of numbered attributes, as those of a chat completion."""
    found: dict[int, dict[str, Any]] = {}
    calls: dict[tuple[int, int], dict[str, Any]] = {}
    for key, value in span.values.items():
        match = _NUMBERED.fullmatch(key)
        if match is None or match[1] != which:
            continue
        place = int(match[2])
        message = found.setdefault(place, {})
        if match[4] is None:
            message[match[3]] = structured(value) if match[3] == "content" else value
            continue
        call = calls.setdefault((place, int(match[4])), {"function": {}})
        if match[5] == "id":
            call["id"] = value
        else:
            call["function"][match[5]] = value
    for (place, _), call in sorted(calls.items(), key=lambda pair: pair[0]):
        found[place].setdefault("tool_calls", []).append(call)
    return [found[place] for place in sorted(found)]
