r"""Calls that an agent writes into its texts, and the answers to them, as messages that hold them as blocks.

One table has all forms (`FORMS`); each is told by its own mark, and read only in conversations that have no call beside
their texts. What begins as a call and cannot be read as one refuses the conversation; it is never half of one. A text
that mentions a mark in a thought, a fence or inline code, or as prose, calls nothing.

    <tool_call>{"name": "look", "arguments": {"bed": 2}}</tool_call>      (the agent)
    <tool_response>dry</tool_response>                                    (the user, or a tool)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from trajmill.connectors.conversation.answers import content_of
from trajmill.connectors.conversation.calls import MessageError, json_of
from trajmill.connectors.conversation.content import spoken_text
from trajmill.connectors.conversation.dialects import plain
from trajmill.connectors.conversation.shapes import (
    HARNESS,
    ROLES_OF_AGENT,
    ROLES_OF_ANSWERS,
    ROLES_OF_SYSTEMS,
    ROLES_OF_USERS,
)
from trajmill.connectors.conversation.written_calls import actions, client_xml, python_calls, tags, tokens
from trajmill.connectors.conversation.written_calls.form import Block, Form, blocks_in, first_mark, mark_of
from trajmill.connectors.reading.fields import objects_of, str_of
from trajmill.connectors.reading.values import JsonError, first_value, json_value
from trajmill.schemas.record import record

Message = Mapping[str, Any]

_RESPONSE: Final = re.compile(r"\s*<tool_response>\n?")
_RESPONSE_END: Final = re.compile(r"\n?</tool_response>\s*(?=<tool_response>|\Z)")
_SHOWN: Final = re.compile(
    r"\s*(?:Observation|OBSERVATION|OS output|The output of the OS):[ \t]*\n*|The output of the OS is empty\."
)
_STEPS_LEFT: Final = re.compile(
    r"\n?You have \d+ steps left and \d+ chances? to propose solution left\.[^\n]*(?:\n[^\n]+)?\Z"
)

FORMS: Final = (
    Form(  # Hermes and Qwen, Qwen3-Coder, GLM
        "<tool_call>",
        mark_of(
            r"<tool_call>(?=\s*[{\[]|\s*<function=|\s*[^\s<>{}]+\s*<arg_key>|\s*[^\s<>{}]+\s*</tool_call>)"
            r"|^[ \t]*<tool_call>[ \t]*$"
        ),
        tags.tagged,
        _RESPONSE,
        _RESPONSE_END,
        wrapped=True,
    ),
    Form(  # OpenHands and R2E-Gym, answered under their heads (see `templates`)
        "<function=",
        mark_of(r"<function=(?=[^<>\s]{1,200}>)"),
        tags.function,
        re.compile(r"(?=(?:Exit code: -?\d+\n)?(?:EXECUTION RESULT|Execution output) of \[|OBSERVATION:\n)"),
        plain=True,
    ),
    Form(  # Kimi K2
        "<|tool_call",
        mark_of(r"<\|tool_calls?_section_begin\|>|<\|tool_call_begin\|>"),
        tokens.section,
        re.compile(r"\s*## Return of (?P<id>[^\s<>|]{1,200})\n"),
    ),
    Form(  # harmony
        "<|channel|>",
        mark_of(r"(?:<\|start\|>assistant(?:[ \t]*to=[^\s<]+)?)?<\|channel\|>"),
        tokens.channels,
        re.compile(r"\s*<\|start\|>(?:functions\.)?(?P<name>[^\s<]+) to=assistant<\|channel\|>\w*<\|message\|>"),
        re.compile(r"<\|end\|>\s*(?=<\|start\|>|\Z)"),
    ),
    Form(  # Cline and Roo; of `use_mcp_tool` MiroThinker, too
        "</",
        mark_of(rf"<(?P<tool>{client_xml.TOOLS})>\s*(?=<)"),
        client_xml.called,
        client_xml.HEAD,
        plain=True,
    ),
    Form(  # CodeAct and OpenDevin
        "<execute",
        mark_of(r"<execute(?:_bash|_ipython|_browse)?>"),
        actions.code,
        _SHOWN,
        tail=_STEPS_LEFT,
        plain=True,
    ),
    Form(
        "<function_calls>",
        mark_of(r"<function_calls>(?=\s*[\w.]+\()"),
        python_calls.lined,
        re.compile(r"(?=[{\[])"),
        plain=True,
    ),  # Olmo
    Form(  # ToolACE
        "[", mark_of(r"\A\s*\[\s*(?P<name>[^(\[\]{}\n]{1,200}?)\s*\("), python_calls.listed, wrapped=True, declared=True
    ),
    Form(  # ReAct, AgentInstruct, AgentTraj
        ":",
        mark_of(r"^[ \t]*(?:Action|ACTION|Act):[ \t]*\n*"),
        actions.action,
        _SHOWN,
        plain=True,
        asks=actions.asks_for_actions,
    ),
    Form(  # smolagents
        "ode",
        mark_of(r"^(?:Code:\s*\n```(?:py|python)?[ \t]*\n|<code>[ \t]*\n)"),
        actions.blob,
        _SHOWN,
        asks=actions.asks_for_code,
    ),
)

CLIENT_XML: Final = FORMS[4]
_TOOLS: Final = ("<tools>", "</tools>")
_LIST: Final = re.compile(r'\[\s*\{\s*"(?:name|type|function|description|parameters)"')
_RESULTS: Final = ("content", "results", "result", "output", "response")
_IDS: Final = frozenset({"name", "tool_call_id", "call_id", "id"})
_LINE: Final = re.compile(r"^", re.MULTILINE)
_ROLES: Final = {
    **dict.fromkeys(ROLES_OF_AGENT, "assistant"),
    **dict.fromkeys(ROLES_OF_ANSWERS, "tool"),
    **dict.fromkeys(ROLES_OF_SYSTEMS, "system"),
    **dict.fromkeys(ROLES_OF_USERS, "user"),
}


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
    return str_of((function if isinstance(function, dict) else tool).get("name")) or None


@record
class Written:
    """How the calls of a conversation are written into its texts: the form, and the tools that are declared."""

    form: Form
    tools: list[dict[str, Any]]

    def structured(self, messages: Sequence[Any]) -> Iterator[Any]:
        """The messages, with calls as blocks and answers as messages of tools.

        Raises:
            MessageError: `bad_call` of what begins as a call and is none, `result_without_call` of an answer to none.
        """
        messages = list(_flat(messages))
        of_client = self.form is CLIENT_XML and any(map(client_xml.HEAD.match, map(_text, messages)))
        waiting: list[Block] = []
        for message, following in pairwise([*messages, None]):
            role, content = _role(message), _content(message)
            if role == "assistant":
                found = _blocks(content, self.form)
                answered = any(block.get("type") == "tool_result" for block in found)
                waiting = [] if answered else [block for block in found if block.get("type") == "tool_use"]
                yield {**_around(message), "role": role, "content": found} if found != _plain(content) else message
            elif role == "user" and of_client:
                yield from _of_client(content, waiting)
            elif role == "tool" or (role == "user" and self._is_answer(content, waiting)):
                yield from self._answers(message, content, waiting, _role(following) == "tool")
                waiting = waiting if role == "tool" or self.form.close is not None else []
            else:
                yield message

    def _is_answer(self, content: Any, waiting: list[Block]) -> bool:
        if self.form.head.match(spoken_text(content)):
            return bool(waiting) or self.form.close is not None
        return self.form.plain and any(call["name"].lower() not in actions.ENDING for call in waiting)

    def _answers(self, message: Message, content: Any, waiting: list[Block], goes_on: bool) -> Iterator[dict[str, Any]]:
        """The answers in a message, each under the name of its call: as it says, else by its place.

        What alone answers several calls stands after the last of them, unless other answers follow (`goes_on`).
        """
        others = [block for block in objects_of(content) if block.get("type") != "text"]
        answers, names = self._parted(spoken_text(content), len(waiting)), [call["name"] for call in waiting]
        names = names[-1:] if len(answers) == 1 and not goes_on else names
        for place, (told, text) in enumerate(answers):
            name, key = told.get("name"), told.get("id")
            placed = names[place] if len(answers) == len(names) else message.get("name")
            tail = self.form.tail.search(text)
            shown = text if tail is None else text[: tail.start()]
            yield {
                **_around(message),
                "role": "tool",
                "name": name if name in names else placed,
                **({"tool_call_id": key} if key else {}),
                "content": [{"type": "text", "text": shown}, *others] if others else shown,
            }
            if tail is not None:
                yield {"role": HARNESS, "content": tail[0].strip()}

    def _parted(self, text: str, calls: int) -> list[tuple[Mapping[str, Any], str]]:
        """The name and id that each answer in a text says, and what it shows."""
        head, close = self.form.head.match(text), self.form.close
        if head is None:
            return _unwrapped(text, calls) if self.form.wrapped else [({}, text)]
        if close is None:
            lines = (self.form.head.match(text, line.start()) for line in _LINE.finditer(text))
            heads = [one for one in lines if one is not None][: max(calls, 1)]
            ends = [*(one.start() for one in heads[1:]), len(text)]
            return [(one.groupdict(), text[one.end() : end]) for one, end in zip(heads, ends, strict=True)]
        found: list[tuple[Mapping[str, Any], str]] = []
        while head is not None:
            end = close.search(text, head.end())
            shown = text[head.end() : None if end is None else end.start()].strip("\n")
            found += _unwrapped(shown, 1) if self.form.wrapped else [(head.groupdict(), shown)]
            head = None if end is None else self.form.head.match(text, end.end())
        return found


def written_in(messages: Sequence[Any], system: str | None, tools: list[dict[str, Any]]) -> Written | None:
    """How calls are written into the texts of a conversation that has no others; None where its texts hold none.

    Args:
        messages: of the conversation.
        system: the system prompt that stands beside them.
        tools: that are declared beside them, where the prompts declare none.
    """
    messages = list(_flat(messages))
    prompts = [text for one in messages if _role(one) == "system" and (text := _text(one))]
    tools = declared("\n\n".join([*([system] if system else []), *prompts])) or tools
    names = {_name(tool) for tool in tools}
    asked = set[str]()
    for place, message in enumerate(messages):
        text, own = _text(message), _role(message) == "assistant"
        asked |= {form.sign for form in FORMS if form.asks is not None and form.asks(text, own)}
        places = [_place(text, form, names, asked) for form in FORMS] if own else [len(text)]
        if min(places) < len(text):
            form = FORMS[places.index(min(places))]
            answered = any(_role(one) in ("user", "tool") for one in messages[place + 1 :])
            return Written(form, tools) if answered or form.asks is None else None
    return None


def _place(text: str, form: Form, names: Collection[str | None], asked: Collection[str]) -> int:
    """Where a text of the agent has its first mark of a form that may be read there; its end if it has none."""
    if form.sign not in text or (form.asks is not None and form.sign not in asked):
        return len(text)
    mark = first_mark(text, 0, form.mark)
    return len(text) if mark is None or (form.declared and mark["name"] not in names) else mark.start()


def _flat(messages: Iterable[Any]) -> Iterator[Any]:
    """The messages, those of frameworks as the messages of a chat that they are."""
    for message in messages:
        yield from (plain(message) if isinstance(message, Mapping) else None) or (message,)


def _role(message: Any) -> str | None:
    """The role of a message, by one name of each."""
    role = message.get("role") or message.get("from") if isinstance(message, Mapping) else None
    return _ROLES.get(role) if isinstance(role, str) else None


def _content(message: Message) -> Any:
    content, lines = content_of(message), message.get("function_calls")
    if isinstance(lines, str) and lines:  # as Olmo's data has them beside the text
        return f"{content or ''}<function_calls>\n{lines}\n</function_calls>"
    return content


def _text(message: Any) -> str:
    return spoken_text(_content(message)) if isinstance(message, Mapping) else ""


def _around(message: Message) -> dict[str, Any]:
    """A message without its content."""
    return {key: value for key, value in message.items() if key not in ("content", "value", "from", "function_calls")}


def _plain(content: Any) -> list[Block]:
    return [{"type": "text", "text": content}] if isinstance(content, str) and content else objects_of(content)


def _blocks(content: Any, form: Form) -> list[Block]:
    """The blocks of a content of the agent, with those of its calls."""
    found: list[Block] = []
    for block in _plain(content):
        found += blocks_in(block["text"], form) if isinstance(block.get("text"), str) else [block]
    return found


def _of_client(content: Any, waiting: list[Block]) -> Iterator[dict[str, Any]]:
    for told in client_xml.answers(content, waiting):
        if told["role"] == client_xml.LOST:
            raise MessageError("result_without_call", f"no open call is one of {told['name']:.80}")
        yield told


def _unwrapped(text: str, calls: int) -> list[tuple[Mapping[str, Any], str]]:
    """Names and contents of the answers that a text is, as objects of both; where it is none, its text."""
    try:
        value = json_value(text) if text.lstrip()[:1] in ("{", "[") else None
    except JsonError:
        value = None
    several = isinstance(value, list) and len(value) == calls and all(map(_is_answer, value))
    if not several and not _is_answer(value):
        return [({}, text)]
    found: list[tuple[Mapping[str, Any], str]] = []
    for answer in value if isinstance(value, list) else [value]:
        content = next(answer[key] for key in _RESULTS if key in answer)
        found.append((answer, content if isinstance(content, str) else json_of(content)))
    return found


def _is_answer(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return False
    others = value.keys() - _IDS
    return len(others) == 1 and others <= set(_RESULTS)
