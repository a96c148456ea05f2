"""Messages of the AI SDK: model messages, and user interface messages, which contain calls and answers in one.

    {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": …, "toolName": …, "input": {…}}]}
    {"role": "tool", "content": [{"type": "tool-result", "toolCallId": …, "output": {"type": "json", "value": {…}}}]}
    {"role": "assistant", "parts": [{"type": "step-start"}, {"type": "tool-look", "toolCallId": …, "input": {…},
        "state": "output-available", "output": …}, {"type": "step-start"}, {"type": "text", "text": …}]}

A step of an interface message is one response of the model; without step marks, text after an answer begins the next
response. Up to version 4 parts are `tool-invocation`, and arguments and results are `args` and `result`.
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
    """Convert a user interface message to chat messages; None for any other message."""
    parts, role = objects_of(message.get("parts")), message.get("role")
    if not parts and (invoked := objects_of(message.get("toolInvocations"))):
        parts = [*({"type": "tool-invocation", "toolInvocation": invocation} for invocation in invoked)]
        parts.append({"type": "text", "text": message.get("content")})
    if not isinstance(role, str) or not parts or not all(map(_is_known, parts)):
        return None
    if role != "assistant":
        return [{"role": role, "content": [_shown(part) for part in parts]}]
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
    """Yield the agent's messages and the answers between them."""
    marked = any(entry["type"] == _STEP for entry in parts)
    blocks: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    for part in [*parts, {"type": _STEP}]:
        kind = part["type"]
        if kind == _STEP or (answers and not marked and kind in _SPOKEN):
            yield from [{"role": "assistant", "content": blocks}, *answers] if blocks else ()
            blocks, answers = [], []
        if kind in _SPOKEN:
            text = part.get("text", part.get("reasoning"))
            blocks.append({"type": "text", "text": text} if kind == "text" else {"type": "thinking", "thinking": text})
        elif kind.startswith(_TOOL) or kind == _DYNAMIC:
            called, answer = _read_invocation(part)
            blocks.append(called)
            answers += [] if answer is None else [answer]


def _read_invocation(part: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the call in a part, and its answer; the answer is None while it is pending."""
    nested = part.get("toolInvocation")
    invocation = nested if isinstance(nested, dict) else part
    name, key = invocation.get("toolName") or plain_text(part["type"]).removeprefix(_TOOL), invocation.get("toolCallId")
    called = {"type": "tool_use", "id": key, "name": name, "input": _input(invocation)}
    state, failed = invocation.get("state"), invocation.get("state") == "output-error"
    if state not in ("output-available", "output-error", "result"):
        return called, None
    content = invocation.get("errorText") if failed else invocation.get("output", invocation.get("result"))
    return called, {"role": "tool", "tool_call_id": key, "name": name, "content": content, "is_error": failed}


def _input(invocation: Mapping[str, Any]) -> Any:
    return next((invocation[key] for key in ("input", "args", "rawInput") if invocation.get(key) is not None), None)


def block(part: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a `tool-call` or a `tool-result` of a model message to a chat block.

    Raises:
        MessageError: The block has another type.
    """
    if part.get("type") == "tool-call":
        return {"type": "tool_use", "id": part.get("toolCallId"), "name": part.get("toolName"), "input": _input(part)}
    if part.get("type") != "tool-result":
        raise MessageError("unknown_block", f"wanted a block of the AI SDK, met {plain_text(part.get('type'))[:80]!r}")
    output, error = part.get("output", part.get("result")), part.get("isError")
    if isinstance(output, dict) and "value" in output and plain_text(output.get("type")) in _OUTPUTS:
        error = True if output["type"].startswith("error") else error
        output = output["value"]
    return {"type": "tool_result", "tool_use_id": part.get("toolCallId"), "content": output, "is_error": error}


_OUTPUTS: Final = ("text", "json", "content", "error-text", "error-json")
