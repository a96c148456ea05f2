"""Messages of the AI SDK: those of its models, and those of its user interfaces, which hold calls and answers in one.

    {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": …, "toolName": …, "input": {…}}]}
    {"role": "tool", "content": [{"type": "tool-result", "toolCallId": …, "output": {"type": "json", "value": {…}}}]}
    {"role": "assistant", "parts": [{"type": "step-start"}, {"type": "tool-look", "toolCallId": …, "input": {…},
        "state": "output-available", "output": …}, {"type": "step-start"}, {"type": "text", "text": …}]}

A step of the interface's message is one response of the model; without such marks, what it said after an answer is the
next. Up to version 4 parts are `tool-invocation`, and arguments and results are `args` and `result`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.reading.fields import objects_of, plain_text

_SILENT: Final = ("file", "source", "source-url", "source-document")
_SPOKEN: Final = ("text", "reasoning")
_STEP: Final = "step-start"
_TOOL: Final = "tool-"
_DYNAMIC: Final = "dynamic-tool"


def plain(message: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The messages of a chat that one of a user interface is; None of any other."""
    parts, role = objects_of(message.get("parts")), message.get("role")
    if not parts and (invoked := objects_of(message.get("toolInvocations"))):
        parts = [*({"type": "tool-invocation", "toolInvocation": one} for one in invoked)]
        parts.append({"type": "text", "text": message.get("content")})
    if not isinstance(role, str) or not parts or not all(map(_is_known, parts)):
        return None
    if role != "assistant":
        return [{"role": role, "content": [_shown(one) for one in parts]}]
    return list(_steps(parts))


def _is_known(part: Mapping[str, Any]) -> bool:
    kind = plain_text(part.get("type"))
    if kind in _SPOKEN:
        return "text" in part or "reasoning" in part
    return kind in (*_SILENT, _STEP, _DYNAMIC) or kind.startswith((_TOOL, "data-"))


def _shown(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "file" and plain_text(part.get("mediaType", part.get("mimeType"))).startswith("image/"):
        return {"type": "image_url", "image_url": {"url": part.get("url")}}
    return part


def _steps(parts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The agent's messages and the answers between them."""
    marked = any(one["type"] == _STEP for one in parts)
    said: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    for part in [*parts, {"type": _STEP}]:
        kind = part["type"]
        if kind == _STEP or (answers and not marked and kind in _SPOKEN):
            yield from [{"role": "assistant", "content": said}, *answers] if said else ()
            said, answers = [], []
        if kind in _SPOKEN:
            text = part.get("text", part.get("reasoning"))
            said.append({"type": "text", "text": text} if kind == "text" else {"type": "thinking", "thinking": text})
        elif kind.startswith(_TOOL) or kind == _DYNAMIC:
            called, answer = _invoked(part)
            said.append(called)
            answers += [] if answer is None else [answer]


def _invoked(part: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The call in a part, and its answer, None as long as there is none."""
    held = part.get("toolInvocation")
    told = held if isinstance(held, dict) else part
    name, key = told.get("toolName") or plain_text(part["type"]).removeprefix(_TOOL), told.get("toolCallId")
    called = {"type": "tool_use", "id": key, "name": name, "input": _input(told)}
    state, failed = told.get("state"), told.get("state") == "output-error"
    if state not in ("output-available", "output-error", "result"):
        return called, None
    content = told.get("errorText") if failed else told.get("output", told.get("result"))
    return called, {"role": "tool", "tool_call_id": key, "name": name, "content": content, "is_error": failed}


def _input(told: Mapping[str, Any]) -> Any:
    return next((told[key] for key in ("input", "args", "rawInput") if told.get(key) is not None), None)


def block(one: Mapping[str, Any]) -> dict[str, Any]:
    """The block of a chat that one of a model's message is: a `tool-call` or a `tool-result`.

    Raises:
        MessageError: it is another.
    """
    if one.get("type") == "tool-call":
        return {"type": "tool_use", "id": one.get("toolCallId"), "name": one.get("toolName"), "input": _input(one)}
    if one.get("type") != "tool-result":
        raise MessageError("unknown_block", f"wanted a block of the AI SDK, met {plain_text(one.get('type'))[:80]!r}")
    told, error = one.get("output", one.get("result")), one.get("isError")
    if isinstance(told, dict) and "value" in told and plain_text(told.get("type")) in _OUTPUTS:
        error = True if told["type"].startswith("error") else error
        told = told["value"]
    return {"type": "tool_result", "tool_use_id": one.get("toolCallId"), "content": told, "is_error": error}


_OUTPUTS: Final = ("text", "json", "content", "error-text", "error-json")
