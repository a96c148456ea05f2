r"""Conversations of language models with tools, as files: one JSON document, or one conversation or message per line.

>>> show(ChatTools(), r'''
... {"messages": [
...     {"role": "user", "content": "How is bed 2?"},
...     {"role": "assistant", "content": null, "tool_calls": [
...         {"id": "k", "type": "function", "function": {"name": "look", "arguments": "{\"bed\": 2}"}}]},
...     {"role": "tool", "tool_call_id": "k", "content": "dry"}]}
... ''')
action  | {"name": "look", "arguments": {"bed": 2}}
after   | dry

The files read are an object with `messages` (or `conversations`, `contents`, `prompt` and `completion`, `input` and
`output`), a list of messages, a list of such objects, JSON lines of such objects (rows of data sets such as Toucan-1.5M
or APIGen-MT, whose messages may be JSON text within the row), and JSON lines of messages, which are one conversation.
Messages have the shapes of OpenAI (chat and Responses), Anthropic, Gemini or Bedrock, or those of a framework:
LangChain (also a saved thread of LangGraph), Pydantic AI, the AI SDK, AutoGen, the steps of smolagents, and the events
of ADK's sessions (see `conversation.dialects`).

>>> show(ChatTools(), r'''
... {"values": {"messages": [{"type": "human", "content": "How is bed 2?"},
...     {"type": "ai", "content": "", "tool_calls": [{"name": "look", "args": {"bed": 2}, "id": "k"}]},
...     {"type": "tool", "content": "dry", "tool_call_id": "k", "status": "success"}]}}
... ''')
action  | {"name": "look", "arguments": {"bed": 2}}
after   | dry

Calls that are written in the texts are read in the forms of `conversation.written_calls`, such as lists of the
functions that the system prompt declares, as in ToolACE.

>>> show(ChatTools(), r'''
... [{"system": "Here is a list of functions in JSON format that you can invoke:\n[{\"name\": \"Get Bed\"}]",
...   "conversations": [{"from": "user", "value": "How is bed 2?"},
...     {"from": "assistant", "value": "[Get Bed(number=2)]"},
...     {"from": "tool", "value": "[{\"name\": \"Get Bed\", \"results\": {\"soil\": \"dry\"}}]"}]}]
... ''')
action  | {"name": "Get Bed", "arguments": {"number": 2}}
after   | {"soil": "dry"}

Each conversation with a call is a trajectory. A conversation is refused if it has no call, if its calls are in the
agent's text in another form, or if one of its messages has no known shape, since half a conversation would be wrong.
Results of BFCL, rows of xLAM and the expected calls in evaluation sets of ADK have no answers, and are refused as
`action_only`. These logs do not state whether the tools were real, simulated by code or by a model; the environment's
kind is the default, `real`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.apis.chat_tools.rows import (
    SHAPES,
    action_only,
    around,
    conversations_in,
    is_call,
    is_message,
    messages_of,
    system_beside,
    tools_beside,
)
from trajmill.connectors.connector import HEAD_BYTES, Blob, Connector, Sniff
from trajmill.connectors.conversation.calls import MessageError, action_space
from trajmill.connectors.conversation.declared_tools import iterate_listed
from trajmill.connectors.conversation.pairing import Conversation, conversation
from trajmill.connectors.conversation.refusals import reject_conversation, reject_unmatched
from trajmill.connectors.conversation.shapes import conversation_in, parts
from trajmill.connectors.conversation.turns import Part, pack, unpack
from trajmill.connectors.conversation.written_calls import Written, detect_written
from trajmill.connectors.reading.documents import first_element, json_document, opening
from trajmill.connectors.reading.large.outline import ARRAY, Array
from trajmill.connectors.reading.lines import json_lines, lines
from trajmill.connectors.reading.places import places_by_beginning
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import Agent, Context, ParseError, Pile, Reject, Task, Trajectory

_PART_BYTES: Final = 512
"""Approximate memory of a part of a message without its texts, in bytes."""

_WRITTEN_CALLS: Final = ("<tool_call>", "<function_call>", "<function=", "<invoke ")


class ChatTools(Connector):
    """Conversations with tool calls in the shapes of the large providers and of frameworks."""

    name: ClassVar[str] = "chat_tools"
    version: ClassVar[str] = "18"
    domains: ClassVar[tuple[str, ...]] = ("mcp", "search")
    title: ClassVar[str] = "chat messages with tool calls (of model APIs and of frameworks; JSON or JSONL)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        beginning = opening(head)
        if beginning is None:
            return None
        if (
            kind := action_only(
                next(iter(beginning.values if beginning.lines else conversations_in(beginning.values[0])), None)
            )
        ) is not None:
            return Sniff(0.5, f"{kind}: calls without what they gave")
        if beginning.lines and is_message(beginning.values[0]):
            acts = any(is_call(message) for message in beginning.values)
            # the last line of a full head is cut, and may therefore fail the check for a message
            complete = beginning.values[:-1] if len(head) >= HEAD_BYTES else beginning.values
            sure = all(is_message(message) for message in complete)
            return Sniff(0.5, "lines are chat messages with tool calls") if acts and sure else None
        for value in beginning.values if beginning.lines else conversations_in(beginning.values[0]):
            messages = value if isinstance(value, list) else messages_of(value)
            if not messages or not all(is_message(message) for message in messages[:-1]):
                return None
            if any(is_call(message) for message in messages):
                return Sniff(0.5, "chat messages with tool calls")
            if find_written_calls(value, messages) is not None:
                return Sniff(0.45, "chat messages with tool calls in their texts")
        return None

    def is_sliceable(self, blob: Blob) -> bool:
        first = _first_line(blob) or first_element(blob)
        return first is not None and not is_message(first) and action_only(first) is None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        has_trajectory = False
        for record in self._found(blob):
            has_trajectory = has_trajectory or isinstance(record, Trajectory)
            yield record
        if not has_trajectory:
            raise ParseError(blob.uri, -1, "no_transitions", "no conversation of the log holds a call of a tool")

    def _found(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        first = _first_line(blob)
        _require_answers(blob, first)
        if first is not None:
            yield from self._lines(blob, first)
            return
        try:
            value, data = json_document(blob, "", SHAPES)
        except ParseError as error:
            first = next((row for _, row in json_lines(blob) if messages_of(row) is not None), None)
            if first is None:
                raise error from None
            yield from self._lines(blob, first)
            return
        rows: Iterable[Any] = conversations_in(value)
        offsets: Sequence[int]
        if isinstance(value, Array):
            offsets = [0] if len(value) == 1 or is_message(value[0]) else value.offsets
        else:
            rows = listed = list(rows)
            offsets = [0] if len(listed) == 1 else places_by_beginning(data, listed)
        for number, (row, offset) in enumerate(zip(rows, offsets, strict=True)):
            if not number:
                _require_answers(blob, row)
            yield from self.conversation(blob, row, offset)

    def _lines(self, blob: Blob, first: Any) -> Iterator[Trajectory | Reject]:
        """Yield one conversation per line, or one of the whole log if its first line is a message."""
        if is_message(first):
            yield from self._of_messages(blob)
            return
        for offset, value in json_lines(blob):
            if isinstance(value, ParseError):
                yield Reject.of(value, "record", self.name)
            else:
                yield from self.conversation(blob, next(conversations_in([value])), offset)

    def _of_messages(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        message_parts: Pile[Part] = Pile(pack, unpack)
        tools: list[Any] = []
        end = 0
        for offset, value in json_lines(blob):
            if isinstance(value, ParseError):
                yield Reject.of(value, "record", self.name)
                continue
            try:
                for part in parts(value, offset):
                    message_parts.append(part, _PART_BYTES + offset - end)
                    end = offset
            except MessageError as error:
                yield reject_conversation(blob, self.name, offset, error.reason, error.detail)
                return
            tools += iterate_listed((value,))
        yield from self._made(blob, conversation(message_parts), None, tools, 0)

    def conversation(self, blob: Blob, value: Any, offset: int) -> Iterator[Trajectory | Reject]:
        """Yield the rejects of the conversation in `value` at `offset`, then at most one trajectory."""
        messages = value if isinstance(value, ARRAY) else messages_of(value)
        if messages is None:
            detail = "wanted an object with messages, or a list of messages"
            yield Reject.of(ParseError(blob.uri, offset, "no_conversation", detail), "record", self.name)
            return
        listed: list[Any] = []
        try:
            written = find_written_calls(value, messages)
            chat = _note_tools(messages, listed) if written is None else list(written.structured(messages))
            dialog = conversation_in(chat, offset)
        except MessageError as error:
            yield reject_conversation(blob, self.name, offset, error.reason, error.detail)
            return
        yield from self._made(blob, dialog, value, listed, offset, () if written is None else written.tools)

    def _made(
        self,
        blob: Blob,
        dialog: Conversation,
        value: Any,
        listed: list[Any],
        offset: int,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Iterator[Trajectory | Reject]:
        for result in dialog.unmatched:
            yield reject_unmatched(blob.uri, self.name, result)
        if not dialog.calls:
            written = any(mark in step.action.text for step in dialog.steps for mark in _WRITTEN_CALLS)
            reason = "calls_in_text" if written else "no_calls"
            detail = "the agent's calls stand in its text only" if written else "a conversation without a tool call"
            yield reject_conversation(blob, self.name, offset, reason, detail, rows=len(dialog.steps))
            return
        try:
            known = around(value, listed)
        except MessageError as error:
            yield reject_conversation(blob, self.name, offset, error.reason, error.detail, rows=len(dialog.steps))
            return
        system = [text for text in dict.fromkeys((known.system, dialog.system)) if text]
        yield Trajectory(
            native_id=known.native_id,
            domain=dialog.domain,
            steps=dialog.steps,
            agent=Agent(model=known.model),
            task=Task(known.task_id, dialog.instruction),
            context=Context(
                action_space=known.tools or action_space(list(tools)), agent_system="\n\n".join(system) or None
            ),
            outcome=known.outcome,
            licence=known.licence,
        )


def _note_tools(messages: Sequence[Any], tools: list[Any]) -> Iterable[Any]:
    """Return the messages unchanged; the tools that they list are appended to `tools` while they are read."""
    if isinstance(messages, list):
        tools += iterate_listed(messages)
        return messages
    return _noting(messages, tools)


def _noting(messages: Iterable[Any], tools: list[Any]) -> Iterator[Any]:
    for message in messages:
        tools += iterate_listed((message,))
        yield message


def find_written_calls(value: Any, messages: Sequence[Any]) -> Written | None:
    """Detect the notation of the calls in a conversation's texts; None if it has structured calls, or none."""
    if any(map(is_call, messages)):
        return None
    return detect_written(messages, system_beside(value), tools_beside(value))


def _require_answers(blob: Blob, value: Any) -> None:
    """Raise `action_only` if a log that begins with the value never holds results of calls."""
    kind = action_only(value)
    if kind is not None:
        raise ParseError(blob.uri, 0, "action_only", f"{kind} holds calls, but nothing of what they gave")


def _first_line(blob: Blob) -> Any | None:
    """Return the first line's value if it is an object or list and other lines follow; None if the log is a document.

    Raises:
        ParseError: `empty`.
    """
    with blob.open() as stream:
        for line in lines(stream):
            if line.data is not None and not line.data.strip():
                continue
            if line.data is None or not line.ended or not stream.read(4096).strip():
                return None
            try:
                value = json_value(line.data)
            except ValueError:
                return None
            return value if isinstance(value, dict | list) else None
    raise ParseError(blob.uri, 0, "empty", "wanted JSON, met nothing")
