"""OpenTelemetry GenAI spans."""

import json
from typing import Any

import pytest

from tests.connectors.wire_logs import after, lines, parse, seen
from trajmill.connectors.apis.otel_genai import OtelGenai
from trajmill.connectors.registry import sniff


def span(key, name, values, trace="t", status=None):
    listed = [{"key": attribute, "value": {"stringValue": value}} for attribute, value in values.items()]
    times = {"startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000500000000"}
    return {"traceId": trace, "spanId": key, "name": name, "attributes": listed, "status": status or {}, **times}


def document(*spans):
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def tool(key, name, result, **more):
    values = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.arguments": "{}"}
    values |= {} if result is None else {"gen_ai.tool.call.result": result}
    return span(key, f"execute_tool {name}", values, **more)


CALL = {"id": "k", "type": "function", "function": {"name": "look", "arguments": '{"bed": 1}'}}


def with_events(key, *events, **values):
    listed = [
        {
            "name": name,
            "attributes": [{"key": attribute, "value": {"stringValue": value}} for attribute, value in own.items()],
        }
        for name, own in events
    ]
    return {**span(key, "chat m", {"gen_ai.operation.name": "chat", **values}), "events": listed}


def asked_and_told(*spans):
    """The trajectories of spans in one document, each as (instruction, system, steps)."""
    trajectories, rejects, _ = parse("otel_genai", json.dumps(document(*spans)))
    assert not rejects
    return [
        (trajectory.task.instruction, trajectory.context.agent_system, seen(trajectory)) for trajectory in trajectories
    ]


WANTED = [("How is it?", "You garden.", [("look", "green"), ("message", None)])]


def test_messages_as_json_in_an_event_or_in_a_list_of_events_are_read_alike():
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You garden."},
        {"role": "user", "content": "How is it?"},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "id": "k", "content": "green"},
    ]
    last = {"role": "assistant", "content": "Well."}
    azure = [
        (f"gen_ai.{message['role']}.message", {"gen_ai.event.content": json.dumps(message)}) for message in messages
    ]
    azure.append(("gen_ai.choice", {"gen_ai.event.content": json.dumps({"message": last, "index": 0})}))
    assert asked_and_told(with_events("1", *azure)) == WANTED
    logfire: list[dict[str, Any]] = [
        {"event.name": f"gen_ai.{message['role']}.message", **message} for message in messages
    ]
    logfire.append({"event.name": "gen_ai.choice", "index": 0, "message": last})
    assert asked_and_told(with_events("1", events=json.dumps(logfire))) == WANTED
    messages[3] |= {"tool_call_id": "k"}
    prompt = ("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps(messages)})
    completion = ("gen_ai.content.completion", {"gen_ai.completion": json.dumps([last])})
    assert asked_and_told(with_events("1", prompt, completion)) == WANTED
    parts = [
        {"role": "system", "parts": [{"type": "text", "content": "You garden."}]},
        {"role": "user", "parts": [{"type": "text", "content": "How is it?"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "k", "name": "look", "arguments": {"bed": 1}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "k", "response": "green"}]},
    ]
    output = [{"role": "assistant", "parts": [{"type": "text", "content": "Well."}]}]
    details = {"gen_ai.input.messages": json.dumps(parts), "gen_ai.output.messages": json.dumps(output)}
    assert asked_and_told(with_events("1", ("gen_ai.client.inference.operation.details", details))) == WANTED


def test_messages_that_are_log_records_belong_to_the_span_of_their_ids():
    def value(item):
        if isinstance(item, dict):
            return {"kvlistValue": {"values": [{"key": key, "value": value(inner)} for key, inner in item.items()]}}
        if isinstance(item, list):
            return {"arrayValue": {"values": [value(inner) for inner in item]}}
        return {"stringValue": item}

    def record(key, name, body):
        return {"traceId": "t", "spanId": key, "eventName": name, "body": value(body), "attributes": []}

    records = [
        record("1", "gen_ai.system.message", {"content": "You garden."}),
        record("1", "gen_ai.user.message", {"content": "How is it?"}),
        record("1", "gen_ai.choice", {"index": "0", "message": {"role": "assistant", "tool_calls": [CALL]}}),
        record("2", "gen_ai.system.message", {"content": "You garden."}),
        record("2", "gen_ai.user.message", {"content": "How is it?"}),
        record("2", "gen_ai.assistant.message", {"tool_calls": [CALL]}),
        record("2", "gen_ai.tool.message", {"content": "green", "id": "k"}),
        record("2", "gen_ai.choice", {"index": "0", "message": {"role": "assistant", "content": "Well."}}),
    ]
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    bare = document(*(span(key, "chat m", {"gen_ai.operation.name": "chat"}) for key in ("1", "2")))
    for text in (json.dumps(logs), lines(logs, bare), lines(bare, logs), json.dumps({**bare, **logs})):
        trajectories, rejects, _ = parse("otel_genai", text)
        assert [
            (trajectory.task.instruction, trajectory.context.agent_system, seen(trajectory))
            for trajectory in trajectories
        ] == WANTED
        assert not rejects


def test_the_attributes_of_kin_are_read_as_those_of_the_conventions():
    open_inference = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m",
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "You garden.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.contents.0.message_content.type": "text",
        "llm.input_messages.1.message.contents.0.message_content.text": "How is it?",
        "llm.input_messages.2.message.role": "assistant",
        "llm.input_messages.2.message.tool_calls.0.tool_call.id": "k",
        "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "look",
        "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"bed": 1}',
        "llm.input_messages.3.message.role": "tool",
        "llm.input_messages.3.message.tool_call_id": "k",
        "llm.input_messages.3.message.content": "green",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Well.",
        "llm.tools.0.tool.json_schema": '{"name": "look"}',
    }
    assert asked_and_told(span("1", "ChatCompletion", open_inference)) == WANTED
    trajectories, _, _ = parse("otel_genai", json.dumps(document(span("1", "ChatCompletion", open_inference))))
    assert (trajectories[0].agent.model, trajectories[0].context.action_space) == ("m", '[{"name": "look"}]')
    prompt = [
        {"role": "system", "content": "You garden."},
        {"role": "user", "content": [{"type": "text", "text": "How is it?"}]},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "k", "toolName": "look", "input": {}}]},
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "k",
                    "toolName": "look",
                    "output": {"type": "text", "value": "green"},
                }
            ],
        },
    ]
    sdk = {"ai.prompt.messages": json.dumps(prompt), "ai.response.text": "Well."}
    assert asked_and_told(span("1", "ai.generateText.doGenerate", sdk)) == WANTED


