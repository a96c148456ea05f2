"""Objects with a conversation: the positions of its messages, tools, system prompt and outcome.

Such an object is a row of a data set, a logged request, or an item of an evaluation, with a list of messages, or JSON
text of one, under a known name. `shapes` reads the messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trajmill.connectors.conversation import chat_text
from trajmill.connectors.conversation.calls import action_space, json_of
from trajmill.connectors.conversation.content import shown
from trajmill.connectors.conversation.declared_tools import declare
from trajmill.connectors.conversation.dialects import adk, plain
from trajmill.connectors.conversation.response_items import ITEMS
from trajmill.connectors.conversation.shapes import ROLES
from trajmill.connectors.reading.fields import number_of, object_of, objects_of, plain_text, str_of, text_of
from trajmill.connectors.reading.json_text import parse_if_json
from trajmill.connectors.reading.large.outline import ARRAY, Shape
from trajmill.schemas import Outcome
from trajmill.schemas.record import record

_MESSAGES: Final = ("messages", "conversations", "conversation", "contents", "steps", "events")
_ROW: Final[dict[str, Shape]] = {key: [] for key in _MESSAGES}
SHAPES: Final[list[Shape]] = [_ROW, [_ROW]]
"""Shapes of documents of conversations, or of messages, that may be long."""

_PAIRS: Final = (("prompt", "completion"), ("input", "output"))
_TOOLS: Final = ("tools", "available_tools", "functions", "tools_json", "tool_definitions")
_SYSTEM: Final = ("system", "systemInstruction", "system_instruction", "instructions")
_IDS: Final = ("id", "uuid", "trajectory_id", "conversation_id", "session_id", "uid")
_BFCL: Final = frozenset(
    {"id", "idx", "result", "input_token_count", "output_token_count", "latency", "reasoning_content", "traceback"}
)
_NAMELESS: Final = "conversation"
"""Native id of a conversation whose log names none. It is the same for all, so that equal conversations stay equal."""

_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use", "tool-call")


def messages_of(value: Any) -> Sequence[Any] | None:
    """Return the messages of an object with a conversation; None if there are none."""
    if not isinstance(value, Mapping):
        return None
    value = _row(value)
    for key in _MESSAGES:
        listed = _message_list(value.get(key))
        if listed is not None:
            return listed
    if isinstance(state := value.get("values"), Mapping):  # a thread of LangGraph
        return messages_of(state)
    for first, second in _PAIRS:
        asked, answer = value.get(first), value.get(second)
        before, after = _message_list(asked), _message_list(answer)
        if before is not None:
            return [*before, *(after or ())]
        if after is not None and isinstance(asked, str):
            return [{"role": "user", "content": asked}, *after]
        if isinstance(asked, str) and (messages := chat_text.messages_in(asked, str_of(answer))) is not None:
            return messages
    return _message_list(value.get("output")) if value.get("object") == "response" else None


def _row(value: Any) -> Mapping[str, Any]:
    """Return the row in a value, else an empty one; the row of a NeMo Gym rollout includes its request and response."""
    row = value if type(value) is dict or isinstance(value, Mapping) else {}
    asked = row.get("responses_create_params")
    if not isinstance(asked, Mapping):
        return row
    return {**asked, **object_of(row.get("response")), "tools": asked.get("tools"), **row}


def _message_list(value: Any) -> Sequence[Any] | None:
    """Return the value if it is a list of messages, or JSON text of one; each message may be JSON text too."""
    value = parse_if_json(value)
    if isinstance(value, list) and value and isinstance(value[0], str):
        value = [parse_if_json(text) for text in value]
    return value if isinstance(value, ARRAY) and value and is_message(value[0]) else None


def is_message(value: Any) -> bool:
    """Return True if the value has the shape of a message."""
    if not isinstance(value, Mapping):
        return False
    role = value.get("role") or value.get("from")
    if role is None:
        return isinstance(value.get("parts"), list) or _is_item(value) or plain(value) is not None
    spoken = any(key in value for key in ("content", "value", "parts", "tool_calls", "function_call"))
    return isinstance(role, str) and spoken and (role in ROLES or plain(value) is not None)


def _is_item(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and kind in ITEMS


def is_call(message: Any) -> bool:
    """Return True if the message holds a tool call."""
    if not isinstance(message, Mapping):
        return False
    if (messages := plain(message)) is not None:
        return any(map(is_call, messages))
    if parse_if_json(message.get("tool_calls")) or isinstance(parse_if_json(message.get("function_call")), dict):
        return True
    if (message.get("role") or message.get("from")) in ("function_call", "tool_call"):
        return True
    if message.get("role") is None and plain_text(message.get("type")).endswith("_call") and _is_item(message):
        return True
    content, parts = message.get("content"), message.get("parts")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and (block.get("type") in _CALLS or "toolUse" in block):
            return True
    return any(
        isinstance(part, dict) and ("functionCall" in part or "function_call" in part)
        for part in (parts if isinstance(parts, list) else ())
    )


def action_only(value: Any) -> str | None:
    """Return a name for the value if it holds calls but never results, as in BFCL or xLAM; else None."""
    if not isinstance(value, Mapping):
        return None
    keys = value.keys()
    if "result" in keys and {"id", "idx"} & keys and keys <= _BFCL and isinstance(value["result"], str | list):
        return "a result of BFCL"
    if {"query", "answers", "tools"} <= keys <= {"query", "answers", "tools", "id"}:
        return "a row of xLAM"
    if adk.is_unanswered(value):
        return "a set of evaluations of ADK"
    return None


def conversations_in(value: Any) -> Iterator[Any]:
    """Yield the conversations of a document: a list of messages as it is, each object of a list, or the object."""
    if isinstance(value, Mapping):
        value = next((value[key] for key in ("rows", "eval_cases") if isinstance(value.get(key), list)), value)
    if isinstance(value, ARRAY) and not (value and is_message(value[0])):
        yield from map(_unwrap, value)
    else:
        yield _unwrap(value)


def _unwrap(value: Any) -> Any:
    """Return the row itself if a viewer has added its number."""
    row = value.get("row") if isinstance(value, Mapping) and "row_idx" in value else None
    return value if row is None else row


def system_beside(value: Any) -> str | None:
    """Return the system prompt beside the messages of an object, if it is text."""
    row = _row(value)
    return next((row[key] for key in _SYSTEM if isinstance(row.get(key), str) and row[key]), None)


def tools_beside(value: Any) -> list[dict[str, Any]]:
    """Return the tools beside the messages of an object, from a list or JSON text of one."""
    return objects_of(_tools(_row(value)))


def _tools(row: Mapping[str, Any]) -> Any:
    """Return the tools of a row from a list, its JSON text or one of JSON texts; else the value as it is."""
    tools = parse_if_json(next((row[key] for key in _TOOLS if row.get(key)), None))
    return [parse_if_json(tool) for tool in tools] if isinstance(tools, list) else tools


@record
class Around:
    """Facts around the messages of a conversation."""

    native_id: str
    task_id: str | None
    tools: str | None
    system: str | None
    model: str | None
    outcome: Outcome | None
    licence: str | None


def around(value: Any, listed: list[Any]) -> Around:
    """Read the facts beside the messages of an object, whose messages list the tools `listed`; a bare list states none.

    Raises:
        MessageError: tools or system prompt nest too deeply.
    """
    row = _row(value)
    tools = _tools(row)
    name = next((row[key] for key in _IDS if isinstance(row.get(key), str | int) and row[key] != ""), _NAMELESS)
    task = row.get("task_id")
    model = row.get("model")
    return Around(
        native_id=str(name),
        task_id=str(task) if isinstance(task, str | int) else None,
        tools=action_space(_all_tools(tools, listed)),
        system=next((text for key in _SYSTEM if key in row and (text := _system(row[key]))), _instructions(value)),
        model=model if isinstance(model, str) and model else None,
        outcome=_outcome(row),
        licence=text_of(row.get("license")),
    )


def _instructions(value: Any) -> str | None:
    """Return the system prompt in the first message, where Pydantic AI writes it into each request."""
    messages = value.get("messages") if isinstance(value, Mapping) else value
    first = messages[0] if isinstance(messages, ARRAY) and messages else None
    return text_of(first.get("instructions")) if isinstance(first, Mapping) else None


def _all_tools(tools: Any, listed: list[Any]) -> Any:
    """Return the tools of a row, which may be JSON text, and those that its messages list."""
    if not listed:
        return tools
    declared: list[Any] = []
    if isinstance(tools, str):
        return tools
    declare(declared, tools if isinstance(tools, list) else [] if tools is None else [tools])
    declare(declared, listed)
    return declared


def _system(value: Any) -> str | None:
    if isinstance(value, Mapping) and isinstance(value.get("parts"), list):
        texts = [part.get("text") for part in value["parts"] if isinstance(part, Mapping)]
        return "\n".join(text for text in texts if isinstance(text, str)) or None
    if isinstance(value, Mapping):
        return json_of(dict(value)) if value else None
    return shown(value).text if isinstance(value, str | list) else None


def _outcome(row: Mapping[str, Any]) -> Outcome | None:
    """Return the outcome under its usual names: `resolved` or `success`, `reward` or `score`."""
    resolved = next((row[key] for key in ("resolved", "success") if isinstance(row.get(key), bool)), None)
    scores = (number_of(row.get(key), 1e300) for key in ("reward", "score"))
    score = next((number for number in scores if number is not None), None)
    return None if resolved is None and score is None else Outcome(resolved, score)
