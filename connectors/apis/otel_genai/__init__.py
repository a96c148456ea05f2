r"""Spans of language model agents: OTLP JSON, spans as exporters print them, and exports of trace stores.

>>> show(OtelGenai(), r'''
... {"resourceSpans": [{"scopeSpans": [{"spans": [
...     {"traceId": "t2", "spanId": "1", "name": "execute_tool look", "startTimeUnixNano": "1700000000010000000",
...      "endTimeUnixNano": "1700000000015000000", "attributes": [
...         {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
...         {"key": "gen_ai.tool.name", "value": {"stringValue": "look"}},
...         {"key": "gen_ai.tool.call.arguments", "value": {"stringValue": "{\"bed\": 2}"}},
...         {"key": "gen_ai.tool.call.result", "value": {"stringValue": "dry"}}]}]}]}]}
... ''')
action  | {"name": "look", "arguments": {"bed": 2}}
after   | dry

Exports of Langfuse, LangSmith, Phoenix and MLflow hold the same facts in their own terms (see `exports` and `kin`):

>>> show(OtelGenai(), r'''
... {"id": "t3", "observations": [
...     {"id": "g", "type": "GENERATION", "name": "chat", "startTime": "2025-03-01T10:00:00Z",
...      "input": [{"role": "user", "content": "How is bed 2?"}], "output": {"role": "assistant", "tool_calls": [
...          {"id": "k", "type": "function", "function": {"name": "look", "arguments": "{\"bed\": 2}"}}]}},
...     {"id": "o", "type": "TOOL", "name": "look", "startTime": "2025-03-01T10:00:01Z",
...      "input": {"bed": 2}, "output": "dry"}]}
... ''')
action  | {"name": "look", "arguments": {"bed": 2}}
after   | dry

Spans with one `gen_ai.conversation.id`, else of one trace, are one conversation.

- If the spans of model calls hold the messages (as attributes, events or log records, see `events`), the conversation
  is assembled from these: each request repeats the earlier messages. An `execute_tool` span provides the times of its
  call, and the result if no later request holds it.
- If they hold none, each `execute_tool` span is a step and a turn of its own, in the order of the file, in which spans
  are listed by their ends.
- Spans of whole agents are read if no model call holds messages.

A span that was exported twice counts once. Of two nested spans of one model call, the inner one counts.

Messages are captured only by choice: spans without content, and tools without arguments, are rejected rather than read
as calls without arguments. Agents within agents are conversations of their own, without their parents.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple

from trajmill.connectors.apis.otel_genai.events import parse_structured
from trajmill.connectors.apis.otel_genai.span_values import (
    Span,
    history,
    response_parts,
    result_of,
    spans,
    text_of_value,
)
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.calls import MessageError, call
from trajmill.connectors.conversation.declared_tools import declare
from trajmill.connectors.conversation.exchanges import Chain, Chains, Settled, settle_parts
from trajmill.connectors.conversation.history import canonical
from trajmill.connectors.conversation.refusals import reject_unmatched
from trajmill.connectors.conversation.steps import is_answered_call
from trajmill.connectors.conversation.turns import Call, Part, Result, Text, Thought, Unlogged
from trajmill.connectors.reading.arrays import with_places
from trajmill.connectors.reading.documents import iterate_values, json_document
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.lines import first_line, json_lines
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import Agent, Context, ParseError, Pile, Reject, Step, Task, Trajectory

_MODEL_CALLS: Final = frozenset({"chat", "generate_content", "text_completion", "completion"})
_TOOL: Final = "execute_tool"
_AGENT: Final = "invoke_agent"
_KEYS: Final = ("resourceSpans", "resource_spans", "batches", "resourceLogs", "resource_logs")
_METRICS: Final = ("resourceMetrics", "resource_metrics")
"""Keys of measurements, which a collector writes into the same file."""

_EXPORTS: Final = (
    ("observations of Langfuse", (b'"startTime"', b'"GENERATION"'), (b'"observations"', b'"parentObservationId"')),
    ("runs of LangSmith", (b'"run_type"', b'"inputs"'), (b'"start_time"',)),
    ("spans of MLflow", (b'"mlflow.spanType"',), (b'"span_id"',)),
    ("spans of Phoenix", (b'"context"', b'"attributes"', b'"span_id"'), (b'"openinference"', b'"span_kind"')),
)
"""Kinds of exports, with the keys that all have, and the keys of which each has one."""

_PRINTED: Final = (
    (b'"trace_id"', b'"span_id"', b'"context"', b'"attributes"'),
    (b'"traceId"', b'"spanId"', b'"startTime"', b'"attributes"'),
)
_OURS: Final = (b'"gen_ai.', b'"openinference.', b'"traceloop.', b'"ai.toolCall.')


_SPAN_ID: Final = re.compile(rb'"span_id"\s*:\s*["n]')
"""Id of a span, which in a description of an API is an object."""


def _has_ours(head: bytes) -> bool:
    return any(map(head.__contains__, _OURS))


class OtelGenai(Connector):
    """Spans of the GenAI semantic conventions, and of conventions with the same content."""

    name: ClassVar[str] = "otel_genai"
    version: ClassVar[str] = "16"
    domains: ClassVar[tuple[str, ...]] = ("mcp", "search")
    title: ClassVar[str] = "spans of agents (OpenTelemetry GenAI, Langfuse, LangSmith, Phoenix, MLflow)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        begin = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if begin[:1] == b"{" and any(f'"{key}"'.encode() in begin[:64] for key in (*_KEYS, *_METRICS)):
            if _has_ours(head):
                return Sniff(0.95, "OTLP spans with gen_ai attributes")
            return Sniff(0.4, "OTLP spans") if b'pans"' in head else None
        if begin[:1] in (b"{", b"[") and (_SPAN_ID.search(head) or b'"span_id"' not in head):
            if any(all(key in head for key in keys) for keys in _PRINTED) and _has_ours(head):
                return Sniff(0.9, "printed spans with gen_ai attributes")
            for name, keys, alternatives in _EXPORTS:
                if all(key in head for key in keys) and any(key in head for key in alternatives):
                    return Sniff(0.9, name)
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        all_spans = Pile(Span.packed, Span.unpacked)
        end = 0
        for offset, value in _documents(blob):
            if isinstance(value, ParseError):
                yield Reject.of(value, connector=self.name)
            else:
                for span in spans(offset, value):
                    all_spans.append(span, offset - end)
                    end = offset
        found_any = False
        for key, places in _groups(all_spans).items():
            group = _Group()
            for index in _in_order(all_spans, places):
                group.take(all_spans[index])
            for record in _read(group, key, blob.uri, self.name):
                found_any = found_any or isinstance(record, Trajectory)
                yield record
        if not found_any:
            raise ParseError(blob.uri, -1, "no_transitions", "no span holds a call of a tool with its result")


def _in_order(all_spans: Sequence[Span], places: Sequence[int]) -> Sequence[int]:
    """Return the indices of spans in the order of the log, or by time if the log has no order of its own."""
    if not all_spans[places[0]].exported:
        return places
    return sorted(places, key=lambda index: all_spans[index].begin or 0)


def _documents(blob: Blob) -> Iterator[tuple[int, Any]]:
    """Yield (offset, document) of each line, or of each resource of a log that is one document."""
    first = first_line(blob)
    by_line = first is not None and first.ended
    if first is not None and first.data is not None:
        try:
            json_value(first.data)
        except ValueError:
            by_line = False
    if by_line:
        yield from json_lines(blob)
        return
    try:
        value, data = json_document(blob)
    except ParseError as error:
        data = blob.read()
        if error.reason != "bad_json" or b'"span_id"' not in data:
            raise
        yield from iterate_values(data, blob.uri)
        return
    if isinstance(value, list) or (isinstance(value, dict) and isinstance(value.get("context"), dict)):
        yield 0, value
        return
    keys = [key for key in _KEYS if isinstance(value, dict) and isinstance(value.get(key), list)]
    if not keys and not isinstance(value, dict):
        raise ParseError(blob.uri, 0, "bad_record", "wanted a list of resourceSpans")
    if not keys:
        yield 0, value
    for key in keys:
        for offset, resource in with_places(data, value[key], (key,)):
            yield offset, {key: [resource]}


@dataclass(slots=True)
class _Group:
    """The GenAI spans of one conversation, in the order of the log."""

    chats: list[Span] = field(default_factory=list)
    tools: list[Span] = field(default_factory=list)
    agents: list[Span] = field(default_factory=list)
    records: dict[str, list[Span]] = field(default_factory=dict)
    agent: Agent = field(default_factory=Agent)

    def take(self, span: Span) -> None:
        """Process a span or a log record; one outside of the GenAI conventions is ignored."""
        if span.record:
            if span.events or span.values:
                self.records.setdefault(span.key[1], []).append(span)
            return
        operation = span.text("gen_ai.operation.name", "llm.request.type")
        if operation == _TOOL or (operation is None and span.name.startswith(_TOOL + " ")):
            self.tools.append(span)
        elif operation in _MODEL_CALLS or (operation is None and span.events):
            self.chats.append(span)
        elif operation == _AGENT:
            self.agents.append(span)
        name = self.agent.name or span.text("gen_ai.agent.name")
        version = self.agent.version or span.text("gen_ai.agent.version")
        model = self.agent.model or span.text("gen_ai.response.model", "gen_ai.request.model")
        self.agent = Agent(name, version, model)

    def talks(self) -> Iterator[_Talk]:
        """Yield the spans with messages, with their log records; spans of agents only if no model call has messages."""
        records = dict(self.records)
        chats = [_add_records(span, records.pop(span.key[1], [])) for span in self.chats]
        chats += [
            _add_records(replace(span_records[0], record=False, events=()), span_records)
            for span_records in records.values()
        ]
        talks = [talk for talk in map(_talk, chats) if talk.before or talk.said or talk.error is not None]
        parents = {talk.span.parent for talk in talks}
        yield from (talk for talk in talks if talk.span.key[1] not in parents)
        for talk in () if talks else map(_talk, self.agents):
            if talk.before or talk.said or talk.error is not None:
                yield talk


class _Talk(NamedTuple):
    """A span with the messages before its request, and the answer."""

    span: Span
    before: list[Part]
    said: list[Part]
    error: MessageError | None = None


_Own = dict[tuple[str, int], Span]
"""Spans of tools by the id of their call, and how often that id was met; some frameworks give a tool's name as id."""


