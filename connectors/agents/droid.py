r"""Droid sessions (`~/.factory/sessions/<folder>/<id>.jsonl`), one entry per line, with messages in Anthropic's form.

>>> show(Droid(), '''
... {"type": "session_start", "id": "s", "title": "Files", "owner": "user", "cwd": "/w"}
... {"type": "message", "id": "m1", "parentId": null, "message": {"role": "assistant", "content": [ \
...     {"type": "tool_use", "id": "c1", "name": "Execute", "input": {"command": "ls"}}]}}
... {"type": "message", "id": "m2", "parentId": "m1", "message": {"role": "user", "content": [ \
...     {"type": "tool_result", "tool_use_id": "c1", "content": "notes.txt\\n\\n[Process exited with code 0]"}]}}
... ''')
action  | {"name": "Execute", "arguments": {"command": "ls"}}
after   | notes.txt

Each entry names the entry that it follows; the path to the last entry is the session's main trajectory. Summaries of
compacted messages are harness texts. Left out without a reject: to-do lists, and the session's settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.agent_session import AgentSession, Facts, fact
from trajmill.connectors.agents.event_stream import head_events
from trajmill.connectors.connector import Sniff
from trajmill.connectors.conversation.shapes import parts
from trajmill.connectors.conversation.turns import Part, Said
from trajmill.connectors.reading.fields import object_of, str_of

_BOOKS: Final = frozenset({"session_start", "session_end", "todo_state"})


class Droid(AgentSession):
    """Session logs of Factory's Droid."""

    name: ClassVar[str] = "droid"
    version: ClassVar[str] = "3"
    title: ClassVar[str] = "Droid session (JSONL)"
    companions = re.compile(r"[^/]*\.settings\.json")
    agent = "droid"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        for number, line in head_events(head, 8):
            is_start = line.get("type") == "session_start" and isinstance(line.get("id"), str) and "cwd" in line
            if is_start and not line.keys().isdisjoint(("owner", "sessionTitle", "title")):
                return Sniff(0.95, f"line {number} is the session_start of a Droid session")
        return None

    def link(self, line: dict[str, Any]) -> tuple[str | None, Any] | None:
        key = line.get("id")
        return (key, line.get("parentId")) if isinstance(key, str) and line.get("type") == "message" else None

    def parts(self, line: dict[str, Any], offset: int, facts: Facts) -> Iterable[Part] | None:
        kind = str_of(line.get("type"))
        if kind == "session_start":
            facts.id, facts.cwd = fact(line.get("id"), facts.id), fact(line.get("cwd"), facts.cwd)
            facts.model = fact(line.get("model"), facts.model)
        if kind == "message":
            return parts({**object_of(line.get("message")), "timestamp": line.get("timestamp")}, offset)
        if kind == "compaction_state":
            return [Said("harness", str_of(line.get("summaryText")))]
        return [] if kind in _BOOKS else None
