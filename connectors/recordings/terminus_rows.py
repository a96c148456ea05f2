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

A row is an object whose `conversations` (or `messages`) hold the prompts and responses of episodes; `terminus.chat`
says how they are read. Tables of the same rows are read by `table`. A row whose agent answers in another form is a
reject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.documents import json_rows
from trajmill.connectors.recordings.terminus import chat as terminus_chat
from trajmill.schemas import ParseError, Reject, Trajectory

_COLUMN: Final = re.compile(rb'"(?:conversations|messages|conversation)"\s*:\s*\[\s*\{')
_ANSWER: Final = re.compile(rb'\\"keystrokes\\"\s*:|<keystrokes')
_ANALYSIS: Final = re.compile(rb'\\"(?:analysis|state_analysis)\\"\s*:|<analysis>')


class TerminusRows(Connector):
    """Rows with conversations of Terminus."""

    name: ClassVar[str] = "terminus_rows"
    version: ClassVar[str] = "3"
    domains: ClassVar[tuple[str, ...]] = ("terminal",)
    title: ClassVar[str] = "rows with conversations of Terminus (JSONL, JSON)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if (
            head.lstrip()[:1] in (b"{", b"[")
            and b"keystrokes" in head
            and b"analysis" in head
            and _COLUMN.search(head)
            and _ANSWER.search(head)
            and _ANALYSIS.search(head)
        ):
            return Sniff(0.85, "rows with a conversation that answers with an analysis and keystrokes")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        empty = True
        for offset, row in json_rows(blob):
            if isinstance(row, ParseError):
                yield Reject.of(row, "record", self.name)
                continue
            held = row if isinstance(row, dict) else {}
            told = next((held[name] for name in terminus_chat.COLUMNS if held.get(name) is not None), None)
            turns = terminus_chat.turns_of(told)
            if turns is None:
                detail = "wanted a row with a conversation that answers with keystrokes"
                yield Reject("record", "no_conversation", detail, blob.uri, offset=offset, connector=self.name)
                continue
            for found in terminus_chat.trajectories(blob, self.name, offset, turns, held):
                empty = empty and isinstance(found, Reject)
                yield found
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no row holds a response that can be read")
