"""Chat messages of any vendor as parts: OpenAI, Anthropic, Gemini, Responses items, and rows of published data sets.

These shapes are recognized message by message:

- OpenAI chat: `tool_calls` (arguments are a JSON string; objects are accepted too), the older `function_call`, answers
  of role `tool` or `function`; `reasoning_content` beside the content.
- Anthropic: blocks `tool_use`, `server_tool_use`, `mcp_tool_use` and their results, `thinking`.
- Gemini: `parts` with `functionCall` and `functionResponse`, in camel case or snake case.
- OpenAI Responses: items `message`, `reasoning`, `function_call`, `custom_tool_call`, their outputs, and `mcp_call`,
  which contains both; calls of tools defined by the API (`web_search_call`, `computer_call`, …).
- Frameworks: LangChain, Pydantic AI, the AI SDK, smolagents and ADK, each by its module of `dialects`.
- Data sets: `from` and `value` for role and content, with the roles `human`, `gpt`, `function_call` and `observation`;
  the roles `tool_call` and `tool_response`, whose content is the call as JSON or as a Python literal.

A thought at the head of a text (`<think>…</think>`) is a thought. `written_calls` reads calls written into a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from trajmill.connectors.conversation.answers import answer, content_of
from trajmill.connectors.conversation.calls import MessageError, call, json_of
from trajmill.connectors.conversation.content import is_server_error, result_of, shown, shown_by
from trajmill.connectors.conversation.dialects import plain, vercel
from trajmill.connectors.conversation.failures import content_failed, exit_code, is_failure
from trajmill.connectors.conversation.harness_text import GEMINI_CLI, is_clients
from trajmill.connectors.conversation.literals import literal_value
from trajmill.connectors.conversation.opaque import attachment_in
from trajmill.connectors.conversation.pairing import Conversation, conversation
from trajmill.connectors.conversation.response_items import item_parts
from trajmill.connectors.conversation.turns import Call, Part, Result, Said, System, Text, Thought, Unlogged
from trajmill.connectors.reading.fields import key_of, object_of, objects_of, plain_text, text_of
from trajmill.connectors.reading.json_text import parse_if_json
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
"""Role of the harness's words, which `written_calls` separates from the text that they enclose."""


_ARGUMENTS: Final = ("arguments", "args", "input")
_BEDROCK: Final = ("text", "toolUse", "toolResult", "reasoningContent")
"""Keys of Bedrock's blocks, which have no type."""

_THOUGHTS: Final = ("reasoning_content", "reasoning", "thinking")

_THANKS: Final = "Got it. Thanks for the additional context!"

_SILENT: Final = frozenset({"thought", "thoughtSignature", "thought_signature", "inlineData", "inline_data", "text"})
"""Members of an agent's Gemini part that carry no information alone; an image that it drew is no observation."""

_WRAPPED: Final = ("output", "result", "error", "return_value")
"""Members that wrap a function's whole response, by the API and by its SDKs."""

_OTHERS: Final = frozenset({"parts", "toolInvocations", "channel", "recipient"})
"""Keys of messages whose role alone does not decide how they are read."""

ROLES: Final = ROLES_OF_AGENT | ROLES_OF_USERS | ROLES_OF_SYSTEMS | ROLES_OF_ANSWERS | _CALL


def conversation_in(messages: Iterable[object], offset: int = 0, *, instructed: bool = False) -> Conversation:
    """Build the conversation of a list of chat messages.

    Args:
        messages: Messages of any shape, in the order of the log. The results of a list are held in memory, like the
            list.
        instructed: As in `pairing.conversation`.

    Raises:
        MessageError: A message has an unknown shape.
    """
    if isinstance(messages, list):
        return conversation(parts_in(messages, offset), instructed=instructed)
    return conversation((part for message in messages for part in parts_in((message,), offset)), instructed=instructed)


def parts(message: Message, offset: int) -> list[Part]:
    """Return the parts of a message in their order; see `parts_in`.

    Raises:
        MessageError: The message has an unknown shape.
    """
    return parts_in((message,), offset)


