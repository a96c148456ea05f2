"""Chat messages of any maker as parts: OpenAI, Anthropic, Gemini, Responses items, and rows of published data sets.

Shapes read, told apart message by message:

- OpenAI chat: `tool_calls` (arguments are a JSON string; objects are taken too), the older `function_call`, answers of
  role `tool` or `function`; `reasoning_content` beside the content.
- Anthropic: blocks `tool_use`, `server_tool_use`, `mcp_tool_use` and their results, `thinking`.
- Gemini: `parts` with `functionCall` and `functionResponse`, in camel case or snake case.
- OpenAI Responses: items `message`, `reasoning`, `function_call`, `custom_tool_call`, their outputs, and `mcp_call`,
  which holds both; calls of tools that the API defines (`web_search_call`, `computer_call`, …).
- Frameworks: LangChain, Pydantic AI, the AI SDK, smolagents and ADK, each by its module of `dialects`.
- Data sets: `from` and `value` for role and content, with the roles `human`, `gpt`, `function_call` and `observation`;
  the roles `tool_call` and `tool_response`, whose content is the call as JSON or as a Python literal.

A thought at the head of a text (`<think>…</think>`) is a thought. Calls written into a text are the matter of
`written_calls`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from trajmill.connectors.conversation.answers import answer, content_of
from trajmill.connectors.conversation.calls import MessageError, call, json_of
from trajmill.connectors.conversation.content import is_server_error, seen_text, shown, shown_by
from trajmill.connectors.conversation.dialects import plain, vercel
from trajmill.connectors.conversation.failures import content_failed, exit_code, failed
from trajmill.connectors.conversation.literals import literal_value
from trajmill.connectors.conversation.opaque import attachment_in
from trajmill.connectors.conversation.pairing import Conversation, conversation
from trajmill.connectors.conversation.response_items import item_parts
from trajmill.connectors.conversation.turns import Call, Part, Result, Said, System, Text, Thought, Unlogged
from trajmill.connectors.reading.fields import key_of, objects_of, plain_text
from trajmill.connectors.reading.json_text import opened
from trajmill.connectors.reading.times import moment
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import Attachment

Message = Mapping[str, Any]

_THINK: Final = re.compile(r"\s*<think(?:ing)?>([^<]*+(?:<(?!/think(?:ing)?>)[^<]*+)*+)</think(?:ing)?>\s*")

ROLES_OF_AGENT: Final = frozenset({"assistant", "model", "gpt"})
ROLES_OF_USERS: Final = frozenset({"user", "human"})
ROLES_OF_SYSTEMS: Final = frozenset({"system", "developer"})
ROLES_OF_ANSWERS: Final = frozenset({"tool", "function", "observation", "tool_response", "tool_result", "environment"})
_CALL: Final = frozenset({"function_call", "tool_call"})
HARNESS: Final = "harness"
"""The role of the harness's words, as `written_calls` tells them apart from what it puts them around."""


_ARGUMENTS: Final = ("arguments", "args", "input")
_BEDROCK: Final = ("text", "toolUse", "toolResult", "reasoningContent")
"""Keys of Bedrock's blocks, which name no type."""

_THOUGHTS: Final = ("reasoning_content", "reasoning", "thinking")

_SILENT: Final = frozenset({"thought", "thoughtSignature", "thought_signature", "inlineData", "inline_data", "text"})
"""Members of a Gemini part of the agent that say nothing by themselves; a picture it drew is no observation."""

_WRAPPED: Final = ("output", "result", "error", "return_value")
"""Members of a function's response that stand for all of it, by the API and by its SDKs."""

_OTHERS: Final = frozenset({"parts", "toolInvocations", "channel", "recipient"})
"""Keys of messages whose role alone does not tell how they are read."""

ROLES: Final = ROLES_OF_AGENT | ROLES_OF_USERS | ROLES_OF_SYSTEMS | ROLES_OF_ANSWERS | _CALL


