r"""Formats that hold no transition, as a table: each file of them is recognized and refused for a stated reason.

>>> show(REFUSED["logcat"], '''
... --------- beginning of main
... 08-11 20:23:18.144  5356  5356 D Clock   : alarm set
... ''')
refused | no_actions

A patch or a recorded script is an action without a world: neither the state before it nor an answer stands in the file.
An Appium server cuts the page sources that it logs, so no screen stands whole in its log. Events of getevent hold no
screen; beside uiautomator dumps the connector `uiautomator` reads them. A saved page is a
screen on which nobody acts, and logcat holds what programs said. What makes a patch a transition is the folder it was
evaluated in (`swebench_eval`). See docs/decisions/patches-without-an-answer.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.values import BOM
from trajmill.schemas import Reject, Trajectory


class _Sign(NamedTuple):
    """A way in which files of a format begin, after a byte order mark and white space."""

    score: float
    why: str
    pattern: re.Pattern[bytes]
    endings: tuple[str, ...]


class _Refused(Connector):
    """A format of which no file is carried on."""

    version: ClassVar[str] = "3"
    reason: ClassVar[str]
    detail: ClassVar[str]
    signs: ClassVar[tuple[_Sign, ...]]

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        start = head.removeprefix(BOM).lstrip(b" \t\r\n")
        for sign in self.signs:
            if uri.endswith(sign.endings) and sign.pattern.match(start):
                return Sniff(sign.score, sign.why)
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        yield Reject("record", self.reason, self.detail, blob.uri, offset=0, connector=self.name)


def _sign(score: float, why: str, pattern: bytes, *endings: str) -> _Sign:
    return _Sign(score, why, re.compile(pattern, re.MULTILINE | re.DOTALL), endings or ("",))


def _refused(name: str, domain: str, title: str, reason: str, detail: str, *signs: _Sign) -> Connector:
    values: dict[str, Any] = {"name": name, "domains": (domain,), "title": title, "reason": reason, "detail": detail}
    return type(name, (_Refused,), {**values, "signs": signs, "__module__": __name__})()


_EVENT: Final = (
    rb"(?:\[\s*\d{1,10}\.\d{1,9}\]\s*)?(?:/dev/input/event\d{1,4}:[ \t]+|(?=(?:EV_[A-Z]{2,8}|00[01][0-9a-f])[ \t]+"
    rb"(?:[A-Z][A-Z0-9_]{2,31}|[0-9a-f]{4})[ \t]+(?:[0-9a-f]{1,8}|[A-Z]{2,8})\s))"
    rb"\S{1,32}[ \t]+\S{1,32}[ \t]+\S{1,32}[ \t\r]*(?:\n|\Z)"
)
_LOGCAT: Final = (
    rb"-{9} (?:beginning of|switch to) \S+[ \t\r]*(?:\n|\Z)|(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"
    rb"(?:\s+[\w ]{0,16}?\d{1,7}\s+\d{1,7} [VDIWEFA] |: [VDIWEFA]/| [VDIWEFA]/)"
)
_APPIUM: Final = rb"\[HTTP\][^\n]{0,24}-->[^\n]{0,24}(?:GET|POST|DELETE)[^\n]{0,24}/(?:session|status)\b"
_MAIL: Final = rb"From [0-9a-f]{40,64} Mon Sep 17 00:00:00 2001\r?$"
_GIT: Final = rb"diff --(?:git|cc|combined) \S"
_HUNK: Final = rb"--- [^\r\n]+\r?\n\+\+\+ [^\r\n]+\r?\n@@ -[0-9]+(?:,[0-9]+)? \+[0-9]+(?:,[0-9]+)? @@"
_RELATED: Final = rb"(?i)(?=[a-z-]{2,40}:)(?=.{0,4000}?^content-type\s*:\s*multipart/related\b)"
_SAVED: Final = rb"(?=.{0,4000}?^(?:from\s*:\s*[\"<]*saved by|snapshot-content-location\s*:))"
_SELENIUM: Final = rb'\{(?=.*"tests")(?=.*"commands")(?=.*"command")'
_STEP: Final = rb'"type"\s*:\s*"(?:setViewport|navigate|click|change|keyDown|waitForElement|doubleClick)"'
_RECORDER: Final = rb'\{(?=.{0,4090}"title")(?=.*"steps")(?=.*' + _STEP + rb')(?!.*"model_output")'

_ODYSSEY: Final = rb'\[?\s*\{(?=.{0,4000}"episode_id")(?=.{0,4000}"device_info")(?=.*"screenshot"\s*:\s*"[^"]+\.png")'

_SHOWN: Final = rb'\[\s*\{\s*"ts"\s*:\s*\d{10,16}\s*,\s*"type"\s*:\s*"(?:say|ask)"\s*,\s*"(?:say|ask)"\s*:'

_CURSOR: Final = rb'\{"role"\s*:\s*"(?:user|assistant)"\s*,\s*"message"\s*:\s*\{"content"\s*:\s*\['

_TABLE: Final = (
    _refused(
        "getevent",
        "android",
        "input events of getevent (rejected: no observation)",
        "no_observation",
        "gestures and keys, and no screen that they were made on; wanted dumps beside them",
        _sign(0.95, "begins with the devices that getevent lists", rb"add device [^\n]*/dev/input/event"),
        _sign(0.9, "first line is an event of getevent", _EVENT),
    ),
    _refused(
        "logcat",
        "android",
        "logs of logcat (rejected: no actions)",
        "no_actions",
        "logcat holds what programs said, neither screens nor actions",
        _sign(0.9, "begins with a line of logcat", _LOGCAT),
    ),
    _refused(
        "appium_log",
        "android",
        "Appium server logs (rejected: no observation)",
        "no_observation",
        "commands, and of a page source at most its first 1,024 characters, which the server logs of an answer",
        _sign(0.9, "begins as an Appium server logs", rb"(?=.{0,4000}?(?:Welcome to Appium v\d|" + _APPIUM + rb"))"),
    ),
    _refused(
        "patch",
        "swe",
        "git patches and unified diffs (rejected: no observation)",
        "no_observation",
        "a patch alone: neither the tree before it nor an answer to it stands in the file",
        _sign(0.95, "a mail of git format-patch", _MAIL),
        _sign(0.9, "begins with the header of a git diff", _GIT),
        _sign(0.85, "begins with the header of a unified diff", _HUNK),
        _sign(
            0.6,
            "named as a patch, and holds the header of a diff",
            rb".*?^(?:" + _GIT + rb"|" + _HUNK + rb")",
            ".patch",
            ".diff",
        ),
    ),
    _refused(
        "cline_ui",
        "terminal",
        "Cline's ui_messages.json (rejected: no actions)",
        "no_actions",
        "what the client showed; the calls as the agent made them stand in api_conversation_history.json",
        _sign(0.95, "a list of what Cline said and asked", _SHOWN),
    ),
    _refused(
        "gui_odyssey",
        "android",
        "GUI-Odyssey annotations (rejected: no observation)",
        "no_observation",
        "screens are pictures in an archive of their own; the rows name them and hold what was done",
        _sign(0.95, "episodes of GUI-Odyssey with device_info and steps", _ODYSSEY),
    ),
    _refused(
        "cursor",
        "terminal",
        "Cursor transcripts and state.vscdb (rejected: no observation)",
        "no_observation",
        "a transcript holds calls, and nothing of what they gave; the client's database is not read",
        _sign(0.9, "lines of a role and a message, as Cursor's transcripts have them", _CURSOR, ".jsonl"),
        _sign(0.95, "the database in which Cursor keeps its chats", rb"SQLite format 3\x00", "state.vscdb"),
    ),
    _refused(
        "mhtml",
        "web",
        "saved pages, MHTML (rejected: no actions)",
        "no_actions",
        "a page alone: nobody acts on it",
        _sign(0.95, "a multipart/related message that a browser saved", _RELATED + _SAVED),
        _sign(0.6, "a multipart/related message named as a saved page", _RELATED, ".mhtml", ".mht"),
    ),
    _refused(
        "recorded_script",
        "web",
        "Selenium IDE and Chrome Recorder scripts (rejected: no observation)",
        "no_observation",
        "commands, and nothing of what the browser showed",
        _sign(0.9, "tests with commands, as Selenium IDE writes them", _SELENIUM),
        _sign(0.9, "named as a project of Selenium IDE", rb'\{.*"(?:tests|commands|suites|command)"', ".side"),
        _sign(0.6, "a title and steps of types that Chrome's Recorder has", _RECORDER),
    ),
)

REFUSED: Final[Mapping[str, Connector]] = {connector.name: connector for connector in _TABLE}
"""By name."""