def _talk(span: Span) -> _Talk:
    try:
        return _Talk(span, history(span), response_parts(span))
    except MessageError as error:
        return _Talk(span, [], [], error)


def _add_records(span: Span, records: list[Span]) -> Span:
    """Add the values and events of its log records to a span."""
    values = {key: value for record in records for key, value in record.values.items()}
    events = tuple(event for record in records for event in record.events)
    return replace(span, values={**values, **span.values}, events=(*span.events, *events)) if records else span


def _groups(all_spans: Sequence[Span]) -> dict[str, array[int]]:
    """Return the indices of each group's spans in log order; without a conversation, of its trace's first.

    A span that was logged twice counts once.
    """
    traces: dict[str, str] = {}
    texts: dict[str, str] = {}  # each text once, since they stand in many spans
    names: list[tuple[str, str | None]] = []
    seen: set[tuple[str, str]] = set()
    first_indices = array("q")
    for index, span in enumerate(all_spans):
        conversation = span.text("gen_ai.conversation.id")
        named = None if conversation is None else texts.setdefault(conversation, conversation)
        trace, key = texts.setdefault(span.trace, span.trace), span.key[1]
        if named is not None:
            traces.setdefault(trace, named)
        if span.record or (trace, key) not in seen:
            if key and not span.record:
                seen.add((trace, key))
            first_indices.append(index)
            names.append((trace, named))
    groups: dict[str, array[int]] = {}
    for index, (trace, named) in zip(first_indices, names, strict=True):
        groups.setdefault(named or traces.get(trace, trace), array("q")).append(index)
    return groups