def conversation_in(messages: Iterable[object], offset: int = 0, *, told: bool = False) -> Conversation:
    """The conversation of a list of chat messages.

    Args:
        messages: of any shape, in the order of the log. What is made of a list is held in memory, as the list is.
        offset: where the conversation begins in its member.
        told: as in `pairing.conversation`.

    Raises:
        MessageError: a message has no known shape.
    """
    if isinstance(messages, list):
        return conversation(parts_in(messages, offset), told=told)
    return conversation((part for message in messages for part in parts_in((message,), offset)), told=told)


def parts(message: Message, offset: int) -> list[Part]:
    """The parts of a message in their order; see `parts_in`.

    Raises:
        MessageError: the message has no known shape.
    """
    return parts_in((message,), offset)


def parts_in(messages: Iterable[object], offset: int) -> list[Part]:
    """The parts of messages in their order; `offset` is where each, or what holds it, begins in the log.

    Raises:
        MessageError: a message is no object, or has no known shape.
    """
    found: list[Part] = []
    for message in messages:
        if not isinstance(message, dict):
            raise MessageError("bad_message", f"wanted an object as a message, met {type(message).__name__}")
        role = message.get("role")
        reader = _READERS.get(role) if type(role) is str else None
        if reader is None or not _OTHERS.isdisjoint(message):
            _read_other(message, offset, found)
        else:
            reader(message, offset, moment(message["timestamp"]) if "timestamp" in message else None, found)
    return _in_order(found) if any(isinstance(part, Result) and _is_nameless(part) for part in found) else found


def _in_order(found: list[Part]) -> list[Part]:
    """The parts, with the answers that parallel calls have in their order, as many and without names, given these."""
    made: list[Part] = []
    calls: list[Call] = []
    answers: list[Result] = []
    for part in (*found, None):
        if isinstance(part, Result):
            answers.append(part)
            continue
        if answers or not isinstance(part, Call | Text | Thought):
            made += _given(answers, calls)
            calls, answers = [], []
        if part is not None:
            made.append(part)
            calls += [part] if isinstance(part, Call) else []
    return made


def _given(answers: list[Result], calls: list[Call]) -> list[Result]:
    """The answers, with the names of their calls; a single one that is JSON text of as many values is one for each."""
    if len(calls) < 2 or not all(map(_is_nameless, answers)):
        return answers
    values = opened(answers[0].content) if len(answers) == 1 else None
    if isinstance(values, list) and len(values) == len(calls):
        answers = [replace(answers[0], content=one if isinstance(one, str) else json_of(one)) for one in values]
    if len(answers) != len(calls):
        return answers
    return [replace(one, name=made.name) for one, made in zip(answers, calls, strict=True)]


def _is_nameless(answer_: Result) -> bool:
    return answer_.call_id is None and answer_.name is None


def _read_other(message: Message, offset: int, found: list[Part]) -> None:
    """Adds the parts of a message without a role of its own, of one of Gemini, or of a framework."""
    if (told := plain(message)) is not None:
        found += parts_in(told, offset)
        return
    role = message.get("role") or message.get("from")
    at = moment(message["timestamp"]) if "timestamp" in message else None
    listed = isinstance(message.get("parts"), list)
    if role is not None and not isinstance(role, str):
        raise MessageError("unknown_role", "wanted a text as role")
    if listed:
        found += _gemini(message, role or "user", offset, at)  # Gemini's requests of one message name no role
    elif role is None:
        found += item_parts(message, offset, at)
    elif role in _READERS:
        _READERS[role](message, offset, at, found)
    else:
        raise MessageError("unknown_role", f"wanted a role of a chat, met {role[:80]!r}")


def _system(message: Message, offset: int, at: datetime | None, found: list[Part]) -> None:  # noqa: ARG001
    found.append(System(shown(content_of(message)).text or ""))


