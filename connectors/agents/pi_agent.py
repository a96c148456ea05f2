r"""Sessions of pi and of OpenClaw, which is based on pi (`<time>_<id>.jsonl`), one entry per line.

>>> show(PiAgent(), '''
... {"type": "session", "version": 3, "id": "s", "cwd": "/w"}
... {"type": "message", "id": "m1", "parentId": null, "message": {"role": "assistant", "content": [ \
...     {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}]}}
... {"type": "message", "id": "m2", "parentId": "m1", "message": {"role": "toolResult", "toolCallId": "c1", \
...     "toolName": "bash", "content": [{"type": "text", "text": "notes.txt"}], "isError": false}}
... ''')
action  | {"name": "bash", "arguments": {"command": "ls"}}
after   | notes.txt

Each entry names the entry that it follows, so a session is a tree; the path to the last entry is its main trajectory.
Commands that the user ran, and summaries of compacted or abandoned messages, are texts between the turns. Left out
without a reject: changes of the model's settings, labels and entries of extensions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.agent_session import AgentSession, Facts, fact
from trajmill.connectors.agents.event_stream import head_events
from trajmill.connectors.connector import Sniff
from trajmill.connectors.conversation.answers import answer
from trajmill.connectors.conversation.calls import MessageError, call
from trajmill.connectors.conversation.content import shown
from trajmill.connectors.conversation.failures import exit_code
from trajmill.connectors.conversation.shapes import parts
from trajmill.connectors.conversation.turns import Part, Said
from trajmill.connectors.reading.fields import brief, object_of, str_of, text_in
from trajmill.connectors.reading.times import moment

_BOOKS: Final = frozenset(
    {"session", "model_change", "thinking_level_change", "mode_change", "custom", "label", "session_info"}
)
_HARNESS: Final = {"compaction": "summary", "branch_summary": "summary", "custom_message": "content"}
_WORDS: Final = {
    "branchSummary": "summary",
    "compactionSummary": "summary",
    "custom": "content",
    "hookMessage": "content",
}


class PiAgent(AgentSession):
    """Session logs of the coding agent pi, in all versions."""

    name: ClassVar[str] = "pi_agent"
    version: ClassVar[str] = "6"
    title: ClassVar[str] = "pi or OpenClaw session (JSONL)"
    agent = "pi"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        begins = False
        for number, line in head_events(head, 16):
            kind, message = line.get("type"), line.get("message")
            begins = begins or (kind == "session" and "timestamp" in line and isinstance(line.get("id"), str))
            if kind != "message" or not isinstance(message, dict) or "role" not in message:
                continue
            if begins:
                return Sniff(0.95, f"a session and, in line {number}, a message of pi")
            if {"parentId", "timestamp"} <= line.keys() and message["role"] == "toolResult" and "toolCallId" in message:
                return Sniff(0.9, f"line {number} is an answer in a session of pi that begins earlier")
        return Sniff(0.6, "the first lines are those of a session of pi") if begins and b'"cwd"' in head else None

    def link(self, line: dict[str, Any]) -> tuple[str | None, Any] | None:
        key = line.get("id")
        return (key, line.get("parentId")) if isinstance(key, str) and line.get("type") != "session" else None

    def parts(self, line: dict[str, Any], offset: int, facts: Facts) -> Iterator[Part] | None:
        kind = str_of(line.get("type"))
        if kind == "session":
            facts.id, facts.cwd = fact(line.get("id"), facts.id), fact(line.get("cwd"), facts.cwd)
        facts.model = fact(line.get("modelId"), facts.model)
        if kind == "message":
            return _message(object_of(line.get("message")), line, offset)
        if kind in _HARNESS:
            return iter([Said("harness", shown(line.get(_HARNESS[kind])).text or "")])
        return iter(()) if kind in _BOOKS else None


def _message(message: dict[str, Any], line: dict[str, Any], offset: int) -> Iterator[Part]:
    role, content, at = str_of(message.get("role")), message.get("content"), moment(line.get("timestamp"))
    if role == "assistant":
        for block in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
            if isinstance(block, dict) and block.get("type") == "toolCall":
                yield call(block.get("name"), block.get("arguments"), block.get("id"), offset, at)
            else:
                yield from parts({"role": role, "content": [block], "timestamp": line.get("timestamp")}, offset)
    elif role == "user":
        yield from parts({"role": role, "content": content, "timestamp": line.get("timestamp")}, offset)
    elif role == "toolResult":
        fields = {"content": content, "name": message.get("toolName"), "is_error": message.get("isError")}
        code = exit_code(object_of(message.get("details")))
        yield answer({**fields, "id": message.get("toolCallId"), "exit_code": code}, offset, at, "id")
    elif role == "bashExecution":
        shell_call = call("bash", {"command": message.get("command")}, None, offset)
        yield Said("user_call", shell_call.written, at=at)
        yield Said("tool", text_in(message, "output") or "")
    elif role in _WORDS:
        yield Said("harness", shown(message.get(_WORDS[role])).text or "")
    else:
        raise MessageError("unknown_role", f"wanted a role of pi, met {brief(role)}")
