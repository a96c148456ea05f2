"""Scripts of user actions without any page: Selenium IDE projects (`.side`) and recordings of Chrome's Recorder.

>>> show(RecordedScript(), '''
... {"title": "Tomorrow", "steps": [
...     {"type": "navigate", "url": "https://tides.example/"},
...     {"type": "click", "target": "main", "selectors": [["a"]], "offsetX": 3, "offsetY": 4}]}
... ''')
refused | no_observation

They say what was clicked and typed, and nothing of what the browser then showed. A world model learns nothing from
them, so each script is recognized and rejected as `no_observation`, with the number of its commands: see
docs/decisions/patches-without-an-answer.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import object_of, str_of
from trajmill.connectors.reading.values import BOM
from trajmill.schemas import ParseError, Reject, Trajectory

_SIDE: Final = (b'"tests"', b'"commands"', b'"suites"', b'"command"')
_STEP: Final = re.compile(rb'"type"\s*:\s*"(?:setViewport|navigate|click|change|keyDown|waitForElement|doubleClick)"')


class RecordedScript(Connector):
    """Scripts of user actions, which hold no observation."""

    name: ClassVar[str] = "recorded_script"
    version: ClassVar[str] = "2"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "Selenium IDE and Chrome Recorder scripts (rejected: no observation)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        data = head.removeprefix(BOM).lstrip()
        if not data.startswith(b"{"):
            return None
        found = sum(sign in data for sign in _SIDE)
        if found >= 3 or (uri.endswith(".side") and found >= 1):
            return Sniff(0.9, "tests with commands, as Selenium IDE writes them")
        if (
            b'"title"' in data[:4096]
            and b'"steps"' in data
            and len(_STEP.findall(data)) >= 1
            and b'"model_output"' not in data
        ):
            return Sniff(0.6, "a title and steps of types that Chrome's Recorder has")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        document, data = json_document(blob)
        scripts = list(_scripts(object_of(document)))
        if not scripts:
            raise ParseError(blob.uri, 0, "no_actions", "wanted tests with commands, or steps")
        hits = [hit.start() for hit in re.finditer(rb'"commands"\s*:', data)]
        places = hits if len(hits) == len(scripts) else [0] * len(scripts)
        for place, (name, count) in zip(places, scripts, strict=True):
            detail = f"{count} commands of {name[:100]!r}, and nothing of what the browser showed"
            yield Reject("record", "no_observation", detail, blob.uri, "", place, self.name)


def _scripts(document: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """(name, number of commands) of each script in a document."""
    tests = document.get("tests")
    for one in tests if isinstance(tests, list) else []:
        commands = object_of(one).get("commands")
        if isinstance(commands, list):
            yield str_of(one.get("name")), len(commands)
    if isinstance(document.get("steps"), list):
        yield str_of(document.get("title")), len(document["steps"])