def _harness(message: Message, offset: int, at: datetime | None, found: list[Part]) -> None:  # noqa: ARG001
    found.append(Said("harness", shown(content_of(message)).text or ""))


def _answers(message: Message, offset: int, at: datetime | None, found: list[Part]) -> None:
    blocks = objects_of(message.get("content"))
    if blocks and all(one.get("type") == "tool-result" for one in blocks):
        found += (_resulted(vercel.block(one), offset, at) for one in blocks)
    else:
        found.append(answer(message, offset, at))


def _agent(message: Message, offset: int, at: datetime | None, found: list[Part]) -> None:
    calls = opened(message.get("tool_calls")) or None
    for key in _THOUGHTS:
        if key in message and isinstance(message[key], str) and message[key]:
            found.append(Thought(message[key], offset, at))
            break
    _said(content_of(message), offset, at, found)
    if calls is not None and not isinstance(calls, list):
        raise MessageError("bad_message", "wanted a list as tool_calls")
    if calls:
        for one in calls:
            _openai_call(opened(one), offset, at, found)
    elif "function_call" in message and isinstance(legacy := opened(message["function_call"]), dict):
        found.append(call(legacy.get("name"), legacy.get("arguments"), None, offset, at))
    if message.get("stop_reason"):  # it is a whole response: what the agent says next, it says when asked again
        found.append(Unlogged(offset))


def _said(content: object, offset: int, at: datetime | None, found: list[Part]) -> None:
    """Adds what the content of a message of the agent holds."""
    if isinstance(content, str):
        found += spoken(content, offset, at)
    elif isinstance(content, list):
        for block in content:
            found += _block(block, True, offset, at)
    elif content is not None:
        found.append(Text(json_of(content), offset, at))


def spoken(text: str, offset: int, at: datetime | None) -> list[Part]:
    """The agent's text, and before it the thought that it begins with, if any."""
    made: list[Part] = []
    found = _THINK.match(text) if "<think" in text else None
    if found is not None:
        if found[1].strip():
            made.append(Thought(found[1].strip(), offset, at))
        text = text[found.end() :]
    if text and not text.isspace():
        made.append(Text(text, offset, at))
    return made


def _openai_call(one: object, offset: int, at: datetime | None, found: list[Part]) -> None:
    if not isinstance(one, dict):
        raise MessageError("bad_message", "wanted an object in tool_calls")
    if "custom" in one and isinstance(custom := one["custom"], dict):
        found.append(call(custom.get("name"), {"input": custom.get("input")}, one.get("id"), offset, at))
        return
    function = opened(one.get("function"))
    told = function if isinstance(function, dict) else one
    for key in _ARGUMENTS:
        if key in told:
            found.append(call(told.get("name"), told[key], one.get("id"), offset, at))
            return
    found.append(call(told.get("name"), None, one.get("id"), offset, at))


def _others(message: Message, offset: int, at: datetime | None, found: list[Part]) -> None:
    """What a message of the user holds: results, in Anthropic's shape, and what the user said."""
    content = content_of(message)
    if not isinstance(content, list):
        said = content if isinstance(content, str) else shown(content).text
        if said:
            found.append(Said("user", said, at=at))
        return
    words: list[Any] = []
    for block in content:
        if isinstance(block, dict) and (plain_text(block.get("type")).endswith("tool_result") or "toolResult" in block):
            found += _block(block, False, offset, at)
        else:
            words.append(block)
    text, pictures, _ = shown(words)
    if text or pictures:
        found.append(Said("user", text or "", pictures, at=at))