def _read(group: _Group, key: str, uri: str, connector: str) -> Iterator[Trajectory | Reject]:
    """Yield the trajectories of a group of spans."""
    chains = Chains()
    for span, before, answer, error in group.talks():
        if error is not None:
            yield Reject("record", error.reason, error.detail, uri, "", span.offset, connector)
            continue
        chain = chains.add(span.offset, before, answer)
        tools = parse_structured(span.values.get("gen_ai.tool.definitions"))
        declare(chain.tools, tools if isinstance(tools, list) else ())
    left = list(group.tools)
    yielded = 0
    for chain in chains.chains:
        parts, own = _with_results(chain, left)
        dialog = settle_parts(parts)
        for result in dialog.lost:
            yield reject_unmatched(uri, connector, result)
        if any(map(is_answered_call, dialog.steps)):
            yield _conversation(chain, dialog, own, group, f"{key}/{yielded}")
            yielded += 1
            continue
        reason = ("no_results", "a conversation without an answered call")
        if not any(isinstance(part, Call) for part in parts):
            reason = ("no_calls", "a conversation without a call")
        yield Reject("trajectory", *reason, uri, "", chain.offset, connector, transitions=len(dialog.steps))
    yield from _alone(left, group, f"{key}/{yielded}", uri, connector)


