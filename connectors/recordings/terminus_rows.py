r"""Rows of data sets with conversations of Terminus, in lines or an array: Nemotron's Terminal-Corpus, Harbor's traces.

>>> show(TerminusRows(), r'{"conversations": ['
... r'{"role": "user", "content": "Task Description:\nSay the year.\n\nCurrent Terminal Screen:\nroot@h:/app# "}, '
... r'{"role": "assistant", "content": "{\"analysis\": \"\", \"plan\": \"\", \"commands\": '
... r'[{\"keystrokes\": \"date +%Y\\n\", \"duration\": 0.1}], \"task_complete\": false}"}, '
... r'{"role": "user", "content": "New Terminal Output:\nroot@h:/app# date +%Y\n2026\n"}], "model": "m"}')
before  | root@h:/app#
action  | [{"keystrokes": "date +%Y\n", "duration": 0.1}]
after   | root@h:/app# date +%Y
        | 2026

A row is an object whose `conversations` (or `messages`) hold the prompts and responses of episodes, which
`terminus.chat` reads. `table` reads tables of the same rows. A row whose agent answers in another form is a reject.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.documents import head_rows, holds_rows, json_rows
from trajmill.connectors.reading.json_text import parse_if_json
from trajmill.connectors.recordings.terminus import chat as terminus_chat
from trajmill.schemas import ParseError, Reject, Trajectory


class TerminusRows(Connector):
    """Rows with conversations of Terminus."""

    name: ClassVar[str] = "terminus_rows"
    version: ClassVar[str] = "4"
    domains: ClassVar[tuple[str, ...]] = ("terminal",)
    title: ClassVar[str] = "rows with conversations of Terminus (JSONL, JSON)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if b"keystrokes" not in head or _turns(next(iter(head_rows(head)), {})) is None:
            return None
        return Sniff(0.85, "rows with a conversation that answers with keystrokes")

    def is_sliceable(self, blob: Blob) -> bool:
        return holds_rows(blob)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        empty = True
        for offset, row in json_rows(blob):
            if isinstance(row, ParseError):
                yield Reject.of(row, "record", self.name)
                continue
            fields = row if isinstance(row, dict) else {}
            turns = _turns(fields)
            if turns is None:
                detail = "wanted a row with a conversation that answers with keystrokes"
                yield Reject("record", "no_conversation", detail, blob.uri, offset=offset, connector=self.name)
                continue
            for result in terminus_chat.trajectories(blob, self.name, offset, turns, fields):
                empty = empty and isinstance(result, Reject)
                yield result
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no row holds a response that can be read")


def _turns(row: dict[str, Any]) -> terminus_chat.Turns | None:
    """Return the turns of a row's conversation, which may be JSON text."""
    return terminus_chat.turns_of(
        parse_if_json(next((row[name] for name in terminus_chat.COLUMNS if row.get(name)), None))
    )
