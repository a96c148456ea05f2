"""Formats that hold no transition: how their files are recognized, and why each is refused."""

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.refused import REFUSED
from trajmill.connectors.registry import sniff
from trajmill.schemas import Reject

DIFF = b"--- a/lamp.py\n+++ b/lamp.py\n@@ -1 +1 @@\n-off\n+on\n"
MAIL = b"From " + b"0" * 40 + b" Mon Sep 17 00:00:00 2001\nSubject: x\n\n---\n\n"
PAGE = b'Content-Type: multipart/related; boundary="b"\r\n'
STEPS = b'"steps": [{"type": "navigate", "url": "https://tides.example/"}]}'
TEST = b'{"id": "1", "tests": [{"name": "a", "commands": [{"command": "open"}]}], "suites": []}'

RECOGNIZED = [
    ("getevent", "x", b'add device 1: /dev/input/event1\r\n  name: "t"\r\n'),
    ("getevent", "x", b"[   10.000000] /dev/input/event2: EV_ABS       ABS_MT_POSITION_X    00000100   \r\n"),
    ("getevent", "x", b"0003 0035 00000172\n0003 0036 00000031\n"),
    ("logcat", "x", b"08-11 20:23:18.144  5356  5356 D AndroidRuntime: x\r\n"),
    ("logcat", "x", b"2024-08-11 20:23:18.144  root  5356  5356 D Tag: x\n"),
    ("logcat", "x", b"08-11 20:23:18.144 D/Tag( 5356): x\n"),
    ("logcat", "x", b"--------- beginning of crash\n"),
    ("patch", "x", MAIL + DIFF),
    ("patch", "x", b"diff --git a/lamp.py b/lamp.py\n"),
    ("patch", "x", DIFF),
    ("patch", "x.diff", b"Index: lamp.py\n" + DIFF),
    ("mhtml", "x", b"From: <Saved by Blink>\r\n" + PAGE),
    ("mhtml", "x", PAGE + b"Snapshot-Content-Location: https://tea.example/\r\n"),
    ("mhtml", "x.mht", PAGE),
    ("recorded_script", "x", b"\xef\xbb\xbf" + TEST),
    ("recorded_script", "x.side", b'{"id": "1", "suites": []}'),
    ("recorded_script", "x", b'{"title": "t", ' + STEPS),
]

LEFT_ALONE = [
    ("getevent", "x", b"0003 0035 is no event\n"),
    ("logcat", "x", b"08-11 20:23:18.144 something else\n"),
    ("logcat", "x", b"2024-05-20 19:52:52,120 adb shell input tap 1 2\n"),
    ("patch", "x", b"Index: lamp.py\n" + DIFF),
    ("mhtml", "x.txt", PAGE),
    ("recorded_script", "x.json", b'{"title": "x", "steps": [{"type": "thought", "text": "y"}]}'),
    ("recorded_script", "x.json", b'{"title": "x", "model_output": 1, ' + STEPS),
    ("recorded_script", "x.json", b'{"id": "1", "suites": []}'),
]

REASONS = {
    "getevent": ("no_observation", "no screen"),
    "logcat": ("no_actions", "neither screens nor actions"),
    "patch": ("no_observation", "neither the tree before it nor an answer"),
    "mhtml": ("no_actions", "nobody acts"),
    "recorded_script": ("no_observation", "nothing of what the browser showed"),
}


@pytest.mark.parametrize(("name", "uri", "head"), RECOGNIZED)
def test_a_file_that_holds_no_transition_is_recognized_and_refused_for_its_reason(name, uri, head):
    ((connector, _), *_) = sniff(head, uri)
    assert connector.name == name
    (reject,) = connector.parse(MemoryBlob(uri, head))
    assert isinstance(reject, Reject)
    reason, detail = REASONS[name]
    assert (reject.uri, reject.offset, reject.connector, reject.reason) == (uri, 0, name, reason)
    assert detail in reject.detail


@pytest.mark.parametrize(("name", "uri", "head"), LEFT_ALONE)
def test_what_only_resembles_such_a_file_is_left_to_others(name, uri, head):
    assert REFUSED[name].sniff(head, uri) is None