def test_tools_of_kin_are_calls_with_what_they_gave():
    variants = [
        {"openinference.span.kind": "TOOL", "tool.name": "look", "input.value": "{}", "output.value": "green"},
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "look",
            "traceloop.entity.input": '{"inputs": {}}',
            "traceloop.entity.output": '{"outputs": "green"}',
        },
        {"ai.toolCall.name": "look", "ai.toolCall.args": "{}", "ai.toolCall.result": '"green"'},
        {"gen_ai.tool.name": "look", "tool_arguments": "{}", "tool_response": "green"},
    ]
    trajectories, rejects, _ = parse(
        "otel_genai", json.dumps(document(*(span(str(at), "x", attributes) for at, attributes in enumerate(variants))))
    )
    assert seen(trajectories[0]) == [("look", "green")] * 4
    assert {step.action.arguments for step in trajectories[0].steps} == {"{}"}
    assert not rejects


def test_spans_that_were_printed_to_a_console_are_read_one_after_the_other():
    def printed(key, result):
        values = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
        values |= {"gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": result}
        return {
            "name": "execute_tool look",
            "context": {"trace_id": "0x1", "span_id": key, "trace_state": "[]"},
            "start_time": "2025-06-01T10:00:00.000000Z",
            "end_time": "2025-06-01T10:00:01.500000Z",
            "status": {"status_code": "ERROR", "description": "no"},
            "attributes": values,
            "events": [],
        }

    both = [printed("0x2", "green"), printed("0x3", "red")]
    for text in ("\n".join(json.dumps(entry, indent=4) for entry in both), json.dumps(both), lines(*both)):
        trajectories, rejects, _ = parse("otel_genai", text)
        assert seen(trajectories[0]) == [("look", "green"), ("look", "red")]
        assert [step.duration_s for step in trajectories[0].steps] == [1.5, 1.5]
        assert after(trajectories[0].steps[0]).is_error
        assert not rejects


