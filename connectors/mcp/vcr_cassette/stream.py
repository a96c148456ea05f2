"""Assembly of streamed answers of language model APIs: the deltas of their events become one response.

The result has the shape of the same API without streaming, as far as `shapes` reads it. Events that are not JSON are
skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from trajmill.connectors.reading.fields import object_of, objects_of, plain_text
from trajmill.connectors.reading.server_events import sse_data
from trajmill.connectors.reading.values import json_value

_MOST: Final = 4096
"""Largest number of parallel blocks or calls of one answer; a larger index is ignored."""


def events(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a stream of server-sent events."""
    for data in sse_data(text):
        if data[:1] == "{":
            try:
                value = json_value(data)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def assemble(chunks: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Assemble the response from the chunks; None if their API is unknown."""
    listed = list(chunks)
    for chunk in listed:
        kind = chunk.get("type")
        if isinstance(kind, str) and (kind.startswith(("response.", "message_", "content_block")) or kind == "ping"):
            continue
        if isinstance(chunk.get("choices"), list):
            return _chat(listed)
        if isinstance(chunk.get("candidates"), list):
            return _gemini(listed)
        if isinstance(chunk.get("message"), dict) and "done" in chunk:
            return _ollama(listed)
    if any("messageStart" in chunk for chunk in listed):
        return _bedrock(listed)
    if any(plain_text(chunk.get("type")).startswith("response.") for chunk in listed):
        return _responses(listed)
    if any(chunk.get("type") == "message_start" for chunk in listed):
        return _anthropic(listed)
    return None


def _chat(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """Assemble a chat completion; tool calls are joined by index, since their arguments arrive in pieces."""
    message: dict[str, Any] = {"role": "assistant", "content": "", "reasoning_content": ""}
    calls: dict[int, dict[str, Any]] = {}
    response: dict[str, Any] = {}
    first_choices: list[dict[str, Any]] = []
    for chunk in chunks:
        for key in ("id", "model"):
            if isinstance(chunk.get(key), str) and chunk[key]:
                response.setdefault(key, chunk[key])
        choices = chunk.get("choices")
        listed = choices if isinstance(choices, list) else []
        first = next((choice for choice in listed if isinstance(choice, dict) and choice.get("index", 0) == 0), {})
        delta = first.get("delta")
        if not isinstance(delta, dict):
            continue
        first_choices.append(first)
        for key, into in (
            ("content", "content"),
            ("reasoning_content", "reasoning_content"),
            ("reasoning", "reasoning_content"),
        ):
            if isinstance(delta.get(key), str):
                message[into] += delta[key]
        parts = delta.get("tool_calls")
        for number, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, dict):
                _grow(calls, part, number)
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {**response, "choices": [{"index": 0, "message": message, **_samples(first_choices)}]}


def _samples(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """Token ids and log-probabilities of a streamed choice; nothing where a piece of it has none."""
    ids: list[Any] = []
    tokens: list[Any] = []
    for choice in choices:
        pieces = choice.get("token_ids")
        if isinstance(pieces, list):
            ids += pieces
        elif any(value for key, value in choice["delta"].items() if key != "role"):
            return {}
        tokens += objects_of(object_of(choice.get("logprobs")).get("content"))
    return {"token_ids": ids, "logprobs": {"content": tokens}} if ids else {}


def _ollama(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """Assemble a response of Ollama: chunks hold a piece of the text or whole calls, and the last states the end."""
    message: dict[str, Any] = {"role": "assistant", "content": "", "thinking": ""}
    calls: list[Any] = []
    response: dict[str, Any] = {}
    for chunk in chunks:
        response |= {key: value for key, value in chunk.items() if key != "message"}
        piece = object_of(chunk.get("message"))
        for key in ("content", "thinking"):
            if isinstance(piece.get(key), str):
                message[key] += piece[key]
        calls_there = piece.get("tool_calls")
        calls += calls_there if isinstance(calls_there, list) else []
    message = {key: value for key, value in message.items() if value or key == "content"}
    return {**response, "message": {**message, "tool_calls": calls} if calls else message}


def _grow(calls: dict[int, dict[str, Any]], part: dict[str, Any], number: int) -> None:
    index = part.get("index")
    index = index if isinstance(index, int) and 0 <= index < _MOST else number
    call = calls.setdefault(index, {"id": None, "function": {"name": "", "arguments": ""}})
    call["id"] = call["id"] or part.get("id")
    function = part.get("function")
    if isinstance(function, dict):
        for key in ("name", "arguments"):
            if isinstance(function.get(key), str):
                call["function"][key] += function[key]


def _anthropic(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """Assemble a message of Anthropic, block by block."""
    response: dict[str, Any] = {"type": "message", "role": "assistant"}
    blocks: dict[int, dict[str, Any]] = {}
    written: dict[int, str] = {}
    for chunk in chunks:
        kind, index = chunk.get("type"), chunk.get("index")
        if kind == "message_start" and isinstance(chunk.get("message"), dict):
            response |= {key: chunk["message"].get(key) for key in ("id", "model")}
        if not isinstance(index, int) or not 0 <= index < _MOST:
            continue
        begun, delta = chunk.get("content_block"), chunk.get("delta")
        if kind == "content_block_start" and isinstance(begun, dict):
            blocks[index] = dict(begun)
        elif kind == "content_block_delta" and isinstance(delta, dict) and index in blocks:
            for key in ("text", "thinking", "content"):  # content is that of a compaction
                if isinstance(delta.get(key), str):
                    blocks[index][key] = str(blocks[index].get(key) or "") + delta[key]
            if isinstance(delta.get("partial_json"), str):
                written[index] = written.get(index, "") + delta["partial_json"]
    for index, text in written.items():
        if text:
            try:
                blocks[index]["input"] = json_value(text)
            except ValueError:
                blocks[index]["input"] = text
    return {**response, "content": [blocks[index] for index in sorted(blocks)]}


def _bedrock(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """Assemble a response of Bedrock's Converse, block by block; each event is an object of its kind."""
    blocks: dict[int, dict[str, Any]] = {}
    written: dict[int, str] = {}
    for chunk in chunks:
        begun, grown = chunk.get("contentBlockStart"), chunk.get("contentBlockDelta")
        block_event = begun if isinstance(begun, dict) else grown if isinstance(grown, dict) else {}
        index = block_event.get("contentBlockIndex")
        if not isinstance(index, int) or not 0 <= index < _MOST:
            continue
        block = blocks.setdefault(index, {})
        start, delta = block_event.get("start"), block_event.get("delta")
        if isinstance(start, dict):
            block |= {key: dict(member) for key, member in start.items() if isinstance(member, dict)}
        if isinstance(delta, dict):
            written[index] = written.get(index, "") + _add_delta(block, delta)
    for index, text in written.items():
        use = blocks[index].get("toolUse")
        if text and isinstance(use, dict):
            try:
                use["input"] = json_value(text)
            except ValueError:
                use["input"] = text
    return {"output": {"message": {"role": "assistant", "content": [blocks[index] for index in sorted(blocks)]}}}


def _add_delta(block: dict[str, Any], delta: dict[str, Any]) -> str:
    """Add a delta of Bedrock to its block; return the piece of a call's arguments in it, empty if there is none."""
    text, thought, result, use = (delta.get(key) for key in ("text", "reasoningContent", "toolResult", "toolUse"))
    if isinstance(text, str):
        block["text"] = str(block.get("text") or "") + text
    if isinstance(thought, dict) and isinstance(thought.get("text"), str):
        reasoning = block.setdefault("reasoningContent", {}).setdefault("reasoningText", {"text": ""})
        reasoning["text"] += thought["text"]
    if isinstance(result, list) and isinstance(block.get("toolResult"), dict):
        block["toolResult"].setdefault("content", []).extend(result)
    arguments_piece = use.get("input") if isinstance(use, dict) else None
    return arguments_piece if isinstance(arguments_piece, str) else ""


def _responses(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a response of the Responses API: as its last event states it, else made of the completed items."""
    last_response: dict[str, Any] = {"object": "response"}
    done: dict[int, Any] = {}
    for chunk in chunks:
        response = chunk.get("response")
        if isinstance(response, dict):
            last_response = response
        index = chunk.get("output_index")
        if chunk.get("type") == "response.output_item.done" and isinstance(index, int):
            done[index] = chunk.get("item")
    if not last_response.get("output"):
        last_response = {**last_response, "output": [done[index] for index in sorted(done)]}
    return last_response


def _gemini(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """Assemble a response of Gemini; consecutive texts are one part, unless only one of them is a thought."""
    parts: list[dict[str, Any]] = []
    response: dict[str, Any] = {}
    for chunk in chunks:
        if isinstance(chunk.get("modelVersion"), str):
            response["modelVersion"] = chunk["modelVersion"]
        candidates = chunk.get("candidates")
        first = candidates[0] if isinstance(candidates, list) and candidates else None
        content = first.get("content") if isinstance(first, dict) else None
        new_parts = content.get("parts") if isinstance(content, dict) else None
        for part in new_parts if isinstance(new_parts, list) else ():
            if not isinstance(part, dict):
                continue
            last = parts[-1] if parts else {}
            if "text" in part and isinstance(last.get("text"), str) and last.get("thought") == part.get("thought"):
                last["text"] += str(part["text"])
            else:
                parts.append(dict(part))
    return {**response, "candidates": [{"content": {"role": "model", "parts": parts}}]}
