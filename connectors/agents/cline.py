r"""Cline and Roo tasks (`api_conversation_history.json`): messages whose calls are native blocks or XML in the text.

>>> show(Cline(), r'''
... [{"role": "user", "content": [{"type": "text", "text": "<task>\nWhich files are there?\n</task>"}]},
...  {"role": "assistant", "content": [{"type": "text", "text": "<list_files>\n<path>.</path>\n</list_files>"}]},
...  {"role": "user", "content": [{"type": "text", "text": "[list_files for '.'] Result:"},
...      {"type": "text", "text": "notes.txt"}]}]
... ''')
action  | {"name": "list_files", "arguments": {"path": "."}}
after   | notes.txt

Only tools of the clients count as calls in a text. The head of an answer, `[tool for 'what'] Result:`, identifies the
call that it answers. A call of a tool that speaks to the user (`attempt_completion`, `ask_followup_question`,
`plan_mode_respond`) is the agent's message, and the user's response is the reply to it. Details of the environment,
reminders and other additions of the client are harness texts. `ui_messages.json` beside the file, which holds what the
client displayed, is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.content import shown
from trajmill.connectors.conversation.harness_text import strip_forms, tools_of_others
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.refusals import reject_conversation, reject_unmatched
from trajmill.connectors.conversation.shapes import parts
from trajmill.connectors.conversation.steps import mark_dangling
from trajmill.connectors.conversation.tools import domain_of
from trajmill.connectors.conversation.turns import Part
from trajmill.connectors.conversation.written_calls import client_xml
from trajmill.connectors.conversation.written_calls.form import Block, blocks_in
from trajmill.connectors.conversation.written_calls.forms import CLIENT_XML
from trajmill.connectors.reading.documents import json_document, opening
from trajmill.connectors.reading.fields import object_of, objects_of, str_of
from trajmill.connectors.reading.places import places_by_beginning
from trajmill.schemas import Agent, ParseError, Reject, Task, Trajectory


class Cline(Connector):
    """Conversations of Cline and of its fork Roo."""

    name: ClassVar[str] = "cline"
    version: ClassVar[str] = "4"
    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    title: ClassVar[str] = "Cline or Roo task (JSON)"
    companions = re.compile(
        r"ui_messages\.json|task_metadata\.json|history_item\.json|focus_chain_[^/]*|context_history\.json"
    )

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        beginning = opening(head)
        listed = beginning.values[0] if beginning is not None and not beginning.lines else None
        for message in objects_of(listed)[:1]:
            for block in objects_of(message.get("content")) if message.get("role") == "user" else ():
                text = str_of(block.get("text"))
                if text.startswith("<task>") or "<environment_details>" in text:
                    return Sniff(0.95, "a list of messages that begins with a task of Cline")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        value, data = json_document(blob)
        if not isinstance(value, list):
            raise ParseError(blob.uri, 0, "bad_session", "wanted a list of messages")
        dialog = _Dialog()
        all_parts: list[Part] = []
        for message, offset in zip(value, places_by_beginning(data, value), strict=True):
            try:
                for chat_message in dialog.read(object_of(message)):
                    if chat_message["role"] == client_xml.LOST:
                        detail = f"no open call of the conversation is one of {chat_message['name']:.80}"
                        lost = ParseError(blob.uri, offset, "result_without_call", detail)
                        yield Reject.of(lost, "record", self.name)
                    else:
                        all_parts += parts(chat_message, offset)
            except MessageError as error:
                yield reject_conversation(blob, self.name, offset, error.reason, error.detail)
                return
        dialog_read = conversation(all_parts)
        yield from (reject_unmatched(blob.uri, self.name, result) for result in dialog_read.unmatched)
        if not dialog_read.calls:
            raise ParseError(blob.uri, -1, "no_transitions", "no message of the task holds a call")
        mark_dangling(dialog_read.steps)
        names = (step.action.name for step in dialog_read.steps)
        trajectory = Trajectory(
            native_id="task",
            domain=domain_of(names, "terminal", tools_of_others("cline")),
            steps=dialog_read.steps,
            agent=Agent("cline"),
            task=Task(instruction=dialog_read.instruction),
        )
        yield strip_forms(trajectory)


class _Dialog:
    """Converter of the messages of a task to chat messages."""

    def __init__(self) -> None:
        self._waiting: list[Block] = []
        self._spoken: set[str] = set()

    def read(self, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Convert a message of the task to chat messages."""
        role, content = message.get("role"), message.get("content")
        blocks = objects_of(content) if isinstance(content, list) else [{"type": "text", "text": content}]
        if role == "assistant":
            acted = [item for block in blocks for item in self._acted(block)]
            self._waiting = [block for block in acted if block.get("type") == "tool_use"]
            yield {"role": role, "content": acted}
        elif role == "user":
            yield from client_xml.answers([self._heard(block) for block in blocks], self._waiting)
        else:
            raise MessageError("unknown_role", "wanted a message of the user or the assistant")

    def _acted(self, block: Block) -> list[Block]:
        if block.get("type") == "text":
            return blocks_in(str_of(block.get("text")), CLIENT_XML)
        if block.get("type") != "tool_use":
            return [block]
        tool, key = str_of(block.get("name")), str_of(block.get("id"))
        self._spoken |= {key} if tool in client_xml.SPEAKING else set()
        return [client_xml.block_of(tool, object_of(block.get("input")), key)]

    def _heard(self, block: Block) -> Block:
        """Convert a block of the user. The answer to a tool that speaks to the user becomes a text."""
        if block.get("type") != "tool_result" or str_of(block.get("tool_use_id")) not in self._spoken:
            return block
        return {"type": "text", "text": shown(block.get("content")).text or ""}
