r"""Traces of coding agents in tables of the Hub: rows that hold the lines of a session's log.

>>> show(AgentTraces(), '''
... {"harness": "lamp", "session_id": "s", "traces": [{"type": "session", "harness": "lamp", "id": "s"}, \
...   {"type": "message", "message": {"role": "assistant", "tool_calls": [{"id": "c1", "function": \
...     {"name": "bash", "arguments": {"command": "ls"}}}]}}, \
...   {"type": "message", "message": {"role": "tool", "tool_call_id": "c1", "content": "notes.txt"}}]}
... ''')
action  | {"name": "bash", "arguments": {"command": "ls"}}
after   | notes.txt

`traces` or `trace` holds the lines: a list of them, each an object or its JSON text, or one text of all. They are read
like the original file. Columns derived from them (`prompt`, `messages`, `tools`) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import HEAD_BYTES, Blob, Connector, MemoryBlob, Sniff
from trajmill.connectors.published.inside_row import Made, place_at_row
from trajmill.connectors.reading.documents import head_rows, holds_rows, json_rows
from trajmill.connectors.reading.json_text import parse_if_json
from trajmill.connectors.registry import connectors, sniff
from trajmill.schemas import DOMAINS, ParseError, Reject, Trajectory, json_text

_COLUMNS: Final = ("traces", "trace")
_MARKS: Final = (b"trace", b"\\u00")  # JSON may say any letter by its number


class AgentTraces(Connector):
    """Rows with the lines of sessions."""

    name: ClassVar[str] = "agent_traces"
    version: ClassVar[str] = "1"
    domains: ClassVar[tuple[str, ...]] = DOMAINS
    title: ClassVar[str] = "agent traces of the Hub: rows that hold the lines of a session (JSONL, JSON)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if not any(mark in head for mark in _MARKS):
            return None
        log = _log(next(iter(head_rows(head)), None))
        return Sniff(0.9, "rows with the lines of a session as traces") if log and _reader(log) is not None else None

    def is_sliceable(self, blob: Blob) -> bool:
        return holds_rows(blob)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        empty = True
        for position, row in json_rows(blob):
            for result in self._row(blob, position, row):
                empty = empty and isinstance(result, Reject)
                yield result
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no row holds the lines of a session with a call")

    def _row(self, blob: Blob, position: int, row: Any) -> Made:
        log = None if isinstance(row, ParseError) else _log(row)
        inner = _reader(log) if log else None
        if isinstance(row, ParseError):
            yield Reject.of(row, "record", self.name)
        elif log is None or inner is None:
            detail = "wanted the lines of a known agent's session in a column traces or trace"
            yield Reject("record", "unrecognized", detail, blob.uri, offset=position, connector=self.name)
        else:
            yield from place_at_row(inner.parse(MemoryBlob(blob.uri, log, blob.choices)), self.name, position)


def _log(row: Any) -> bytes | None:
    """Return the log whose lines a row holds; None if it holds none."""
    cells = row if isinstance(row, dict) else {}
    lines = parse_if_json(next((cells[column] for column in _COLUMNS if cells.get(column)), None))
    if isinstance(lines, str):
        lines = [lines]
    if not isinstance(lines, list) or not lines:
        return None
    texts = (line if isinstance(line, str) else json_text(line) for line in lines)
    return "".join(text.rstrip("\n") + "\n" for text in texts).encode("utf-8", "surrogatepass")


def _reader(log: bytes) -> Connector | None:
    candidates = {name: reader for name, reader in connectors().items() if name != AgentTraces.name}
    matches = sniff(log[:HEAD_BYTES], "session.jsonl", candidates, longer=lambda: log)
    return matches[0][0] if matches else None
