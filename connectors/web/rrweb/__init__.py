"""rrweb recordings (github.com/rrweb-io/rrweb): a person's actions on a page, and the state of the page.

>>> show(Rrweb(), '''
... [{"type": 4, "timestamp": 1700000000000, "data": {"href": "https://tea.example/", "width": 800, "height": 600}},
...  {"type": 2, "timestamp": 1700000000001, "data": {"initialOffset": {"left": 0, "top": 0}, "node":
...      {"type": 0, "id": 1, "childNodes": [{"type": 2, "id": 2, "tagName": "button", "attributes": {}, "childNodes":
...          [{"type": 3, "id": 3, "textContent": "Brew"}]}]}}},
...  {"type": 3, "timestamp": 1700000001000, "data": {"source": 2, "type": 2, "id": 2, "x": 30, "y": 10}},
...  {"type": 3, "timestamp": 1700000001100, "data": {"source": 0, "texts": [{"id": 3, "value": "Brewing"}],
...      "attributes": [], "removes": [], "adds": []}}]
... ''')
before  | #1 document value="https://tea.example/"
        |   #2 button "Brew"
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 document value="https://tea.example/"
        |   #2 button "Brewing"

The DOM is rebuilt from full snapshots and mutations (`dom`). Raw events of mouse, keyboard and fields are combined to
actions (`acts`). An observation is the page's compact tree at the beginning of the action, so the next observation is
the page just before the next action, when the page has settled. The last one is the page at the end of the recording.

An event that names nodes missing from the DOM is rejected, and the DOM continues. Each window is a trajectory of its
own if the log distinguishes windows. Masked texts (`***`) stay as the recorder wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.web.rrweb.acts import Acts
from trajmill.connectors.web.rrweb.page_events import SCRIPT, events
from trajmill.schemas import ParseError, Reject, Trajectory

_TYPE: Final = re.compile(rb'[{,]\s*"type"\s*:\s*[0-7]\s*[,}]')
_BEGINS: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:" + SCRIPT + rb'\s*)?(?:\[\s*)?(?:"[^"\\]{0,64}"\s*,\s*)?[\[{"]')
_PACKED: Final = re.compile(rb'\s*(?:\[\s*)?"(?:x|\\u0078)(?:\xc2[\x9c\x81]|\\u009[cC]|\xc3\x9a|\\u0001|\^)')
_SNAPSHOT: Final = (b'"childNodes"', b'"initialOffset"')
_META: Final = (b'"href"', b'"width"', b'"height"')
_INCREMENT: Final = re.compile(rb'"data"\s*:\s*\{\s*"source"\s*:\s*[0-9]')


class Rrweb(Connector):
    """rrweb recordings."""

    name: ClassVar[str] = "rrweb"
    version: ClassVar[str] = "12"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "rrweb recordings of web sessions (JSON or JSONL)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if not _BEGINS.match(head):
            return None
        if _PACKED.match(head):
            return Sniff(0.6, "strings of zlib bytes, as rrweb packs events")
        if b'"data"' not in head or b'"type"' not in head or not _TYPE.search(head):
            return None
        if all(word in head for word in _META) and (_SNAPSHOT[0] in head or b'"timestamp"' in head):
            return Sniff(0.9, "events of rrweb: a page's address and size")
        if _SNAPSHOT[0] in head and (_SNAPSHOT[1] in head or b'"tagName"' in head):
            return Sniff(0.9, "events of rrweb: a full snapshot")
        if b'"cv"' in head or (_INCREMENT.search(head) and b'"timestamp"' in head):
            return Sniff(0.8, "events of rrweb: changes of a page")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        windows: dict[str, Acts] = {}
        failure: ParseError | None = None
        is_any = False
        queue = events(blob)
        while True:
            try:
                event = next(queue, None)
            except ParseError as error:
                failure = error
                break
            if event is None:
                break
            if isinstance(event.value, ParseError):
                yield Reject.of(event.value, connector=self.name)
                continue
            is_any = True
            acts = windows.setdefault(event.window, Acts(blob.choices.screen == "raw"))
            for reason, detail in acts.take(event.value, event.offset):
                yield Reject("record", reason, detail, blob.uri, "", event.offset, self.name)
        is_transition_met = False
        for window, acts in windows.items():
            trajectory = acts.trajectory(window)
            if trajectory is not None:
                is_transition_met = True
                yield trajectory
        if failure is not None:
            raise failure
        if not is_any:
            raise ParseError(blob.uri, 0, "no_events", "wanted events of rrweb, met none")
        if not is_transition_met:
            known = any(acts.mirror.is_known for acts in windows.values())
            reason = "no_actions" if known else "no_snapshot"
            detail = "nobody acts in the recording" if known else "without a full snapshot no page can be rebuilt"
            raise ParseError(blob.uri, -1, reason, detail)