def test_a_result_of_mcp_stands_with_its_texts_and_files_and_an_empty_one_as_such():
    blocks = [{"type": "text", "text": "green"}, {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]
    answer = json.dumps({"content": blocks, "isError": True})
    trajectories, _, _ = parse("otel_genai", json.dumps(document(tool("1", "a", answer), tool("2", "b", ""))))
    first, second = (after(step) for step in trajectories[0].steps)
    assert (first.content, first.is_error, [attachment.media_type for attachment in first.attachments]) == (
        "green",
        True,
        ["image/png"],
    )
    assert (second.content, second.is_error) == ("", False)
    parts = [
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "k", "name": "a", "arguments": ""}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "k", "response": blocks}]},
    ]
    chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(parts)}
    trajectories, _, _ = parse("otel_genai", json.dumps(document(span("1", "chat m", chat))))
    shown = after(trajectories[0].steps[0])
    assert (shown.content, [attachment.role for attachment in shown.attachments]) == ("green", ["image"])


def openinference(key, kind, **values):
    named = {f"llm.{attribute}": value for attribute, value in values.items() if kind == "LLM"}
    return span(key, "look", {"openinference.span.kind": kind, **(named or values)})


@pytest.mark.parametrize(
    ("given", "gave"),
    [
        ("{'bed': 1}", "green"),
        ("1", "green"),
        ("1", '{"type": "tool", "data": {"content": "green", "tool_call_id": "k", "status": "success"}}'),
        ("1", "content='green' name='look' tool_call_id='k'"),
        ("1", '{"output": {"type": "tool", "content": "green", "tool_call_id": "k", "status": "success"}}'),
    ],
)
def test_a_tool_span_without_the_id_of_its_call_is_no_call_of_its_own(given, gave):
    call = "output_messages.0.message.tool_calls.0.tool_call"
    first = {f"{call}.id": "k", f"{call}.function.name": "look", f"{call}.function.arguments": '{"bed": 1}'}
    before = {"input_messages.0.message.role": "user", "input_messages.0.message.content": "How is it?"}
    asked = {f"input_messages.1.{key.partition('.0.')[2]}": value for key, value in first.items()}
    answered = {"input_messages.2.message.role": "tool", "input_messages.2.message.content": "green"}
    later = {**before, "input_messages.1.message.role": "assistant", **asked, **answered}
    later |= {"input_messages.2.message.tool_call_id": "k", "output_messages.0.message.content": "Well."}
    spans = (
        openinference("1", "LLM", **before, **first),
        openinference("2", "TOOL", **{"tool.name": "look", "input.value": given, "output.value": gave}),
        openinference("3", "LLM", **later),
    )
    assert asked_and_told(*spans) == [("How is it?", None, [("look", "green"), ("message", None)])]


def test_spans_of_phoenix_name_their_kind_beside_the_attributes_and_come_newest_first():
    def phoenix(key, kind, values):
        times = {"start_time": f"2025-06-01T10:00:0{key}Z", "end_time": f"2025-06-01T10:00:0{key}.500Z"}
        context = {"trace_id": "t", "span_id": key}
        return {"name": "look", "context": context, "span_kind": kind, **times, "attributes": values}

    first = {"tool.name": "look", "input.value": '{"bed": 1}', "output.value": "green"}
    second = {"tool.name": "look", "input.value": '{"bed": 2}', "output.value": "red"}
    both = [phoenix("2", "TOOL", second), phoenix("1", "TOOL", first), phoenix("0", "AGENT", {"input.value": "Hi"})]
    trajectories, rejects, _ = parse("otel_genai", json.dumps(both))
    assert [seen(trajectory) for trajectory in trajectories] == [[("look", "green"), ("look", "red")]]
    assert not rejects


def test_a_span_with_a_tool_and_the_id_of_its_call_is_the_tools():
    koog = {"gen_ai.tool.name": "look", "gen_ai.tool.call.id": "k", "input.value": "{}", "output.value": "green"}
    trajectories, _, _ = parse("otel_genai", json.dumps(document(span("1", "tool.look", koog))))
    assert seen(trajectories[0]) == [("look", "green")]


