r"""Steps of smolagents, as its memory is saved: the task, and each action with what it called and what that showed.

    {"task": "…"}
    {"step_number": 1, "model_output": "Thought: …", "tool_calls": [{"id": …, "type": "function", "function":
        {"name": "web_search", "arguments": {…}}}], "observations": "…", "error": null}

    {"role": "tool-call", "content": "Calling tools:\n[{'id': 'c1', 'function': {…}}]"}
    {"role": "tool-response", "content": "Call id: c1\nError:\n…"}

Several calls of one step have one text of observations, which stands after the last of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.conversation.calls import json_of
from trajmill.connectors.conversation.content import spoken_text
from trajmill.connectors.conversation.literals import literal_value
from trajmill.connectors.reading.fields import object_of, objects_of, str_of

_ROLES: Final = ("tool-call", "tool-response")
_ERROR: Final = re.compile(r"Call id: ([^\n]{1,200})\nError:\n")


def plain(message: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Convert a step, or a message of the agent's model, to chat messages; None for any other message."""
    if message.get("role") in _ROLES:
        return [_message(message["role"], spoken_text(message.get("content")))]
    if "role" in message or "type" in message:
        return None
    if isinstance(message.get("system_prompt"), str) and len(message) <= 2:
        return [{"role": "system", "content": message["system_prompt"]}]
    if isinstance(message.get("task"), str) and len(message) <= 2:
        return [{"role": "user", "content": message["task"]}]
    if "model_input_messages" in message and isinstance(message.get("plan"), str):
        return [{"role": "assistant", "content": message["plan"]}]
    return _action(message) if "observations" in message and "model_output" in message else None


def _message(role: str, text: str) -> dict[str, Any]:
    if role == "tool-call":
        calls = objects_of(literal_value(text.removeprefix("Calling tools:\n")))
        return {"role": "assistant", "content": None if calls else text, "tool_calls": calls}
    error = _ERROR.match(text)
    if error is None:
        return {"role": "tool", "content": text.removeprefix("Observation:\n")}
    return {"role": "tool", "tool_call_id": error[1], "content": text[error.end() :], "is_error": True}


def _action(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    calls, error = objects_of(step.get("tool_calls")), step.get("error")
    calls = calls or objects_of(object_of(step.get("model_output_message")).get("tool_calls"))
    failed = isinstance(error, dict) and isinstance(error.get("message"), str)
    texts = [step.get("observations"), error["message"] if failed and isinstance(error, dict) else None]
    shown = "\n".join(text if isinstance(text, str) else json_of(text) for text in texts if text)
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": step["model_output"], "tool_calls": calls}]
    if calls and shown:
        key = str_of(calls[-1].get("id"))
        messages.append({"role": "tool", "tool_call_id": key, "content": shown, "is_error": True if failed else None})
    elif shown:
        messages.append({"role": "system", "content": shown})
    return messages
