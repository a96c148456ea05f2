"""Messages between agent and model in one form, and the matching of answers to actions.

The module reads chat messages in the OpenAI form as mini-swe-agent, SWE-agent and OpenHands write them, with the keys
that mini-swe-agent adds in `extra`, and items of the Responses API. It does not judge answers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from trajmill.connectors.conversation.sampled import sampled_in
from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.conversation.wrapped_output import find_kill_limit
from trajmill.connectors.reading.fields import join_paragraphs, object_of, objects_of, text_in, whole_number_of
from trajmill.connectors.reading.json_text import parse_if_json
from trajmill.connectors.reading.times import microseconds
from trajmill.connectors.swe.actions import call
from trajmill.connectors.swe.answer import content_of
from trajmill.schemas import Attachment
from trajmill.schemas.record import record

_ROLES: Final = {"ai": "assistant", "human": "user", "function": "tool"}
_CONTENTS: Final = ("output", "text", "system_prompt")


class Asked(NamedTuple):
    """A call of a tool as logged; arguments are JSON text or an object."""

    name: str
    arguments: str | Mapping[str, Any]
    call_id: str | None


@record
class Message:
    """One message.

    Attributes:
        role: system, developer, user, assistant, tool or exit.
        text: its text; None if it has none.
        attachments: its images.
        calls: calls that it makes.
        reasoning: the model's reasoning, where the reply holds it apart from the text.
        interrupt: what kind of interruption it tells the agent of, in mini-swe-agent's word.
        exit_code: return code of the command that it answers.
        killed_after: seconds after which the command that it answers was killed.
        not_executed: it says that the command was not run.
        at: when it was made, microseconds since 1970 UTC.
        created: when the model's reply was made, seconds since 1970.
        sampled: what the model sampled for it, see `schemas.sampled_text`.
    """

    role: str
    text: str | None
    attachments: tuple[Attachment, ...] = ()
    calls: tuple[Asked, ...] = ()
    call_id: str | None = None
    reasoning: str | None = None
    interrupt: str | None = None
    exit_code: int | None = None
    killed_after: float | None = None
    not_executed: bool = False
    at: int | None = None
    created: Any = None
    sampled: str | None = None


@dataclass(slots=True)
class Exchange:
    """Actions of the agent in one message, and the messages that follow it."""

    message: Message
    offset: int
    after: list[Message]


def each_turn(messages: Iterable[tuple[Message, int]], before: list[Message], typed: str = "") -> Iterator[Exchange]:
    """Yield the turns; calls that follow each other without an answer in between belong to one turn.

    Args:
        messages: the messages in the order of the log, each with its byte offset.
        before: receives the messages before the agent's first, complete with the first turn.
        typed: beginning of a user's message that is a command, and so a turn of its own; none if empty.
    """
    turn: Exchange | None = None
    after = before
    for message, offset in messages:
        own = typed and turn is not None and message.role == "user" and (message.text or "").startswith(typed)
        if turn is not None and not after and turn.message.calls and message.role == "assistant":
            turn.message = _together(turn.message, message)
        elif message.role == "assistant" or own:
            if turn is not None:
                yield turn
            after = []
            turn = Exchange(message, offset, after)
        else:
            after.append(message)
    if turn is not None:
        yield turn


def _together(first: Message, second: Message) -> Message:
    """Merge two messages of the agent; it saw nothing in between."""
    return replace(
        first,
        text=join_paragraphs([text for text in (first.text, second.text) if text]),
        calls=(*first.calls, *second.calls),
        reasoning=join_paragraphs([thought for thought in (first.reasoning, second.reasoning) if thought]),
        sampled=None,
    )


def answer_of(turn: Exchange, index: int, used: Container[int]) -> int | None:
    """Return the index of the message that answers an action: by the id of its call, else by its position.

    Args:
        turn: the turn, with the messages that follow it.
        used: indices of messages that answer an earlier action.
    """
    calls, after = turn.message.calls, turn.after
    if not calls:
        return 0 if after else None
    if len(calls) == 1 and after:
        first = after[0]
        if first.role == "tool" and first.call_id == calls[0].call_id is not None:
            return 0
    ids = [asked_call.call_id for asked_call in calls]
    tools = [position for position, message in enumerate(after) if message.role == "tool"]
    if not tools:
        return 0 if after and index + 1 == len(ids) else None
    if ids[index] is not None and ids.count(ids[index]) == 1:
        named = next((position for position in tools if after[position].call_id == ids[index]), None)
        if named is not None:
            return named
    unique_ids = {call_id for call_id in ids if call_id is not None and ids.count(call_id) == 1}
    unnamed = [position for position in tools if after[position].call_id not in unique_ids]
    answered_ids = {after[position].call_id for position in tools}
    rank = sum(1 for call_id in ids[:index] if call_id not in unique_ids or call_id not in answered_ids)
    return unnamed[rank] if rank < len(unnamed) and unnamed[rank] not in used else None


def calls_of(message: Message) -> list[Call | None]:
    """Return the calls of a message as actions, the first with text and reasoning; None if one nests too deeply."""
    text, thought = (message.text or "").strip() or None, message.reasoning
    calls: list[Call | None] = []
    for asked_call in message.calls:
        calls.append(call(asked_call.name, asked_call.arguments, asked_call.call_id, text, thought))
        text = thought = None
    return calls


def message_of(value: Any) -> Message | None:
    """Return the message in a JSON value; None if it is no message."""
    if not isinstance(value, dict):
        return None
    get = value.get
    role, content, extra = get("role"), get("content"), get("extra")
    if extra is not None and not isinstance(extra, dict):
        extra = None
    if role is None and isinstance(get("output"), list):
        return _response(value["output"], extra or {})
    if get("type") == "function_call_output":
        role = "tool"
    elif not isinstance(role, str):
        return None
    if content is None:
        for key in _CONTENTS:
            if (content := get(key)) is not None:
                break
    role = _ROLES.get(role, role)
    text, attachments, _ = content_of(content)
    if len(value) == 2 + ("extra" in value) and text is not None:
        return _message(extra, role, text, attachments) if extra else Message(role, text, attachments)
    calls = _calls(value["tool_calls"]) if "tool_calls" in value else ()
    call_id = get("tool_call_id")
    if not isinstance(call_id, str) or not call_id:
        is_answer = "call_id" in value or "tool_call_ids" in value
        call_id = text_in(value, "call_id") or _first(get("tool_call_ids")) if is_answer else None
    reasoning = text_in(value, "reasoning_content") if "reasoning_content" in value else None
    if extra:
        return _message(extra, role, text, attachments, calls, call_id, reasoning)
    return Message(role, text, attachments, calls, call_id, reasoning)


def _message(
    extra: Mapping[str, Any],
    role: str,
    text: str | None,
    attachments: tuple[Attachment, ...],
    calls: tuple[Asked, ...] = (),
    call_id: str | None = None,
    reasoning: str | None = None,
) -> Message:
    """Build the message with the facts that mini-swe-agent states in `extra`."""
    response = object_of(extra.get("response"))
    choices = objects_of(response.get("choices"))
    exception = text_in(extra, "exception_info")
    return Message(
        role=role,
        text=text,
        attachments=attachments,
        calls=calls,
        call_id=call_id,
        reasoning=reasoning,
        interrupt=text_in(extra, "interrupt_type"),
        exit_code=_exit_code(extra),
        killed_after=find_kill_limit(exception),
        not_executed=exception == "action was not executed",
        at=microseconds(extra["timestamp"]) if "timestamp" in extra else None,
        created=response.get("created"),
        sampled=sampled_in(choices[0]) if choices else None,
    )


def _response(items: list[Any], extra: Mapping[str, Any]) -> Message:
    """Build the agent's message from a reply of the Responses API."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Asked] = []
    for item in items:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "message":
            texts.append(content_of(item.get("content")).text or "")
        elif kind == "reasoning":
            thoughts.append(content_of(item.get("summary")).text or "")
        elif kind == "function_call" and isinstance(item.get("name"), str):
            arguments = item.get("arguments")
            call_arguments = arguments if isinstance(arguments, str | dict) else "{}"
            calls.append(Asked(item["name"], call_arguments, text_in(item, "call_id")))
    text = "\n".join(part for part in texts if part) or None
    reasoning = "\n".join(part for part in thoughts if part) or None
    at = microseconds(extra.get("timestamp"))
    return Message("assistant", text, calls=tuple(calls), reasoning=reasoning, at=at)


def _calls(value: Any) -> tuple[Asked, ...]:
    value = parse_if_json(value)
    asked: list[Asked] = []
    for entry in map(parse_if_json, value if isinstance(value, list) else ()):
        function = parse_if_json(entry.get("function")) if isinstance(entry, dict) else None
        if isinstance(function, dict) and isinstance(name := function.get("name"), str) and name:
            arguments, call_id = function.get("arguments"), entry.get("id")
            call_arguments = arguments if isinstance(arguments, str | dict) else "{}"
            asked.append(Asked(name, call_arguments, call_id if isinstance(call_id, str) and call_id else None))
    return tuple(asked)


def _first(value: Any) -> str | None:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], str) else None


def _exit_code(extra: Mapping[str, Any]) -> int | None:
    code = whole_number_of(extra.get("returncode"))
    return code if code is not None and abs(code) < 2**31 and not extra.get("exception_info") else None
