r"""Rows that are turns of coding sessions, as in SWE-chat: each row is a message, a call or an answer.

>>> show(TurnRows(), '''
... {"session_id": "s", "turn_number": 0, "role": "assistant", "turn_type": "tool_use", "tool_name": "Bash", \
...  "tool_call_id": "c1", "tool_input_json": "{\\"command\\": \\"ls\\"}"}
... {"session_id": "s", "turn_number": 1, "role": "user", "turn_type": "tool_result", "tool_call_id": "c1", \
...  "content": "notes.txt"}
... ''')
action  | {"name": "Bash", "arguments": {"command": "ls"}}
after   | notes.txt

Adjacent rows with one `session_id` are a session, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.harness_text import CLAUDE_CODE, strip_forms, tools_of_others
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.refusals import reject_conversation, reject_unmatched
from trajmill.connectors.conversation.shapes import parts
from trajmill.connectors.conversation.tools import domain_of
from trajmill.connectors.conversation.turns import Part
from trajmill.connectors.published.inside_row import Made
from trajmill.connectors.reading.documents import head_rows, json_rows
from trajmill.connectors.reading.fields import object_of, text_in
from trajmill.schemas import Agent, Context, ParseError, Reject, Task, Trajectory

_NEEDED: Final = frozenset({"session_id", "turn_type", "role"})


class _Sessions:
    """Function that returns the session of each row; a row without one belongs to the session before it."""

    def __init__(self) -> None:
        self._last: str | None = None

    def __call__(self, numbered_row: tuple[int, Any]) -> str | None:
        self._last = text_in(numbered_row[1], "session_id") or self._last
        return self._last


class TurnRows(Connector):
    """Rows with turns of sessions."""

    name: ClassVar[str] = "turn_rows"
    version: ClassVar[str] = "3"
    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    title: ClassVar[str] = "rows that are turns of coding sessions (SWE-chat; JSONL, JSON)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        first = next(iter(head_rows(head)), {})
        return Sniff(0.9, "rows with session_id, role and turn_type") if first.keys() >= _NEEDED else None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        empty = True
        for _, rows in groupby(json_rows(blob), _Sessions()):
            for result in self._session(blob, list(rows)):
                empty = empty and isinstance(result, Reject)
                yield result
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no row is a call of a tool")

    def _session(self, blob: Blob, rows: Sequence[tuple[int, Any]]) -> Made:
        session_parts: list[Part] = []
        first = rows[0][0]
        for offset, row in rows:
            if isinstance(row, ParseError):
                yield Reject.of(row, "record", self.name)
                continue
            try:
                session_parts += parts(_message(object_of(row)), offset)
            except MessageError as error:
                yield reject_conversation(blob, self.name, offset, error.reason, error.detail)
        dialogue = conversation(session_parts)
        yield from (reject_unmatched(blob.uri, self.name, orphan) for orphan in dialogue.unmatched)
        if not dialogue.calls:
            yield reject_conversation(
                blob, self.name, first, "no_calls", "a session without a call", rows=len(dialogue.steps)
            )
            return
        row = next(object_of(row) for _, row in reversed(rows) if not isinstance(row, ParseError))
        trajectory = Trajectory(
            native_id=text_in(row, "session_id") or "session",
            domain=domain_of((step.action.name for step in dialogue.steps), "terminal", tools_of_others(CLAUDE_CODE)),
            steps=dialogue.steps,
            agent=Agent(text_in(row, "agent"), model=text_in(row, "model")),
            task=Task(None, dialogue.instruction),
            context=Context(agent_system=dialogue.system),
        )
        yield strip_forms(trajectory, CLAUDE_CODE)


def _message(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row to a chat message."""
    kind, message = row.get("turn_type"), {"role": row.get("role"), "content": row.get("content")}
    if kind == "tool_use":
        tool_input = row.get("tool_input_json") or {"command": row.get("command")}
        tool_call = {"id": row.get("tool_call_id"), "function": {"name": row.get("tool_name"), "arguments": tool_input}}
        message = {**message, "tool_calls": [tool_call]}
    elif kind == "tool_result":
        message = {**message, "role": "tool", "tool_call_id": row.get("tool_call_id"), "name": row.get("tool_name")}
    elif kind == "thinking":
        message = {"role": "assistant", "content": None, "reasoning_content": row.get("content")}
    return {**message, "timestamp": row.get("timestamp")}
