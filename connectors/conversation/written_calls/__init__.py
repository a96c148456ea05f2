r"""Calls that an agent writes into its texts, and the answers to them, as messages that hold them as blocks.

One table has all forms (`forms`); each is told by its own mark, and read only in conversations that have no call beside
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
from trajmill.connectors.conversation.declared_tools import names_in, parse_prompt_tools
from trajmill.connectors.conversation.dialects import plain
from trajmill.connectors.conversation.shapes import (
    HARNESS,
    ROLES_OF_AGENT,
    ROLES_OF_ANSWERS,
    ROLES_OF_SYSTEMS,
    ROLES_OF_USERS,
)
from trajmill.connectors.conversation.written_calls import client_xml
from trajmill.connectors.conversation.written_calls.actions import ENDING
from trajmill.connectors.conversation.written_calls.form import Block, Form, blocks_in, first_mark
from trajmill.connectors.conversation.written_calls.forms import CLIENT_XML, FORMS
from trajmill.connectors.reading.fields import objects_of, str_of
from trajmill.connectors.reading.values import value_or_none
from trajmill.schemas.record import record

Message = Mapping[str, Any]

_RESULTS: Final = frozenset({"content", "results", "result", "output", "response"})
_IDS: Final = frozenset({"name", "tool_call_id", "call_id", "id"})
_LINE: Final = re.compile(r"^", re.MULTILINE)
_OWN: Final = ("content", "value", "from", "function_calls")
_ROLES: Final = {
    **dict.fromkeys(ROLES_OF_AGENT, "assistant"),
    **dict.fromkeys(ROLES_OF_ANSWERS, "tool"),
    **dict.fromkeys(ROLES_OF_SYSTEMS, "system"),
    **dict.fromkeys(ROLES_OF_USERS, "user"),
}


def detect_written(messages: Sequence[Any], system: str | None, tools: list[dict[str, Any]]) -> Written | None:
    """Detect how calls are written into the texts of a conversation without other calls; None if there are none.

    Args:
        system: System prompt outside the messages.
        tools: Tools declared outside the messages, used if the prompts declare none.
    """
    messages = list(_flat(messages))
    prompts = [_text(prompt) + str_of(prompt.get("functions")) for prompt in messages if _role(prompt) == "system"]
    tools = parse_prompt_tools("\n\n".join([system or "", *prompts])) or tools
    names, asked = names_in(tools), set[str]()
    for position, message in enumerate(messages):
        text, own = _text(message), _role(message) == "assistant"
        asked |= {form.sign for form in FORMS if form.asks is not None and form.asks(text, own)}
        forms = [form for form in FORMS if form.asks is None or form.sign in asked] if own else []
        marks = [(mark.start(), form) for form in forms if (mark := first_mark(text, 0, form, names)) is not None]
        if marks:
            _, form = min(marks, key=lambda pair: pair[0])
            ends = position + 1 == len(messages) and "\nObservation:" not in text
            return None if ends and form.asks is not None else Written(form, tools)
    return None


@record
class Written:
    """Form of the calls written into the texts of a conversation, and the declared tools."""

    form: Form
    tools: list[dict[str, Any]]

    def structured(self, messages: Iterable[Any]) -> Iterator[Any]:
        """Yield the messages, with calls as blocks and answers as tool messages.

        Raises:
            MessageError: `bad_call` for an invalid call, `result_without_call` for an answer without a call.
        """
        messages, names = list(_flat(messages)), names_in(self.tools)
        of_client = self.form is CLIENT_XML and any(map(client_xml.HEAD.match, map(_text, messages)))
        waiting: list[Block] = []
        for before, message, following in zip([None, *messages], messages, [*messages[1:], None], strict=False):
            role, content = _role(message), _content(message)
            if role == "assistant":
                blocks = [piece for block in _blocks(content) for piece in _read(block, self.form, names)]
                answered = any(block.get("type") == "tool_result" for block in blocks)
                waiting = [] if answered else [block for block in blocks if block.get("type") == "tool_use"]
                yield message if blocks == _blocks(content) else {**_around(message), "role": role, "content": blocks}
            elif role == "user" and of_client:
                yield from _of_client(content, waiting)
            elif _is_shown(content) and (role == "tool" or (role == "user" and self._is_answer(content, waiting))):
                is_alone = _role(before) == "assistant" and _role(following) != "tool"
                yield from self._answers(message, content, [call["name"] for call in waiting], is_alone)
                waiting = waiting if role == "tool" or self.form.close is not None else []
            else:
                yield message

    def _is_answer(self, content: Any, waiting: list[Block]) -> bool:
        """Check whether a user's message answers calls."""
        if self.form.head.match(spoken_text(content)):
            return bool(waiting) or self.form.close is not None
        return self.form.plain and any(call["name"].lower() not in ENDING for call in waiting)

    def _answers(self, message: Message, content: Any, names: list[str], is_alone: bool) -> Iterator[dict[str, Any]]:
        """Yield the answers in a message, each under the name of its call: the stated name, or by position.

        Args:
            message: Message of a tool or the user.
            names: Names of the preceding calls.
            is_alone: True if no other message answers these calls; an answer that cannot be split then belongs to the
                last of them.
        """
        answers = self._parted(spoken_text(content), len(names))
        names = names[-1:] if is_alone and len(answers) == 1 else names
        attached = [block for block in objects_of(content) if block.get("type") != "text"]
        for position, (head, text) in enumerate(answers):
            tail = self.form.tail.search(text)
            shown = text if tail is None else text[: tail.start()]
            placed = names[position] if len(answers) == len(names) else message.get("name")
            yield {
                **_around(message),
                "role": "tool",
                "name": head.get("name") if head.get("name") in names else placed,
                **({"tool_call_id": head["id"]} if head.get("id") else {}),
                "content": [{"type": "text", "text": shown}, *attached] if attached else shown,
            }
            if tail is not None:
                yield {"role": HARNESS, "content": tail[0].strip()}

    def _parted(self, text: str, calls: int) -> list[tuple[Mapping[str, Any], str]]:
        """Return the stated name and id of each answer in a text, and its content."""
        head, close, answers = self.form.head, self.form.close, []
        if close is not None:
            pieces = [piece for piece in close.split(text) if piece.strip()] or [text]
        else:
            begins = [line.start() for line in _LINE.finditer(text, 1) if head.match(text, line.start())]
            pieces = [text[begin:end] for begin, end in pairwise([0, *begins[: max(calls - 1, 0)], len(text)])]
        for piece in pieces:
            says = head.match(piece)
            shown = piece if says is None else piece[says.end() :]
            if says is not None and (close is not None or len(pieces) > 1):
                shown = shown.strip("\n")
            wrapped = _unwrap_answers(shown, calls if says is None else 1) if self.form.wrapped else []
            answers += wrapped or [({} if says is None else says.groupdict(), shown)]
        return answers