def _alone(left: list[Span], group: _Group, native_id: str, uri: str, connector: str) -> Iterator[Trajectory | Reject]:
    """Yield the trajectory of the tool spans that belong to no conversation."""
    alone: list[Span] = []
    parts: list[Part] = []
    for span in left:
        if span.values.get("gen_ai.tool.call.arguments") is None:
            detail = f"the span '{span.name:.80}' does not hold the arguments of the call"
            yield Reject("record", "not_captured", detail, uri, "", span.offset, connector)
            continue
        try:
            parts += _parts(span)
        except MessageError as error:
            yield Reject("record", error.reason, error.detail, uri, "", span.offset, connector)
        else:
            alone.append(span)
    dialog = settle_parts(parts)
    if any(map(is_answered_call, dialog.steps)):
        steps = [_set_times(step, span) for step, span in zip(dialog.steps, alone, strict=True)]
        yield Trajectory(native_id, dialog.conversation.domain, steps, agent=group.agent)
    elif alone:
        reason = ("no_results", "tools without a captured result")
        yield Reject("trajectory", *reason, uri, "", alone[0].offset, connector, transitions=len(alone))


def _conversation(chain: Chain, dialog: Settled, own: _Own, group: _Group, native_id: str) -> Trajectory:
    seen: Counter[str] = Counter()
    steps = [_set_times(step, own.get(_nth(step.action.call_id, seen))) for step in dialog.steps]
    return Trajectory(
        native_id=native_id,
        domain=dialog.conversation.domain,
        steps=steps,
        agent=group.agent,
        task=Task(instruction=dialog.conversation.instruction),
        context=Context(
            action_space=shallow_json(chain.tools) if chain.tools else None,
            agent_system=dialog.conversation.system,
        ),
    )


def _set_times(step: Step, span: Span | None) -> Step:
    return step if span is None else replace(step, started_at=span.begin, duration_s=span.seconds)


def _nth(call_id: str | None, seen: Counter[str]) -> tuple[str, int]:
    """Return the key of a call in `_Own`, which counts the calls of its id."""
    seen[call_id or ""] += 1
    return call_id or "", seen[call_id or ""]