def parts_in(messages: Iterable[object], offset: int) -> list[Part]:
    """Convert messages to parts in their order; `offset` is that of each message or of its container in the log.

    Raises:
        MessageError: A message is no object, or has an unknown shape.
    """
    parts: list[Part] = []
    for message in messages:
        if not isinstance(message, dict):
            raise MessageError("bad_message", f"wanted an object as a message, met {type(message).__name__}")
        role = message.get("role")
        reader = _READERS.get(role) if type(role) is str else None
        if reader is None or not _OTHERS.isdisjoint(message):
            _read_other(message, offset, parts)
        else:
            reader(message, offset, moment(message["timestamp"]) if "timestamp" in message else None, parts)
    return _in_order(parts) if any(isinstance(part, Result) and _is_nameless(part) for part in parts) else parts


def _in_order(parts: list[Part]) -> list[Part]:
    """Name the answers of parallel calls by their calls, if they have no names and match in order and number."""
    ordered: list[Part] = []
    calls: list[Call] = []
    answers: list[Result] = []
    for part in (*parts, None):
        if isinstance(part, Result):
            answers.append(part)
            continue
        if answers or not isinstance(part, Call | Text | Thought):
            ordered += _name_answers(answers, calls)
            calls, answers = [], []
        if part is not None:
            ordered.append(part)
            calls += [part] if isinstance(part, Call) else []
    return ordered


def _name_answers(answers: list[Result], calls: list[Call]) -> list[Result]:
    """Return the answers with the names of their calls; a single JSON list with one value per call is split."""
    if len(calls) < 2 or not all(map(_is_nameless, answers)):
        return answers
    values = parse_if_json(answers[0].content) if len(answers) == 1 else None
    if isinstance(values, list) and len(values) == len(calls):
        answers = [replace(answers[0], content=value if isinstance(value, str) else json_of(value)) for value in values]
    if len(answers) != len(calls):
        return answers
    return [replace(result, name=named_call.name) for result, named_call in zip(answers, calls, strict=True)]


def _is_nameless(answer_: Result) -> bool:
    return answer_.call_id is None and answer_.name is None


def _read_other(message: Message, offset: int, parts: list[Part]) -> None:
    """Add the parts of a message without a role, of a Gemini message, or of a framework's message."""
    if (messages := plain(message)) is not None:
        parts += parts_in(messages, offset)
        return
    role = message.get("role") or message.get("from")
    at = moment(message["timestamp"]) if "timestamp" in message else None
    listed = isinstance(message.get("parts"), list)
    if role is not None and not isinstance(role, str):
        raise MessageError("unknown_role", "wanted a text as role")
    if listed:
        parts += _gemini(message, role or "user", offset, at)  # Gemini's requests of one message name no role
    elif role is None:
        parts += item_parts(message, offset, at)
    elif role in _READERS:
        _READERS[role](message, offset, at, parts)
    else:
        raise MessageError("unknown_role", f"wanted a role of a chat, met {role[:80]!r}")


def _system(message: Message, offset: int, at: datetime | None, parts: list[Part]) -> None:  # noqa: ARG001
    parts.append(System(shown(content_of(message)).text or ""))


def _harness(message: Message, offset: int, at: datetime | None, parts: list[Part]) -> None:  # noqa: ARG001
    parts.append(Said("harness", shown(content_of(message)).text or ""))


def _answers(message: Message, offset: int, at: datetime | None, parts: list[Part]) -> None:
    blocks = objects_of(message.get("content"))
    if blocks and all(block.get("type") == "tool-result" for block in blocks):
        parts += (_read_result(vercel.block(block), offset, at) for block in blocks)
    else:
        parts.append(answer(message, offset, at))


def _agent(message: Message, offset: int, at: datetime | None, parts: list[Part]) -> None:
    calls = parse_if_json(message.get("tool_calls")) or None
    for key in _THOUGHTS:
        if key in message and isinstance(message[key], str) and message[key]:
            parts.append(Thought(message[key], offset, at))
            break
    _read_agent_content(content_of(message), offset, at, parts)
    if calls is not None and not isinstance(calls, list):
        raise MessageError("bad_message", "wanted a list as tool_calls")
    if calls:
        for tool_call in calls:
            _openai_call(parse_if_json(tool_call), offset, at, parts)
    elif isinstance(legacy := parse_if_json(message.get("function_call")), dict) and any(legacy.values()):
        parts.append(call(legacy.get("name"), legacy.get("arguments"), None, offset, at))
    if message.get("stop_reason"):  # it is a whole response: what the agent says next, it says when asked again
        parts.append(Unlogged(offset))