def _block(block: object, agent: bool, offset: int, at: datetime | None) -> Iterator[Part]:
    """The parts of one of Anthropic's blocks (Responses blocks of text among them) in a message of the agent or not."""
    if isinstance(block, str):
        yield from spoken(block, offset, at)
        return
    if not isinstance(block, dict):
        raise MessageError("bad_message", "wanted objects or texts in a content")
    kind = block.get("type")
    if not isinstance(kind, str):
        kind = next((key for key in _BEDROCK if key in block), "")
    if kind.endswith(("tool_use", "toolUse", "tool-call")):
        yield _used(block, offset, at)
    elif kind.endswith(("tool_result", "toolResult")):
        yield _resulted(block, offset, at)
    elif kind == "reasoningContent":
        yield from _bedrock_thought(block.get(kind), offset, at)
    elif kind in ("thinking", "reasoning"):
        thought = block.get("thinking") or block.get("text") or block.get("reasoning")
        if isinstance(thought, str) and thought:
            yield Thought(thought, offset, at)
    elif agent and kind in ("text", "output_text", "refusal"):
        text = block.get("text") or block.get("refusal")
        if isinstance(text, str):
            yield from spoken(text, offset, at)
    elif kind not in ("redacted_thinking", "image", "image_url", "container_upload"):
        raise MessageError("unknown_block", f"wanted a block of a chat message, met {kind[:80]!r}")


def _bedrock_thought(given: object, offset: int, at: datetime | None) -> Iterator[Part]:
    held = given.get("reasoningText") if isinstance(given, dict) else None
    thought = held.get("text") if isinstance(held, dict) else None
    if isinstance(thought, str) and thought:
        yield Thought(thought, offset, at)


def _used(block: Message, offset: int, at: datetime | None) -> Call:
    """The call in a block of Anthropic, of Bedrock (`toolUse`) or of the AI SDK (`tool-call`)."""
    block = vercel.block(block) if block.get("type") == "tool-call" else block
    use = block.get("toolUse")
    if isinstance(use, dict):
        made = call(use.get("name"), use.get("input"), use.get("toolUseId"), offset, at)
        made.hosted = use.get("type") == "server_tool_use"
        return made
    made = call(block.get("name"), block.get("input"), block.get("id"), offset, at)
    made.server, made.hosted = key_of(block.get("server_name")), block.get("type") != "tool_use"
    return made


def _resulted(block: Message, offset: int, at: datetime | None) -> Result:
    """The result in a block of Anthropic, or of Bedrock (`toolResult`)."""
    given = block.get("toolResult")
    if isinstance(given, dict):
        return _bedrock_result(given, offset, at)
    content, error = block.get("content"), failed(block)
    if error is None:
        error = True if is_server_error(content) else content_failed(content)
    seen = shown(content)
    return Result(
        call_id=key_of(block.get("tool_use_id")),
        name=None,
        content=seen_text(seen),
        offset=offset,
        is_error=error,
        attachments=seen.attachments,
        lost=seen.lost,
        at=at,
        exit_code=exit_code(content) if isinstance(content, dict) else None,
        hosted=block.get("type") != "tool_result",
    )


def _bedrock_result(given: Message, offset: int, at: datetime | None) -> Result:
    content = given.get("content")
    blocks = content if isinstance(content, list) else [content]
    ran = blocks[0].get("json") if len(blocks) == 1 and isinstance(blocks[0], dict) else None
    seen = shown([{"text": json_of(one["json"])} if isinstance(one, dict) and "json" in one else one for one in blocks])
    return Result(
        call_id=key_of(given.get("toolUseId")),
        name=None,
        content=seen_text(seen),
        offset=offset,
        is_error=failed(given),
        attachments=seen.attachments,
        lost=seen.lost,
        at=at,
        exit_code=exit_code(ran) if isinstance(ran, dict) else None,
        hosted="type" in given,
    )


def _written_call(message: Message, offset: int, at: datetime | None, found: list[Part]) -> None:
    """The calls that a message of a data set has as its content: JSON, or a Python literal of the same shape."""
    content = content_of(message)
    value = content
    if isinstance(content, str):
        try:
            value = json_value(content)
        except ValueError:
            value = literal_value(content)
    for one in value if isinstance(value, list) and value else [value]:
        if not isinstance(one, dict):
            raise MessageError("bad_message", "wanted a call with name and arguments as the content of a tool_call")
        _openai_call(one, offset, at, found)


