r"""Threads of the coding agent Amp (`~/.local/share/amp/threads/T-<id>.json`), one JSON document each.

>>> show(Amp(), '''
... {"v": 4, "id": "T-019b9d03-62e3", "created": 1767865803494, "agentMode": "smart", "messages": [
...   {"role": "assistant", "messageId": 1, "content": [
...     {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"cmd": "ls"}}]},
...   {"role": "user", "messageId": 2, "content": [{"type": "tool_result", "toolUseID": "c1",
...     "run": {"status": "done", "result": {"output": "notes.txt", "exitCode": 0}}}]}]}
... ''')
action  | {"name": "Bash", "arguments": {"cmd": "ls"}}
after   | notes.txt

Messages have Anthropic's form, except results: a `run` has a status and a result. The answer is the result's output,
content or diff, or else its JSON text. A run that was cancelled, or that the user did not allow, has no answer in the
log. Messages of the role `info` are the client's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.calls import MessageError, json_of
from trajmill.connectors.conversation.content import result_of, shown
from trajmill.connectors.conversation.failures import exit_code
from trajmill.connectors.conversation.harness_text import strip_forms, tools_of_others
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.refusals import reject_unmatched
from trajmill.connectors.conversation.shapes import parts
from trajmill.connectors.conversation.steps import mark_dangling
from trajmill.connectors.conversation.tools import checkout, domain_of
from trajmill.connectors.conversation.turns import Part, Result, Said, Unlogged
from trajmill.connectors.reading.arrays import with_places
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import brief, key_of, object_of, objects_of, str_of, text_in
from trajmill.connectors.reading.large.outline import ARRAY
from trajmill.schemas import Agent, Environment, ParseError, Reject, Task, Trajectory

_THREAD: Final = re.compile(rb'"id"\s*:\s*"T-[0-9A-Za-z-]{4,60}"')
_MARKS: Final = (b'"toolUseID"', b'"agentMode"', b'"nextMessageId"')
_SHOWN: Final = ("output", "content", "diff")
_FILE: Final = "file://"


class Amp(Connector):
    """Threads of Amp."""

    name: ClassVar[str] = "amp"
    version: ClassVar[str] = "2"
    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    title: ClassVar[str] = "Amp thread (JSON)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if _THREAD.search(head) and b'"messages"' in head and any(mark in head for mark in _MARKS):
            return Sniff(0.95, "a thread of Amp, by its id and its messages")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        thread, data = json_document(blob, "", [{"messages": []}])
        messages = thread.get("messages") if isinstance(thread, dict) else None
        if not isinstance(messages, ARRAY):
            raise ParseError(blob.uri, 0, "bad_record", "wanted a thread with messages")
        all_parts: list[Part] = []
        model: str | None = None
        for offset, message in with_places(data, messages, ("messages",)):
            try:
                all_parts += _parts(message, offset)
            except MessageError as error:
                yield Reject("record", error.reason, error.detail, blob.uri, offset=offset, connector=self.name)
                continue
            model = model or text_in(message, "usage", "model")
        dialog = conversation(all_parts)
        yield from (reject_unmatched(blob.uri, self.name, result) for result in dialog.unmatched)
        if not dialog.calls:
            raise ParseError(blob.uri, -1, "no_transitions", "no message of the thread holds a call")
        mark_dangling(dialog.steps)
        around = object_of(object_of(thread.get("env")).get("initial"))
        tree = next(iter(objects_of(around.get("trees"))), {})
        folder = str_of(tree.get("uri"))
        trajectory = Trajectory(
            native_id=str_of(thread.get("id")) or "thread",
            domain=domain_of((step.action.name for step in dialog.steps), "terminal", tools_of_others("amp")),
            steps=dialog.steps,
            environment=Environment(
                instance_id=checkout(folder.removeprefix(_FILE)) if folder.startswith(_FILE) else None
            ),
            agent=Agent("amp", text_in(around, "platform", "clientVersion"), model),
            task=Task(instruction=dialog.instruction),
        )
        yield strip_forms(trajectory)


def _parts(message: Any, offset: int) -> Iterator[Part]:
    """Yield the parts of a message.

    Raises:
        MessageError: the value is no message, or its role is unknown.
    """
    if not isinstance(message, dict):
        raise MessageError("bad_message", f"wanted an object as a message, met {type(message).__name__}")
    role, content = message.get("role"), message.get("content")
    if role == "info":
        yield Said("harness", shown(content).text or "")
        return
    if role not in ("user", "assistant"):
        raise MessageError("unknown_role", f"wanted a role of Amp, met {brief(role)}")
    words: list[Any] = []
    for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        if isinstance(block, dict) and block.get("type") == "tool_result" and "run" in block:
            yield _answer(block, offset)
        else:
            words.append(block)
    if words:
        yield from parts({"role": role, "content": words}, offset)


def _answer(block: dict[str, Any], offset: int) -> Result | Unlogged:
    """Return the result of a run, or `Unlogged` if the run did not finish."""
    run = object_of(block.get("run"))
    result, failed = run.get("result"), run.get("status") == "error"
    if result is None and failed:
        result = text_in(run.get("error"), "message") or run.get("error")
    if result is None and run.get("status") != "done":
        return Unlogged(offset)
    code = exit_code({"exit_code": result.get("exitCode")}) if isinstance(result, dict) else None
    if isinstance(result, dict):
        text = next((result[key] for key in _SHOWN if isinstance(result.get(key), str)), None)
        result = json_of(result) if text is None else text
    return result_of(shown(result), key_of(block.get("toolUseID")), offset, is_error=failed or None, exit_code=code)