def _read_agent_content(content: object, offset: int, at: datetime | None, parts: list[Part]) -> None:
    """Add the parts in the content of an agent's message."""
    if isinstance(content, str):
        parts += spoken(content, offset, at)
    elif isinstance(content, list):
        for block in content:
            parts += _block(block, True, offset, at)
    elif content is not None:
        parts.append(Text(json_of(content), offset, at))


def spoken(text: str, offset: int, at: datetime | None) -> list[Part]:
    """Split the agent's text into an optional thought at its beginning and the words after it."""
    parts: list[Part] = []
    thought = _THINK.match(text) if "<think" in text else None
    if thought is not None:
        if thought[1].strip():
            parts.append(Thought(thought[1].strip(), offset, at))
        text = text[thought.end() :]
    if text and not text.isspace():
        parts.append(Text(text, offset, at))
    return parts


def _openai_call(entry: object, offset: int, at: datetime | None, parts: list[Part]) -> None:
    if not isinstance(entry, dict):
        raise MessageError("bad_message", "wanted an object in tool_calls")
    if isinstance(custom := entry.get("custom"), dict) and any(custom.values()):
        parts.append(call(custom.get("name"), {"input": custom.get("input")}, entry.get("id"), offset, at))
        return
    function = parse_if_json(entry.get("function"))
    fields = function if isinstance(function, dict) else entry
    for key in _ARGUMENTS:
        if key in fields:
            parts.append(call(fields.get("name"), fields[key], entry.get("id"), offset, at))
            return
    parts.append(call(fields.get("name"), None, entry.get("id"), offset, at))


def _others(message: Message, offset: int, at: datetime | None, parts: list[Part]) -> None:
    """Add the parts of a user's message: results, in Anthropic's shape, and the user's words."""
    content = content_of(message)
    if not isinstance(content, list):
        spoken_words = content if isinstance(content, str) else shown(content).text
        if spoken_words:
            parts.append(Said("user", spoken_words, at=at))
        return
    words: list[Any] = []
    for block in content:
        if isinstance(block, dict) and (plain_text(block.get("type")).endswith("tool_result") or "toolResult" in block):
            parts += _block(block, False, offset, at)
        else:
            words.append(block)
    text, pictures, _ = shown(words)
    if text or pictures:
        parts.append(Said("user", text or "", pictures, at=at))


def _block(block: object, agent: bool, offset: int, at: datetime | None) -> Iterator[Part]:
    """Yield the parts of an Anthropic block, or a text block of Responses, in a message of the agent or of others."""
    if isinstance(block, str):
        yield from spoken(block, offset, at)
        return
    if not isinstance(block, dict):
        raise MessageError("bad_message", "wanted objects or texts in a content")
    kind = block.get("type")
    if not isinstance(kind, str):
        kind = next((key for key in _BEDROCK if key in block), "")
    if kind.endswith(("tool_use", "toolUse", "tool-call")):
        yield _read_call(block, offset, at)
    elif kind.endswith(("tool_result", "toolResult")):
        yield _read_result(block, offset, at)
    elif kind in ("reasoningContent", "thinking", "reasoning"):
        yield from _thought(block, offset, at)
    elif kind == "compaction":  # Anthropic's summary of all before; null if it failed
        yield from (Said("compaction", text) for text in [text_of(block.get("content"))] if text is not None)
    elif agent and kind in ("text", "output_text", "refusal"):
        text = block.get("text") or block.get("refusal")
        if isinstance(text, str):
            yield from spoken(text, offset, at)
    elif kind not in ("redacted_thinking", "image", "image_url", "container_upload"):
        raise MessageError("unknown_block", f"wanted a block of a chat message, met {kind[:80]!r}")


