"""Patches (git format-patch mails and unified diffs) are recognized and rejected: they hold no transition.

>>> show(Patch(), '''
... --- a/lamp.py
... +++ b/lamp.py
... @@ -1 +1 @@
... -off
... +on
... ''')
refused | no_observation

A patch is an action without an environment: neither the tree before it nor what a test or a command then said stands
in the file. A row of it would have null observations on both sides, so a world model could learn nothing from it but
to have seen the text; and a commit by a person is not the step of an agent. So each patch is one reject
`no_observation`, with its offset, and the run's counts show how many were met. What makes a patch a transition is the
folder it was evaluated in (`swebench_eval`) or the trajectory that submitted it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.lines import lines
from trajmill.schemas import ParseError, Reject, Trajectory

_MAIL: Final = re.compile(rb"From [0-9a-f]{40,64} Mon Sep 17 00:00:00 2001\r?$")
_HEADED: Final = re.compile(rb"^diff --(?:git|cc|combined) \S", re.MULTILINE)
_HUNKED: Final = re.compile(
    rb"^--- [^\r\n]+\r?\n\+\+\+ [^\r\n]+\r?\n@@ -[0-9]+(?:,[0-9]+)? \+[0-9]+(?:,[0-9]+)? @@", re.M
)
_ENDINGS: Final = (".patch", ".diff")
_BLANK: Final = b" \t\r\n"


class Patch(Connector):
    """Patches that stand alone; none is carried on."""

    name: ClassVar[str] = "patch"
    version: ClassVar[str] = "1"
    domains: ClassVar[tuple[str, ...]] = ("swe",)
    title: ClassVar[str] = "git patches and unified diffs (rejected: no observation)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        start = head.lstrip(_BLANK + b"\xef\xbb\xbf")
        if _MAIL.match(start.split(b"\n", 1)[0]):
            return Sniff(0.95, "a mail of git format-patch")
        if _HEADED.match(start):
            return Sniff(0.9, "begins with the header of a git diff")
        if _HUNKED.match(start):
            return Sniff(0.85, "begins with the header of a unified diff")
        if uri.endswith(_ENDINGS) and (_HEADED.search(head) or _HUNKED.search(head)):
            return Sniff(0.6, "named as a patch, and holds the header of a diff")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        found = 0
        with blob.open("") as stream:
            for line in lines(stream):
                if line.data is not None and _MAIL.match(line.data):
                    found += 1
                    yield self._refused(blob, line.offset, "a commit")
        if not found and _is_diff(blob):
            found = 1
            yield self._refused(blob, 0, "a diff")
        if not found:
            raise ParseError(blob.uri, 0, "bad_patch", "wanted a mail of git format-patch or a diff with its header")

    def _refused(self, blob: Blob, offset: int, what: str) -> Reject:
        detail = f"{what} alone: neither the tree before it nor an answer to it stands in the file"
        return Reject(
            "trajectory", "no_observation", detail, blob.uri, offset=offset, connector=self.name, transitions=1
        )


def _is_diff(blob: Blob) -> bool:
    before = b""
    with blob.open("") as stream:
        for line in lines(stream):
            data = line.data or b""
            if _HEADED.match(data) or (before.startswith(b"--- ") and data.startswith(b"+++ ")):
                return True
            before = data
    return False
