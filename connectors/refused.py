r"""Formats that are known and not read, as a table of signatures: each file is named and refused for a stated reason.

>>> show(Refused(), '''
... --------- beginning of main
... 08-11 20:23:18.144  5356  5356 D Clock   : alarm set
... ''')
refused | no_actions

Most hold no transition: a patch or a recorded script is an action without a world, a saved page or a video a screen on
which nobody acts. Events of getevent hold no screen; beside uiautomator dumps the connector `uiautomator` reads them.
What makes a patch a transition is the folder it was evaluated in (`swebench_eval`). See
docs/decisions/patches-without-an-answer.md. Others could be read and are not (`not_read`); what to give instead is
said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

from trajmill.connectors.connector import HEAD_BYTES, Blob, Connector, Sniff
from trajmill.connectors.reading.values import BOM
from trajmill.schemas import DOMAINS, Reject, Trajectory

NO_ACTIONS: Final = "no_actions"
NO_OBSERVATION: Final = "no_observation"
NOT_READ: Final = "not_read"


class Signature(NamedTuple):
    """Beginning of the files of a format, after a byte order mark and white space.

    Attributes:
        reason: Reason of the reject.
        detail: Why its files are not read, or which input to use instead.
        score: Score as in `Sniff`.
        endings: Endings of file names; empty means any.
        version: Pattern in the beginning whose first group is the version of the format.
    """

    name: str
    reason: str
    detail: str
    score: float
    pattern: re.Pattern[bytes]
    endings: tuple[str, ...]
    version: re.Pattern[bytes] | None

    def fits(self, start: bytes, uri: str) -> bool:
        """Check whether a file with this beginning may have the format."""
        return uri.endswith(self.endings or ("",)) and self.pattern.match(start) is not None


def _signature(
    name: str,
    reason: str,
    detail: str,
    score: float,
    pattern: bytes,
    *endings: str,
    version: bytes | None = None,
) -> Signature:
    version_pattern = None if version is None else re.compile(version)
    return Signature(
        name, reason, detail, score, re.compile(pattern, re.MULTILINE | re.DOTALL), endings, version_pattern
    )


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
_CURSOR: Final = rb'\{"role"\s*:\s*"(?:user|assistant)"\s*,\s*"message"\s*:\s*\{"content"\s*:\s*\['
_SHOWN: Final = rb'\[\s*\{\s*"ts"\s*:\s*\d{10,16}\s*,\s*"type"\s*:\s*"(?:say|ask)"\s*,\s*"(?:say|ask)"\s*:'

_TASKS: Final = (
    rb'[\[{](?=.*"instance_id")(?=.*"problem_statement")(?=.*"test_patch")(?!.*"(?:model_patch|messages|trajectory)")'
)
_GESTURES: Final = "gestures and keys, and no screen that they were made on; wanted dumps beside them"
_ALONE: Final = "a patch alone: neither the tree before it nor an answer to it stands in the file"
_PAGE: Final = "a page alone: nobody acts on it"
_COMMANDS: Final = "commands, and nothing of what the browser showed"
_PROGRAMS: Final = "what programs said of themselves, neither screens nor actions"
_PICTURES: Final = "pictures, and no record of what was done"
_PICKLED: Final = "a pickle runs code when it is loaded, and is never opened; wanted its values as JSON"
_PROFILE: Final = "what a page cost its browser; wanted a HAR, a Playwright trace or a performance log"

SIGNATURES: Final = (
    _signature("getevent log", NO_OBSERVATION, _GESTURES, 0.95, rb"add device [^\n]*/dev/input/event"),
    _signature("getevent log", NO_OBSERVATION, _GESTURES, 0.9, _EVENT),
    _signature("logcat", NO_ACTIONS, _PROGRAMS, 0.9, _LOGCAT),
    _signature(
        "Appium server log",
        NO_OBSERVATION,
        "commands, and of a page source at most its first 1,024 characters, which the server logs of an answer",
        0.9,
        rb"(?=.{0,4000}?(?:Welcome to Appium v\d|" + _APPIUM + rb"))",
        version=rb"Welcome to Appium v(\d[\d.]{0,20}\d)",
    ),
    _signature(
        "GUI-Odyssey annotations",
        NO_OBSERVATION,
        "screens are pictures in an archive of their own; the rows name them and hold what was done",
        0.95,
        _ODYSSEY,
    ),
    _signature(
        "Cursor transcript",
        NO_OBSERVATION,
        "calls, and nothing of what they gave",
        0.9,
        _CURSOR,
        ".jsonl",
    ),
    _signature("mail of git format-patch", NO_OBSERVATION, _ALONE, 0.95, _MAIL),
    _signature("git diff", NO_OBSERVATION, _ALONE, 0.9, _GIT),
    _signature("unified diff", NO_OBSERVATION, _ALONE, 0.85, _HUNK),
    _signature("patch", NO_OBSERVATION, _ALONE, 0.6, rb".*?^(?:" + _GIT + rb"|" + _HUNK + rb")", ".patch", ".diff"),
    _signature(
        "Cline's ui_messages.json",
        NO_ACTIONS,
        "what the client showed; the calls as the agent made them stand in api_conversation_history.json",
        0.95,
        _SHOWN,
    ),
    _signature("saved page (MHTML)", NO_ACTIONS, _PAGE, 0.95, _RELATED + _SAVED),
    _signature("saved page (MHTML)", NO_ACTIONS, _PAGE, 0.6, _RELATED, ".mhtml", ".mht"),
    _signature("Selenium IDE project", NO_OBSERVATION, _COMMANDS, 0.9, _SELENIUM),
    _signature(
        "Selenium IDE project", NO_OBSERVATION, _COMMANDS, 0.9, rb'\{.*"(?:tests|commands|suites|command)"', ".side"
    ),
    _signature("Chrome Recorder script", NO_OBSERVATION, _COMMANDS, 0.6, _RECORDER),
    _signature("pickle", "pickle", _PICKLED, 0.6, rb"\x80[\x02-\x05][\x95cq}\]\(KJX\x8c\x8a]"),
    _signature("pickle", "pickle", _PICKLED, 0.3, rb"", ".pkl", ".pickle", ".pt", ".joblib"),
    _signature(
        "SQLite database of an editor (Cursor, VS Code)",
        NOT_READ,
        "its tables are not opened; wanted a chat that the editor exports",
        0.95,
        rb"SQLite format 3\x00",
        ".vscdb",
    ),
    _signature(
        "SQLite database",
        NOT_READ,
        "its tables are not opened; wanted them as JSON Lines or Parquet",
        0.9,
        rb"SQLite format 3\x00",
    ),
    _signature(
        "VS Code chat",
        NOT_READ,
        "chats that VS Code exports are not read",
        0.6,
        rb'\{(?=.{0,4000}"responderUsername"\s*:)',
    ),
    _signature(
        "ChatGPT export",
        NOT_READ,
        "chats of ChatGPT are not read: they hold no tool of the user's",
        0.5,
        rb'\[\s*\{(?=.{0,4000}"create_time"\s*:)(?=.{0,4000}"mapping"\s*:\s*\{)',
    ),
    _signature(
        "calls of W&B Weave",
        NOT_READ,
        "calls of Weave are not read; wanted spans of OpenTelemetry",
        0.6,
        rb'[\[{](?=.*"op_name"\s*:\s*"weave:///)',
    ),
    _signature(
        "tasks of SWE-bench",
        NO_ACTIONS,
        "tasks with their solutions, and no agent that worked on them",
        0.5,
        _TASKS,
    ),
    _signature(
        "Jupyter notebook",
        NO_ACTIONS,
        "cells and their outputs, in no order that they were run in",
        0.3,
        rb"\{",
        ".ipynb",
        version=rb'"nbformat"\s*:\s*(\d+)',
    ),
    _signature(
        "WARC archive",
        NO_ACTIONS,
        "pages as a crawler fetched them; wanted a HAR of a session",
        0.95,
        rb"WARC/\d\.\d\r?\n",
        version=rb"WARC/(\d\.\d)",
    ),
    _signature(
        "packet capture",
        NO_ACTIONS,
        "packets of a network, mostly encrypted; wanted a HAR or the client's log",
        0.9,
        rb"\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\x4d\x3c\xb2\xa1|\xa1\xb2\x3c\x4d|\x0a\x0d\x0d\x0a.{4}[\x1a\x4d]",
    ),
    _signature("Windows event log", NO_ACTIONS, _PROGRAMS, 0.95, rb"ElfFile\x00"),
    _signature("journald export", NO_ACTIONS, _PROGRAMS, 0.9, rb'(?:__CURSOR=|\{\s*"__CURSOR"\s*:)'),
    _signature("journald export", NO_ACTIONS, _PROGRAMS, 0.6, rb'\{(?=[^\n]*"__REALTIME_TIMESTAMP"\s*:)'),
    _signature(
        "Android bug report",
        NO_ACTIONS,
        _PROGRAMS,
        0.95,
        rb"={20,}\r?\n== dumpstate: ",
        version=rb"Bugreport format version: ([\d.]{1,20})",
    ),
    _signature("heap snapshot of Chrome", NO_ACTIONS, _PROFILE, 0.9, rb'\{\s*"snapshot"\s*:\s*\{\s*"meta"\s*:'),
    _signature(
        "CPU profile of Chrome", NO_ACTIONS, _PROFILE, 0.9, rb'\{\s*"nodes"\s*:\s*\[\s*\{[^}]{0,200}"callFrame"'
    ),
    _signature("trace of Chrome's profiler", NO_ACTIONS, _PROFILE, 0.8, rb'\{(?=.{0,4000}"traceEvents"\s*:\s*\[)'),
    _signature("video (MP4)", NO_ACTIONS, _PICTURES, 0.9, rb".{4}ftyp"),
    _signature("video (Matroska, WebM)", NO_ACTIONS, _PICTURES, 0.9, rb"\x1a\x45\xdf\xa3"),
    _signature("video (AVI)", NO_ACTIONS, _PICTURES, 0.9, rb"RIFF.{4}AVI "),
)
"""Signatures of the formats; among several that fit a file, the one with the highest score names it."""


def signature_of(head: bytes, uri: str) -> Signature | None:
    """Return the signature that fits a file best; None if none fits."""
    start = head.removeprefix(BOM)
    start = start.lstrip(b" \t\r\n") if not start.startswith(b"\x0a\x0d\x0d\x0a") else start
    return max(
        (signature for signature in SIGNATURES if signature.fits(start, uri)),
        key=lambda signature: signature.score,
        default=None,
    )


def lists_gestures(head: bytes) -> bool:
    """Check whether a file begins like a getevent log."""
    signature = signature_of(head, "")
    return signature is not None and signature.detail == _GESTURES


class Refused(Connector):
    """Formats that are known but not read."""

    name: ClassVar[str] = "refused"
    version: ClassVar[str] = "1"
    domains: ClassVar[tuple[str, ...]] = DOMAINS
    title: ClassVar[str] = "known formats that are not read (rejected: each for its reason)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        signature = signature_of(head, uri)
        if signature is None:
            return None
        version = None if signature.version is None else signature.version.search(head)
        suffix = "" if version is None else f" of version {version[1].decode('ascii', 'replace')}"
        return Sniff(signature.score, f"{signature.name}{suffix}, not read: {signature.detail}")

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        with blob.open(blob.members[0]) as stream:
            signature = signature_of(stream.read(HEAD_BYTES), blob.uri)
        reason, detail = (NOT_READ, "no signature fits") if signature is None else (signature.reason, signature.detail)
        named = detail if signature is None else f"{signature.name}: {detail}"
        yield Reject("record", reason, named, blob.uri, offset=0, connector=self.name)