def _thought(block: Message, offset: int, at: datetime | None) -> Iterator[Part]:
    """Yield the thought in a block of Anthropic or Bedrock (`reasoningContent`)."""
    reasoning = object_of(object_of(block.get("reasoningContent")).get("reasoningText"))
    thought = reasoning.get("text") or block.get("thinking") or block.get("text") or block.get("reasoning")
    if isinstance(thought, str) and thought:
        yield Thought(thought, offset, at)


def _read_call(block: Message, offset: int, at: datetime | None) -> Call:
    """Return the call in a block of Anthropic, Bedrock (`toolUse`) or the AI SDK (`tool-call`)."""
    block = vercel.block(block) if block.get("type") == "tool-call" else block
    use = block.get("toolUse")
    if isinstance(use, dict):
        tool_call = call(use.get("name"), use.get("input"), use.get("toolUseId"), offset, at)
        tool_call.hosted = use.get("type") == "server_tool_use"
        return tool_call
    tool_call = call(block.get("name"), block.get("input"), block.get("id"), offset, at)
    tool_call.server, tool_call.hosted = key_of(block.get("server_name")), block.get("type") != "tool_use"
    return tool_call


def _read_result(block: Message, offset: int, at: datetime | None) -> Result:
    """Return the result in a block of Anthropic or Bedrock (`toolResult`)."""
    tool_result = block.get("toolResult")
    if isinstance(tool_result, dict):
        return _bedrock_result(tool_result, offset, at)
    content, error = block.get("content"), is_failure(block)
    if error is None:
        error = True if is_server_error(content) else content_failed(content)
    code = exit_code(content) if isinstance(content, dict) else None
    key, hosted = key_of(block.get("tool_use_id")), block.get("type") != "tool_result"
    return result_of(shown(content), key, offset, is_error=error, at=at, exit_code=code, hosted=hosted)


def _bedrock_result(tool_result: Message, offset: int, at: datetime | None) -> Result:
    content = tool_result.get("content")
    blocks = content if isinstance(content, list) else [content]
    ran = blocks[0].get("json") if len(blocks) == 1 and isinstance(blocks[0], dict) else None
    seen = shown(
        [{"text": json_of(entry["json"])} if isinstance(entry, dict) and "json" in entry else entry for entry in blocks]
    )
    key, error = key_of(tool_result.get("toolUseId")), is_failure(tool_result)
    code = exit_code(ran) if isinstance(ran, dict) else None
    return result_of(seen, key, offset, is_error=error, at=at, exit_code=code, hosted="type" in tool_result)


def _read_written_call(message: Message, offset: int, at: datetime | None, parts: list[Part]) -> None:
    """Add the calls in the content of a data set's message: JSON, or a Python literal of the same shape."""
    content = content_of(message)
    value = content
    if isinstance(content, str):
        try:
            value = json_value(content)
        except ValueError:
            value = literal_value(content)
    for entry in value if isinstance(value, list) and value else [value]:
        if not isinstance(entry, dict):
            raise MessageError("bad_message", "wanted a call with name and arguments as the content of a tool_call")
        _openai_call(entry, offset, at, parts)


def _gemini(message: Message, role: object, offset: int, at: datetime | None) -> Iterator[Part]:
    words: list[str] = []
    pictures: list[Attachment] = []
    for part in message["parts"]:
        if not isinstance(part, dict):
            raise MessageError("bad_message", "wanted objects in parts")
        function_call = part.get("functionCall") or part.get("function_call")
        back = part.get("functionResponse") or part.get("function_response")
        text = part.get("text")
        if isinstance(function_call, dict):
            yield call(function_call.get("name"), function_call.get("args"), function_call.get("id"), offset, at)
        elif isinstance(back, dict):
            yield _gemini_answer(back, offset, at)
        elif (ran := _code_run(part, offset, at) or _gemini_hosted(part, offset, at)) is not None:
            yield ran
        elif isinstance(text, str) and _is_gemini_clis(text, role):
            yield Said("harness", text, at=at)
        elif isinstance(text, str) and role in ROLES_OF_AGENT:
            yield from _written(part, text, offset, at)
        elif isinstance(text, str):
            words.append(text)
        elif role not in ROLES_OF_AGENT and (picture := attachment_in(part)) is not None:
            pictures.append(picture)
        elif role in ROLES_OF_AGENT and {key for key in part if part[key] is not None} - _SILENT:
            raise MessageError("unknown_block", f"wanted a part of a Gemini message, met {sorted(part)[:4]}")
    if words or pictures:
        spoken_words = "\n".join(words)
        yield System(spoken_words) if role in ROLES_OF_SYSTEMS else Said("user", spoken_words, tuple(pictures), at=at)