def _with_results(chain: Chain, left: list[Span]) -> tuple[list[Part], _Own]:
    """Return the parts of a conversation with the results that only tool spans hold, and the spans by call.

    The spans that belong to calls of the conversation are removed from `left`.
    """
    known = _known_results(chain.parts)
    parts: list[Part] = []
    waiting: list[Part] = []
    own: _Own = {}
    seen: Counter[str] = Counter()
    for position, part in enumerate(chain.parts):
        if not isinstance(part, Text | Thought | Call):
            parts += waiting
            waiting = []
        if isinstance(part, Result) and part.is_error is None:
            span = own.get((part.call_id or "", seen[part.call_id or ""])) if part.call_id else None
            parts.append(part if span is None else replace(part, is_error=span.failed))
            continue
        parts.append(part)
        if not isinstance(part, Call):
            continue
        key, answer = _nth(part.call_id, seen), known.get(position)
        tool_span = _span_of(part, left, None if answer is None else answer.content)
        if tool_span is None:
            continue
        left.remove(tool_span)
        if part.call_id is not None:
            own[key] = tool_span
        result = _result(tool_span, part)
        if answer is None and result is not None:
            waiting.append(result)
    return parts + waiting, own


def _known_results(parts: Sequence[Part]) -> dict[int, Result]:
    """Return the result of each call that has one in the conversation, by the call's position.

    Results without an id answer all calls without one.
    """
    known: dict[int, Result] = {}
    waiting: dict[str, int] = {}
    nameless = next((part for part in reversed(parts) if isinstance(part, Result) and part.call_id is None), None)
    for position, part in enumerate(parts):
        if isinstance(part, Call) and part.call_id is None:
            known |= {} if nameless is None else {position: nameless}
        elif isinstance(part, Call) and part.call_id is not None:
            waiting[part.call_id] = position
        elif isinstance(part, Result) and part.call_id in waiting:
            known[waiting.pop(part.call_id)] = part
    return known


def _span_of(call: Call, left: list[Span], answer: str | None) -> Span | None:
    """Find the first span of a call: by its id, else by name and arguments, or by name and the known answer."""
    for span in left:
        if span.call_id is not None and call.call_id is not None:
            if span.call_id == call.call_id:
                return span
        elif _name(span) == call.name and (_has_arguments(span, call) or _has_answer(span, call, answer)):
            return span
    return None


def _has_answer(span: Span, call: Call, answer: str | None) -> bool:
    """Return True if a span that states no arguments as an object has the answer of a call of the same name."""
    if answer is None or isinstance(parse_structured(span.values.get("gen_ai.tool.call.arguments")), dict):
        return False
    result = _result(span, call)
    return result is not None and result.content == answer


def _has_arguments(span: Span, call: Call) -> bool:
    """Return True if a span has the arguments of a call of the same name."""
    try:
        return canonical(_call(span).arguments) == canonical(call.arguments)
    except MessageError:
        return False


def _parts(span: Span) -> list[Part]:
    """Return the call and the result of a tool span.

    Raises:
        MessageError: the span names no tool, or its arguments nest too deeply.
    """
    called = _call(span)
    return [called, _result(span, called) or Unlogged(span.offset)]


def _name(span: Span) -> str:
    return span.text("gen_ai.tool.name") or span.name.removeprefix(_TOOL + " ")


def _call(span: Span) -> Call:
    """Return the call of a tool span."""
    arguments = text_of_value(span.values.get("gen_ai.tool.call.arguments"))
    return call(_name(span), arguments, span.call_id, span.offset)


def _result(span: Span, called: Call) -> Result | None:
    """Return the result that the span states for the call; None if it was not captured."""
    captured = span.values.get("gen_ai.tool.call.result")
    if captured is None and span.failed:
        captured = span.message or span.text("error.type")
    return None if captured is None else result_of(captured, called.name, called.call_id, span.offset, span.failed)