def _flat(messages: Iterable[Any]) -> Iterator[Any]:
    """Yield the messages, with framework messages converted to chat messages."""
    for message in messages:
        yield from (plain(message) if isinstance(message, Mapping) else None) or (message,)


def _role(message: Any) -> str | None:
    """Return the role of a message under a common name; None if it is unknown."""
    role = message.get("role") or message.get("from") if isinstance(message, Mapping) else None
    return _ROLES.get(role) if isinstance(role, str) else None


def _content(message: Any) -> Any:
    """Return the content of a message, including the calls that Olmo's data has beside it; None for any other value."""
    if not isinstance(message, Mapping):
        return None
    content, lines = content_of(message), str_of(message.get("function_calls"))
    return f"{spoken_text(content)}<function_calls>\n{lines}\n</function_calls>" if lines else content


def _text(message: Any) -> str:
    return spoken_text(_content(message))


def _around(message: Message) -> dict[str, Any]:
    """Return a message without its content."""
    return {key: value for key, value in message.items() if key not in _OWN}


def _blocks(content: Any) -> list[Block]:
    return [{"type": "text", "text": content}] if isinstance(content, str) and content else objects_of(content)


def _is_shown(content: Any) -> bool:
    """Check whether a content is text or blocks."""
    blocks = content if isinstance(content, list) else []
    return isinstance(content, str) or any(isinstance(block, dict) and "type" in block for block in blocks)


def _read(block: Block, form: Form, names: Collection[str]) -> list[Block]:
    text = block.get("text")
    return blocks_in(text, form, names) if isinstance(text, str) else [block]


def _of_client(content: Any, waiting: list[Block]) -> Iterator[dict[str, Any]]:
    for answer in client_xml.answers(content, waiting):
        if answer["role"] == client_xml.LOST:
            raise MessageError("result_without_call", f"no open call is one of {answer['name']:.80}")
        yield answer


def _unwrap_answers(text: str, calls: int) -> list[tuple[Mapping[str, Any], str]]:
    """Return the names and contents of answers that are objects of both; empty for any other text."""
    value = value_or_none(text) if text.lstrip()[:1] in ("{", "[") else None
    listed = value if isinstance(value, list) and len(value) == calls else [value]
    answers: list[tuple[Mapping[str, Any], str]] = []
    for answer in objects_of(listed):
        members = answer.keys() - _IDS
        if not isinstance(answer.get("name"), str) or len(members) != 1 or not members <= _RESULTS:
            return []
        content = answer[members.pop()]
        answers.append((answer, content if isinstance(content, str) else json_of(content)))
    return answers if len(answers) == len(listed) else []
