r"""Sessions in the Hub's own form (Session Trace Simple Format, JSONL): a header, then one chat message per line.

>>> show(HubSession(), '''
... {"type": "session", "harness": "lamp", "id": "s", "name": "Files"}
... {"type": "message", "message": {"role": "assistant", "content": null, "tool_calls": [ \
...     {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}}]}}
... {"type": "message", "message": {"role": "tool", "tool_call_id": "c1", "content": "notes.txt"}}
... ''')
action  | {"name": "bash", "arguments": {"command": "ls"}}
after   | notes.txt

Any harness may write this form; its id is the agent's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from trajmill.connectors.agents.agent_session import AgentSession, Facts, fact
from trajmill.connectors.agents.event_stream import head_events
from trajmill.connectors.connector import Sniff
from trajmill.connectors.conversation.shapes import parts
from trajmill.connectors.conversation.turns import Part
from trajmill.connectors.reading.fields import object_of, str_of


class HubSession(AgentSession):
    """Session logs in the Hub's form."""

    name: ClassVar[str] = "hub_session"
    version: ClassVar[str] = "1"
    title: ClassVar[str] = "session in the Hub's trace format, of any harness (JSONL)"
    agent = "hub"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        for _, line in head_events(head, 1):
            named = isinstance(line.get("harness"), str) and isinstance(line.get("id"), str)
            if line.get("type") == "session" and named:
                return Sniff(0.95, "the first line is the header of a session that names its harness")
        return None

    def parts(self, line: dict[str, Any], offset: int, facts: Facts) -> Iterable[Part] | None:
        kind = str_of(line.get("type"))
        if kind == "session":
            facts.id, facts.agent = fact(line.get("id"), facts.id), fact(line.get("harness"), facts.agent)
            facts.cwd, facts.model = fact(line.get("cwd"), facts.cwd), fact(line.get("model"), facts.model)
            return ()
        return parts(object_of(line.get("message")), offset) if kind == "message" else None
