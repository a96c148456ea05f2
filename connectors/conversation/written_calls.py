r"""Calls that an agent writes into its text, and the answers to them, as messages that hold them as calls and answers.

Two forms are read, both of published data sets, and only in conversations that have no call beside their texts:

- tags, as Hermes and Qwen train them: `<tool_call>{"name": …, "arguments": …}</tool_call>`, answered by
  `<tool_response>…</tool_response>` in messages of the role `tool` or `user`;
- lists, as ToolACE has them: `[name(argument="…"), …]`, answered by a list of objects with name and results. Such a
  text is a call only if the system prompt declares tools and all of its names are among them.

What cannot be read as the call that it claims to be refuses the conversation; it is never half of one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from trajmill.connectors.conversation.answers import content_of
from trajmill.connectors.conversation.calls import MessageError, json_of
from trajmill.connectors.conversation.literals import literal_value
from trajmill.connectors.conversation.shapes import ROLES_OF_AGENT, ROLES_OF_ANSWERS, ROLES_OF_SYSTEMS
from trajmill.connectors.reading.values import JsonError, first_value, json_value

Message = Mapping[str, Any]

_CALL: Final = "<tool_call>"
_CALL_END: Final = "</tool_call>"
_ANSWER: Final = "<tool_response>"
_ANSWER_END: Final = "</tool_response>"
_TOOLS: Final = ("<tools>", "</tools>")
_LIST: Final = re.compile(r'\[\s*\{\s*"(?:name|type|function|description|parameters)"')
_WORD: Final = re.compile(r"[^\s=,()\[\]{}\"']+")
_CONSTANTS: Final = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|\b(?:true|false|null)\b", re.DOTALL)
_PYTHON: Final = {"true": "True", "false": "False", "null": "None"}
_ARGUMENTS: Final = ("arguments", "parameters", "args")
_RESULTS: Final = ("content", "results", "result", "output", "response")
_IDS: Final = frozenset({"name", "tool_call_id", "call_id", "id"})
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}


def declared(system: str | None) -> list[dict[str, Any]]:
    """The tools that a system prompt declares as JSON, between `<tools>` tags or as a list of functions."""
    text = system or ""
    _, opened, inner = text.partition(_TOOLS[0])
    if opened:
        return [one for value in _values(inner.partition(_TOOLS[1])[0]) for one in _tools(value)]
    found = _LIST.search(text)
    if found is None:
        return []
    try:
        return _tools(first_value(text, found.start())[0])
    except JsonError:
        return []


def _values(text: str) -> Iterator[Any]:
    """The JSON values that stand one after the other in a text, up to what is none."""
    place = 0
    while found := re.compile(r"[\[{]").search(text, place):
        try:
            value, place = first_value(text, found.start())
        except JsonError:
            return
        yield value


def _tools(value: Any) -> list[dict[str, Any]]:
    listed = value if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, dict) and _name(one) is not None]


def _name(tool: Mapping[str, Any]) -> str | None:
    function = tool.get("function")
    name = (function if isinstance(function, dict) else tool).get("name")
    return name if isinstance(name, str) and name else None


def names_of(tools: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """The names of declared tools."""
    return frozenset(name for tool in tools if (name := _name(tool)) is not None)


def _role(message: Message) -> str | None:
    role = message.get("role") or message.get("from")
    return role if isinstance(role, str) else None


def is_written(message: Any, names: Collection[str]) -> bool:
    """Whether a message of the agent has a call in its text; `names` are those of the declared tools."""
    if not isinstance(message, Mapping) or _role(message) not in ROLES_OF_AGENT:
        return False
    text = content_of(message)
    if not isinstance(text, str):
        return False
    if _CALL in text:
        return "{" in text.partition(_CALL)[2][:64]
    return _is_list(text, names)


def _is_list(text: str, names: Collection[str]) -> bool:
    begin = text.strip()
    return begin[:1] == "[" and begin[1:].partition("(")[0].strip() in names


def system_of(messages: Iterable[Any]) -> str:
    """The system prompts among messages."""
    told = (content_of(one) for one in messages if isinstance(one, Mapping) and _role(one) in ROLES_OF_SYSTEMS)
    return "\n\n".join(text for text in told if isinstance(text, str))


def structured(messages: Iterable[Any], names: Collection[str]) -> Iterator[Any]:
    """The messages, with calls that are written into them and their answers taken out of the texts.

    Args:
        messages: of a conversation that has no other calls.
        names: of the declared tools.

    Raises:
        MessageError: `bad_call` of what begins as a call and cannot be read as one.
    """
    waiting: list[str] = []
    for message in messages:
        text = content_of(message) if isinstance(message, Mapping) else None
        role = _role(message) if isinstance(message, Mapping) else None
        if isinstance(text, str) and is_written(message, names):
            rest, calls = _tagged(text) if _CALL in text else ("", _listed(text, names))
            waiting = [one["name"] for one in calls]
            others = {key: value for key, value in message.items() if key not in ("content", "value", "from")}
            yield {**others, "role": "assistant", "content": rest, "tool_calls": calls}
        elif isinstance(text, str) and (role in ROLES_OF_ANSWERS or text.lstrip().startswith(_ANSWER)):
            for name, content in _answers(text, waiting):
                yield {"role": "tool", "name": name, "content": content}
        else:
            yield message


def _tagged(text: str) -> tuple[str, list[dict[str, Any]]]:
    """What a text says beside its tagged calls, and these; one that is not closed goes to the end."""
    thought, closed, body = text.rpartition("</think>") if text.lstrip().startswith("<think") else ("", "", text)
    before, *pieces = body.split(_CALL)
    words, calls = [thought + closed + before], []
    for piece in pieces:
        inner, _, behind = piece.partition(_CALL_END)
        words.append(behind)
        calls.append(_call(inner.strip()))
    return "\n".join(part for one in words if (part := one.strip())), calls


def _call(text: str) -> dict[str, Any]:
    try:
        value = json_value(text)
    except JsonError:
        value = literal_value(text)
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name:
        raise MessageError("bad_call", f"wanted name and arguments between {_CALL} tags, met {text[:80]!r}")
    return {"name": name, "arguments": next((value[key] for key in _ARGUMENTS if key in value), None)}


def _answers(text: str, waiting: Sequence[str]) -> list[tuple[str | None, str]]:
    """(name, content) of each answer in a message; those that say no name have that of the call at their place."""
    if _ANSWER in text:
        inner = [piece.partition(_ANSWER_END)[0].strip("\n") for piece in text.split(_ANSWER)[1:]]
        told = [_unwrapped(_parsed(one), one) for one in inner]
    else:
        value = _parsed(text)
        alone = not (isinstance(value, list) and len(value) == len(waiting) and all(map(_is_answer, value)))
        told = [_unwrapped(value, text)] if alone else [_unwrapped(one, "") for one in value]
    placed = len(told) == len(waiting)
    return [
        (name if name in waiting else waiting[number] if placed else None, content)
        for number, (name, content) in enumerate(told)
    ]


def _parsed(text: str) -> Any:
    try:
        return json_value(text) if text.lstrip()[:1] in ("{", "[") else None
    except JsonError:
        return None


def _is_answer(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return False
    others = value.keys() - _IDS
    return len(others) == 1 and others <= set(_RESULTS)


def _unwrapped(value: Any, text: str) -> tuple[str | None, str]:
    """Name and content of an answer; where it is no object of both, its text."""
    if not _is_answer(value):
        return None, text
    content = next(value[key] for key in _RESULTS if key in value)
    return value["name"], content if isinstance(content, str) else json_of(content)


def _listed(text: str, names: Collection[str]) -> list[dict[str, Any]]:
    """The calls of a text `[name(argument=value, …), …]`.

    Raises:
        MessageError: it is not wholly so.
    """
    inner = text.strip()
    parts = _split(inner[1:-1]) if inner.endswith("]") else None
    calls: list[dict[str, Any]] = []
    for part in parts or ():
        name, opened, given = part.partition("(")
        arguments = _split(given.rstrip()[:-1]) if opened and given.rstrip().endswith(")") else None
        pairs = [_pair(one) for one in arguments or ()]
        if name.strip() not in names or arguments is None or None in pairs:
            calls = []
            break
        calls.append({"name": name.strip(), "arguments": dict(one for one in pairs if one is not None)})
    if not calls:
        raise MessageError("bad_call", f"wanted calls as [name(argument=value)], met {text[:80]!r}")
    return calls


def _split(text: str) -> list[str] | None:
    """The parts of a text between commas that stand in no quotes and brackets; None if these do not close."""
    parts: list[str] = []
    closing: list[str] = []
    begin = place = 0
    while place < len(text):
        sign = text[place]
        if sign in "\"'" and not text[place - 1 : place].isalnum():
            quoted = re.compile(rf"{sign}(?:[^{sign}\\]|\\.)*+{sign}", re.DOTALL).match(text, place)
            if quoted is None:
                return None
            place = quoted.end()
            continue
        if sign in _CLOSING:
            closing.append(_CLOSING[sign])
        elif sign in ")]}":
            if not closing or closing.pop() != sign:
                return None
        elif sign == "," and not closing:
            parts.append(text[begin:place])
            begin = place + 1
        place += 1
    if closing:
        return None
    return [*parts, text[begin:]] if text[begin:].strip() else parts


def _pair(text: str) -> tuple[str, Any] | None:
    """Name and value of an argument; None if it is none."""
    name, equal, written = text.partition("=")
    if not equal or _WORD.fullmatch(name.strip()) is None:
        return None
    try:
        return name.strip(), json_value(written.strip())
    except JsonError:
        python = _CONSTANTS.sub(lambda found: _PYTHON.get(found[0], found[0]), written.strip())
        value = literal_value(python)
        return None if (value is None and python != "None") or not _is_json(value) else (name.strip(), value)


def _is_json(value: Any) -> bool:
    """Whether a Python literal is a JSON value."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or isinstance(value, str | int | float)