def test_a_request_with_nothing_but_the_answer_goes_on_with_the_conversation_of_the_call():
    def chat(key, asked, told):
        values = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps([told])}
        return span(key, "chat m", {"gen_ai.operation.name": "chat", **values})

    said = {"role": "user", "parts": [{"type": "text", "content": "How is it?"}]}
    called = {"role": "assistant", "parts": [{"type": "tool_call", "id": ["r", "k"], "name": "look", "arguments": {}}]}
    wrapped = json.dumps({"type": "function_result", "call_id": "k", "result": "green"})
    answered = {"role": "tool", "parts": [{"type": "tool_call_response", "id": ["r", "k"], "response": wrapped}]}
    last = {"role": "assistant", "parts": [{"type": "text", "content": "Well."}]}
    wanted = [("How is it?", None, [("look", "green"), ("message", None)])]
    assert asked_and_told(chat("1", [said], called), chat("2", [answered], last)) == wanted
    assert asked_and_told(chat("1", [said], called), chat("2", [called, answered], last)) == wanted


def test_calls_with_one_id_have_the_results_and_the_times_of_their_own_spans():
    def chat(key, asked, told):
        values = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps([told])}
        return span(key, "chat m", {"gen_ai.operation.name": "chat", **values})

    def called(bed):
        return {"type": "tool_call", "id": "look", "name": "look", "arguments": {"bed": bed}}

    def ran(key, result, begin):
        values = {"gen_ai.tool.call.id": "look", "gen_ai.tool.call.result": result}
        values["gen_ai.tool.call.arguments"] = json.dumps({"bed": int(key)})
        values |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
        return {**span(key, "execute_tool look", values), "startTimeUnixNano": begin}

    user = {"role": "user", "parts": [{"type": "text", "content": "How are they?"}]}
    first, second = ({"role": "assistant", "parts": [called(bed)]} for bed in (1, 2))
    green = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "look", "response": "green"}]}
    spans = (
        chat("a", [user], first),
        ran("1", "green", "1700000000100000000"),
        chat("b", [user, first, green], second),
        ran("2", "red", "1700000000300000000"),
    )
    trajectories, _, _ = parse("otel_genai", json.dumps(document(*spans)))
    assert [seen(trajectory) for trajectory in trajectories] == [[("look", "green"), ("look", "red")]]
    assert [step.duration_s for step in trajectories[0].steps] == [0.4, 0.2]


def test_a_description_of_an_api_that_names_the_fields_of_spans_is_no_log():
    text, span_id = {"type": "string"}, {"span_id": {"type": "string"}}
    schema = {"properties": {"context": {"properties": span_id}, "span_kind": text, "attributes": {"type": "object"}}}
    described = {"openapi": "3.1.0", "components": {"schemas": {"Span": schema}}}
    assert OtelGenai().sniff(json.dumps(described).encode(), "openapi.json") is None


def test_spans_with_times_in_seconds_and_nanoseconds_one_per_line():
    values = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.arguments": "{}"}
    written = {
        "type": "span",
        "traceId": "t",
        "spanId": "1",
        "name": "execute_tool look",
        "startTime": [1785957615, 500000000],
        "endTime": [1785957617, 0],
        "attributes": {**values, "gen_ai.tool.call.result": "green"},
        "status": {"code": 0},
        "events": [],
    }
    text = lines(written, {**written, "spanId": "2"})
    (trajectory,), rejects, _ = parse("otel_genai", text)
    assert not rejects
    assert seen(trajectory) == [("look", "green"), ("look", "green")]
    assert [step.duration_s for step in trajectory.steps] == [1.5, 1.5]
    assert [one.name for one, _ in sniff(text.encode(), "spans.jsonl")] == ["otel_genai"]


def test_a_collector_may_write_measurements_before_spans():
    measured = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "gen_ai.client.token.usage"}]}]}]}
    text = lines(measured, document(tool("1", "look", "green")), measured)
    assert [one.name for one, _ in sniff(text.encode(), "all.jsonl")] == ["otel_genai"]
    (trajectory,), rejects, _ = parse("otel_genai", text)
    assert not rejects
    assert seen(trajectory) == [("look", "green")]
