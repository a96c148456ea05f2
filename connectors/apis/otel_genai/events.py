"""Messages from events: GenAI spans before version 1.37 of the conventions, and related conventions.

Up to 1.36 a message is an event of its span, or a log record with the span's ids: `gen_ai.user.message`,
`gen_ai.tool.message`, `gen_ai.choice`, … The message is in its attributes, in its body, or JSON text under
`gen_ai.event.content`; Logfire keeps the list of messages as JSON text under `events`. Up to 1.27 one event holds all
messages (`gen_ai.content.prompt`). Since 1.37 an event may hold attributes that the span lacks. Numbered attributes are
those of OpenLLMetry (`gen_ai.prompt.0.content`) and of OpenInference (`llm.input_messages.0.message.content`).

The messages have the shapes of chat completions. This module reads no files and knows no spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from trajmill.connectors.reading.fields import plain_text
from trajmill.connectors.reading.values import json_value

Event = tuple[str, Mapping[str, Any]]
"""Name and attributes."""

DETAILS: Final = "gen_ai.client.inference.operation.details"
_MESSAGE: Final = re.compile(r"gen_ai\.(system|developer|user|assistant|tool)\.message")
_CHOICE: Final = "gen_ai.choice"
_WHOLE: Final = {
    "gen_ai.content.prompt": ("prompt", "gen_ai.prompt"),
    "gen_ai.content.completion": ("completion", "gen_ai.completion"),
}
_NUMBERED: Final = re.compile(
    r"(?:gen_ai\.(?P<old>prompt|completion)\.|llm\.(?P<kin>input|output)_messages\.)(?P<place>\d{1,4})\.(?:message\.)?"
    r"(?:(?P<field>role|content|tool_call_id|name)"
    r"|contents\.(?P<part>\d{1,3})\.message_content\.(?P<kind>type|text)"
    r"|tool_calls\.(?P<call>\d{1,3})\.(?:tool_call\.)?(?:function\.)?(?P<of>id|name|arguments))",
    re.ASCII,
)
_SIDES: Final = {"prompt": "prompt", "completion": "completion", "input": "prompt", "output": "completion"}


def parse_structured(value: Any) -> Any:
    """Parse an attribute that is JSON text of an object or a list; other values are returned unchanged."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json_value(value)
        except ValueError:
            return value
    return value


def unquote(value: Any) -> Any:
    """Parse like `parse_structured`, and also JSON text of a string, as the AI SDK writes results of tools."""
    if isinstance(value, str) and value[:1] == '"':
        try:
            return json_value(value)
        except ValueError:
            return value
    return parse_structured(value)


def messages_of(values: Mapping[str, Any], events: Iterable[Event], side: str) -> list[dict[str, Any]]:
    """Return the messages of a request (`prompt`) or its response (`completion`) in a span's events or attributes."""
    listed = parse_structured(values.get("events"))
    listed_events = (
        [
            (plain_text(attributes.get("event.name")), attributes)
            for attributes in listed
            if isinstance(attributes, dict)
        ]
        if isinstance(listed, list)
        else []
    )
    messages = [
        message for name, attributes in (*events, *listed_events) for message in _of_event(name, attributes, side)
    ]
    return messages or numbered_messages(values, side)


def _of_event(name: str, values: Mapping[str, Any], side: str) -> list[dict[str, Any]]:
    if name in _WHOLE:
        event_side, key = _WHOLE[name]
        return _attribute_messages(parse_structured(values.get(key)), side) if event_side == side else []
    match = _MESSAGE.fullmatch(name)
    if (side == "prompt") != (match is not None) or (match is None and name != _CHOICE):
        return []
    body = parse_structured(values.get("gen_ai.event.content"))
    message = {**values, **body} if isinstance(body, dict) else dict(values)
    if match is None:
        if message.get("index") not in (None, 0, "0"):
            return []
        choice = parse_structured(message.get("message"))
        message = (
            choice if isinstance(choice, dict) else {"content": choice or message.get("content"), **_calls(message)}
        )
    new_message = {
        "role": match[1] if match is not None else "assistant",
        "content": _content(message),
        **_calls(message),
    }
    if match is not None and match[1] == "tool":
        new_message["tool_call_id"] = message.get("id") or message.get("tool_call_id")
    return [new_message]


def _content(message: Mapping[str, Any]) -> Any:
    content = message.get("content")
    blocks = parse_structured(content)
    return (
        blocks if isinstance(blocks, list) and blocks and all(isinstance(block, dict) for block in blocks) else content
    )


def _calls(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = parse_structured(message.get("tool_calls"))
    return {"tool_calls": calls} if isinstance(calls, list) else {}


def _attribute_messages(attribute: Any, side: str) -> list[dict[str, Any]]:
    """Return the messages in one attribute: a list of them, one of them, or the text of the user or the agent."""
    role = "user" if side == "prompt" else "assistant"
    if isinstance(attribute, str):
        return [{"role": role, "content": attribute}] if attribute else []
    return [
        {"role": role, **message}
        for item in (attribute if isinstance(attribute, list) else [attribute])
        if isinstance(item, dict)
        for message in [item["message"] if isinstance(item.get("message"), dict) else item]
    ][: None if side == "prompt" else 1]


def numbered_messages(values: Mapping[str, Any], side: str) -> list[dict[str, Any]]:
    """Return the messages of numbered attributes, in order of their numbers."""
    messages: dict[int, dict[str, Any]] = {}
    calls: dict[tuple[int, int], dict[str, Any]] = {}
    blocks: dict[tuple[int, int], dict[str, Any]] = {}
    for key, value in values.items():
        match = _NUMBERED.fullmatch(key) if key[:4] in ("gen_", "llm.") else None
        if match is None or _SIDES[match["old"] or match["kin"]] != side:
            continue
        number = int(match["place"])
        message = messages.setdefault(number, {})
        if match["field"] is not None:
            message[match["field"]] = parse_structured(value) if match["field"] == "content" else value
        elif match["part"] is not None:
            blocks.setdefault((number, int(match["part"])), {})[match["kind"]] = value
        elif match["of"] == "id":
            calls.setdefault((number, int(match["call"])), {"function": {}})["id"] = value
        else:
            calls.setdefault((number, int(match["call"])), {"function": {}})["function"][match["of"]] = value
    for (number, _), entry in sorted(calls.items(), key=lambda pair: pair[0]):
        messages[number].setdefault("tool_calls", []).append(entry)
    for (number, _), entry in sorted(blocks.items(), key=lambda pair: pair[0]):
        if "content" not in messages[number] or isinstance(messages[number]["content"], list):
            messages[number].setdefault("content", []).append(entry)
    return [messages[number] for number in sorted(messages)]
