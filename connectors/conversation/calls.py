"""Calls of tools in logs: name, arguments and id of any JSON type, converted to the form that a model reads."""

from __future__ import annotations

from trajmill.connectors.conversation.turns import Call, Time
from trajmill.connectors.reading.fields import key_of
from trajmill.connectors.reading.json_text import CARRIED_DEPTH, is_json, shallow_json
from trajmill.connectors.reading.values import JsonError, json_value
from trajmill.schemas import call_text_of, json_text


class MessageError(ValueError):
    """Error of a message with an unexpected shape; `reason` is a snake_case word, `detail` is for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def call(name: object, arguments: object, call_id: object, offset: int, at: Time = None) -> Call:
    """Return the call of a name; arguments are an object, JSON text of one, or nothing.

    Arguments that are no object (invalid JSON, a list, a number) are kept unchanged under the name `arguments`, and as
    a JSON value in the text, so that the model's output is neither lost nor repaired.

    Raises:
        MessageError: The call has no name, or its arguments nest too deeply.
    """
    if not isinstance(name, str) or not name:
        raise MessageError("bad_message", "wanted a name in a call of a tool")
    value = _arguments(arguments) if isinstance(arguments, str) else arguments
    if value is None:
        call_arguments, written = None, "{}"
    elif isinstance(value, dict):
        written = call_arguments = json_of(value)
    else:
        written = json_of(value)
        call_arguments = f'{{"arguments": {written}}}'
    return Call(name, call_arguments, key_of(call_id), offset, at=at, text=call_text_of(name, written))


def _arguments(value: str) -> object:
    try:
        return json_value(value)
    except JsonError:
        return value if value.strip() else None


def json_of(value: object) -> str:
    """Return `value` as JSON text.

    Raises:
        MessageError: It nests deeper than trajectories allow.
    """
    text = shallow_json(value)
    if text is None:
        raise MessageError("nested_too_deeply", f"wanted at most {CARRIED_DEPTH} levels of nesting in a JSON value")
    return text


def action_space(tools: object) -> str | None:
    """Return definitions of tools as JSON text, from a value or JSON text; None if there are none.

    Raises:
        MessageError: They nest too deeply.
    """
    if isinstance(tools, str):
        if is_json(tools):
            return None if tools.strip() == "[]" else tools
        return json_text(tools) if tools.strip() else None
    return json_of(tools) if tools else None
