"""Logs of logcat: recognized by name and rejected, since they hold what programs said, neither screens nor actions.

>>> show(Logcat(), '''
... --------- beginning of main
... 08-11 20:23:18.144  5356  5356 D Clock   : alarm set
... ''')
refused | no_actions

An app may print that it was touched, but each app in its own words; nothing says reliably what a user did or saw. So
each file becomes one reject, `no_actions`, and the run's counts show how many were met.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.schemas import ParseError, Reject, Trajectory

_LINE: Final = re.compile(
    rb"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"
    rb"(?:\s+[\w ]{0,16}?\d{1,7}\s+\d{1,7} [VDIWEFA] |: [VDIWEFA]/| [VDIWEFA]/)"
)
_BEGINNING: Final = re.compile(rb"-{9} (?:beginning of|switch to) \S+")


class Logcat(Connector):
    """Logs of logcat; none is carried on."""

    name: ClassVar[str] = "logcat"
    version: ClassVar[str] = "1"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "logs of logcat (rejected: no actions)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        rows = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:8192].splitlines()[:3]
        if rows and (_BEGINNING.fullmatch(rows[0].rstrip()) or _LINE.match(rows[0])):
            return Sniff(0.9, "begins with a line of logcat")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        with blob.open("") as stream:
            told = self.sniff(stream.read(8192), blob.uri)
        if told is None:
            raise ParseError(blob.uri, 0, "no_lines", "wanted lines of logcat")
        detail = "logcat holds what programs said, neither screens nor actions"
        yield Reject.of(ParseError(blob.uri, 0, "no_actions", detail), connector=self.name)
