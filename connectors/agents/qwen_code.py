r"""Qwen Code sessions (`~/.qwen/projects/<folder>/chats/<id>.jsonl`): lines as in Claude Code, messages as in Gemini.

>>> show(QwenCode(), '''
... {"uuid": "u1", "parentUuid": null, "sessionId": "s", "type": "assistant", "message": {"role": "model", "parts": [ \
...     {"functionCall": {"id": "c1", "name": "run_shell_command", "args": {"command": "ls"}}}]}}
... {"uuid": "u2", "parentUuid": "u1", "sessionId": "s", "type": "tool_result", "message": {"role": "user", "parts": [ \
...     {"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": "notes.txt"}}}]}}
... ''')
action  | {"name": "run_shell_command", "arguments": {"command": "ls"}}
after   | notes.txt

Each line names the line that it follows; the path to the last line is the session's main trajectory. Texts that hooks
and notifications add to a user's message are harness texts. Left out without a reject: system lines, which hold
telemetry and the client's display, and tool results in their displayed form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from trajmill.connectors.agents.agent_session import AgentSession, Facts, fact
from trajmill.connectors.agents.event_stream import head_events
from trajmill.connectors.connector import Sniff
from trajmill.connectors.conversation.shapes import parts
from trajmill.connectors.conversation.turns import Part, Result, Said
from trajmill.connectors.reading.fields import object_of, objects_of, str_of


class QwenCode(AgentSession):
    """Session logs of the Qwen Code command line client."""

    name: ClassVar[str] = "qwen_code"
    version: ClassVar[str] = "3"
    title: ClassVar[str] = "Qwen Code session (JSONL)"
    agent = "qwen-code"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        for number, line in head_events(head, 16):
            if (
                "parentUuid" in line
                and "sessionId" in line
                and isinstance(object_of(line.get("message")).get("parts"), list)
            ):
                return Sniff(0.96, f"line {number} has parentUuid, sessionId and a message of parts")
        return None

    def link(self, line: dict[str, Any]) -> tuple[str | None, Any] | None:
        key = line.get("uuid")
        return (key, line.get("parentUuid")) if isinstance(key, str) else None

    def parts(self, line: dict[str, Any], offset: int, facts: Facts) -> Iterator[Part] | None:
        facts.id, facts.cwd = fact(line.get("sessionId"), facts.id), fact(line.get("cwd"), facts.cwd)
        facts.version, facts.model = fact(line.get("version"), facts.version), fact(line.get("model"), facts.model)
        kind = line.get("type")
        if kind in ("user", "assistant", "tool_result"):
            return self._parts(line, offset)
        return iter(()) if kind == "system" else None

    def _parts(self, line: dict[str, Any], offset: int) -> Iterator[Part]:
        message = object_of(line.get("message"))
        if line.get("type") == "user":
            all_parts = objects_of(message.get("parts"))
            by_client = [
                item for item in all_parts if line.get("subtype") or str_of(item.get("text")).startswith("<qwen:")
            ]
            message = {**message, "parts": [item for item in all_parts if item not in by_client]}
            yield from (Said("harness", str_of(item.get("text"))) for item in by_client)
        role = "model" if line.get("type") == "assistant" else "user"
        for part in parts({**message, "role": role, "timestamp": line.get("timestamp")}, offset):
            status = object_of(line.get("toolCallResult")).get("status")
            if isinstance(part, Result) and part.is_error is None and status in ("success", "error"):
                yield replace(part, is_error=status == "error")
            else:
                yield part