def _is_gemini_clis(text: str, role: object) -> bool:
    """Check whether Gemini CLI put a text into a conversation: its context, or what the model is to have said to it."""
    if role in ROLES_OF_AGENT:
        return text == _THANKS
    return role not in ROLES_OF_SYSTEMS and is_clients(text, GEMINI_CLI)


def _written(part: Message, text: str, offset: int, at: datetime | None) -> Iterator[Part]:
    if text.strip():
        yield Thought(text, offset, at) if part.get("thought") is True else Text(text, offset, at)


def _code_run(part: Message, offset: int, at: datetime | None) -> Call | Result | None:
    """Return the code that a part has the API run, or its result; None for any other part."""
    code = part.get("executableCode") or part.get("executable_code")
    gave = part.get("codeExecutionResult") or part.get("code_execution_result")
    if isinstance(code, dict):
        code_call = call("code_execution", code, None, offset, at)
        code_call.hosted = True
        return code_call
    if not isinstance(gave, dict):
        return None
    output, outcome = gave.get("output"), gave.get("outcome")
    error = outcome != "OUTCOME_OK" if isinstance(outcome, str) else None
    return Result(
        call_id=None,
        name="code_execution",
        content=output if isinstance(output, str) else "",
        offset=offset,
        is_error=error,
        at=at,
        hosted=True,
    )


def _gemini_hosted(part: Message, offset: int, at: datetime | None) -> Call | Result | None:
    """Return the call of a tool that the API runs itself, or its answer; None for any other part.

    Of what it found the API shows at most a widget for people, and seals the rest.
    """
    called = part.get("toolCall") or part.get("tool_call")
    answered = part.get("toolResponse") or part.get("tool_response")
    event = called if isinstance(called, dict) else answered
    if not isinstance(event, dict):
        return None
    name = plain_text(event.get("toolType") or event.get("tool_type") or "").lower()
    if event is called:
        hosted_call = call(name, called.get("args"), called.get("id"), offset, at)
        hosted_call.hosted = True
        return hosted_call
    response = {key: value for key, value in object_of(event.get("response")).items() if key != "search_suggestions"}
    text = json_of(response) if response else None
    return Result(key_of(event.get("id")), name, text, offset, at=at, hosted=True, lost=text is None)


def _gemini_answer(back: Message, offset: int, at: datetime | None) -> Result:
    """Return the result in a part, without the API's wrapper for an output or an error.

    From Gemini 3 on, results other than JSON are in `parts`, beside an empty `response`.
    """
    response, error = back.get("response"), None
    if isinstance(response, dict) and len(response) == 1:
        key = next(iter(response))
        error = True if key == "error" else None
        response = response[key] if key in _WRAPPED else response
    result = answer(
        {"content": response, "name": back.get("name"), "id": back.get("id"), "is_error": error}, offset, at, "id"
    )
    beside = back.get("parts")
    seen = [shown_by(part) for part in beside if isinstance(part, dict)] if isinstance(beside, list) else []
    if not seen:
        return result
    texts = [
        text for text in (result.content if response else None, *(piece.text for piece in seen)) if text is not None
    ]
    return replace(
        result,
        content="\n".join(texts) if texts else None,
        attachments=(*result.attachments, *(attachment for piece in seen for attachment in piece.attachments)),
        lost=result.lost or any(piece.lost for piece in seen),
    )


_READERS: Final[Mapping[str, Callable[[Message, int, datetime | None, list[Part]], None]]] = {
    **dict.fromkeys(ROLES_OF_AGENT, _agent),
    **dict.fromkeys(ROLES_OF_USERS, _others),
    **dict.fromkeys(ROLES_OF_SYSTEMS, _system),
    **dict.fromkeys(ROLES_OF_ANSWERS, _answers),
    **dict.fromkeys(_CALL, _read_written_call),
    HARNESS: _harness,
}