def _gemini(message: Message, role: object, offset: int, at: datetime | None) -> Iterator[Part]:
    words: list[str] = []
    pictures: list[Attachment] = []
    for part in message["parts"]:
        if not isinstance(part, dict):
            raise MessageError("bad_message", "wanted objects in parts")
        made = part.get("functionCall") or part.get("function_call")
        back = part.get("functionResponse") or part.get("function_response")
        text = part.get("text")
        if isinstance(made, dict):
            yield call(made.get("name"), made.get("args"), made.get("id"), offset, at)
        elif isinstance(back, dict):
            yield _gemini_answer(back, offset, at)
        elif (ran := _code_run(part, offset, at)) is not None:
            yield ran
        elif isinstance(text, str) and role in ROLES_OF_AGENT:
            if text.strip():
                yield Thought(text, offset, at) if part.get("thought") is True else Text(text, offset, at)
        elif isinstance(text, str):
            words.append(text)
        elif role not in ROLES_OF_AGENT and (held := attachment_in(part)) is not None:
            pictures.append(held)
        elif role in ROLES_OF_AGENT and {key for key in part if part[key] is not None} - _SILENT:
            raise MessageError("unknown_block", f"wanted a part of a Gemini message, met {sorted(part)[:4]}")
    if words or pictures:
        said = "\n".join(words)
        yield System(said) if role in ROLES_OF_SYSTEMS else Said("user", said, tuple(pictures), at=at)


def _code_run(part: Message, offset: int, at: datetime | None) -> Call | Result | None:
    """The code that a part has the API run, or what that gave; None if it is another part."""
    code = part.get("executableCode") or part.get("executable_code")
    gave = part.get("codeExecutionResult") or part.get("code_execution_result")
    if isinstance(code, dict):
        made = call("code_execution", code, None, offset, at)
        made.hosted = True
        return made
    if not isinstance(gave, dict):
        return None
    told, outcome = gave.get("output"), gave.get("outcome")
    error = outcome != "OUTCOME_OK" if isinstance(outcome, str) else None
    return Result(
        call_id=None,
        name="code_execution",
        content=told if isinstance(told, str) else "",
        offset=offset,
        is_error=error,
        at=at,
        hosted=True,
    )


def _gemini_answer(back: Message, offset: int, at: datetime | None) -> Result:
    """The result in a part; what the API has a place for output or an error for is taken out of it.

    From Gemini 3 on, what the function returned besides JSON stands in `parts`, beside an empty `response`.
    """
    given, error = back.get("response"), None
    if isinstance(given, dict) and len(given) == 1:
        key = next(iter(given))
        error = True if key == "error" else None
        given = given[key] if key in _WRAPPED else given
    made = answer(
        {"content": given, "name": back.get("name"), "id": back.get("id"), "is_error": error}, offset, at, "id"
    )
    beside = back.get("parts")
    seen = [shown_by(part) for part in beside if isinstance(part, dict)] if isinstance(beside, list) else []
    if not seen:
        return made
    texts = [text for text in (made.content if given else None, *(one.text for one in seen)) if text is not None]
    return replace(
        made,
        content="\n".join(texts) if texts else None,
        attachments=(*made.attachments, *(held for one in seen for held in one.attachments)),
        lost=made.lost or any(one.lost for one in seen),
    )


_READERS: Final[Mapping[str, Callable[[Message, int, datetime | None, list[Part]], None]]] = {
    **dict.fromkeys(ROLES_OF_AGENT, _agent),
    **dict.fromkeys(ROLES_OF_USERS, _others),
    **dict.fromkeys(ROLES_OF_SYSTEMS, _system),
    **dict.fromkeys(ROLES_OF_ANSWERS, _answers),
    **dict.fromkeys(_CALL, _written_call),
    HARNESS: _harness,
}
