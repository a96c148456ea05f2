"""Formats that are known and not read are named, with the version that they tell, and refused for their reason."""

import json
import pickle

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.refused import SIGNATURES, Refused
from trajmill.connectors.registry import sniff
from trajmill.schemas import Reject

TASK = {"repo": "a/b", "instance_id": "a__b-1", "patch": "x", "test_patch": "y", "problem_statement": "z"}
CHAT = {"requesterUsername": "ann", "responderUsername": "GitHub Copilot", "requests": []}
NODES = [{"id": 1, "callFrame": {"functionName": "(root)"}}]
SEEN: dict[str, tuple[str, bytes, str]] = {
    "getevent log": ("touch.log", b"add device 1: /dev/input/event1\n", "no_observation"),
    "logcat": ("log.txt", b"--------- beginning of main\n", "no_actions"),
    "Appium server log of version 1.22.3": ("a.log", b"[Appium] Welcome to Appium v1.22.3\n", "no_observation"),
    "GUI-Odyssey annotations": (
        "e.json",
        b'[{"episode_id": "1", "device_info": {}, "steps": [{"screenshot": "1_0.png"}]}]',
        "no_observation",
    ),
    "Cursor transcript": ("t.jsonl", b'{"role":"user","message":{"content":[]}}\n', "no_observation"),
    "mail of git format-patch": ("1.patch", b"From " + b"a" * 40 + b" Mon Sep 17 00:00:00 2001\n", "no_observation"),
    "git diff": ("x", b"diff --git a/x b/x\n", "no_observation"),
    "unified diff": ("x", b"--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n", "no_observation"),
    "patch": ("x.diff", b"Index: x\n--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n", "no_observation"),
    "Cline's ui_messages.json": ("ui.json", b'[{"ts": 1700000000000, "type": "say", "say": "text"}]', "no_actions"),
    "saved page (MHTML)": ("x.mht", b"From: <Saved by Blink>\nContent-Type: multipart/related; a=b\n", "no_actions"),
    "Selenium IDE project": ("x.side", b'{"id": 1, "tests": []}', "no_observation"),
    "Chrome Recorder script": ("r.json", b'{"title": "r", "steps": [{"type": "navigate"}]}', "no_observation"),
    "pickle": ("steps", pickle.dumps({"a": 1}), "pickle"),
    "SQLite database of an editor (Cursor, VS Code)": ("state.vscdb", b"SQLite format 3\0\x10", "not_read"),
    "SQLite database": ("runs.db", b"SQLite format 3\0\x10", "not_read"),
    "VS Code chat": ("chat.json", json.dumps(CHAT).encode(), "not_read"),
    "ChatGPT export": ("c.json", b'[{"title": "t", "create_time": 1.5, "mapping": {}}]', "not_read"),
    "calls of W&B Weave": ("w.jsonl", b'{"id": "1", "op_name": "weave:///a/b/op/c:d"}\n', "not_read"),
    "tasks of SWE-bench": ("tasks.jsonl", json.dumps(TASK).encode() + b"\n", "no_actions"),
    "Jupyter notebook of version 4": ("n.ipynb", b'{"cells": [], "nbformat": 4}', "no_actions"),
    "WARC archive of version 1.0": ("a.warc", b"WARC/1.0\r\nWARC-Type: warcinfo\r\n", "no_actions"),
    "packet capture": ("a.pcap", b"\xd4\xc3\xb2\xa1\x02\x00", "no_actions"),
    "Windows event log": ("a.evtx", b"ElfFile\0\0", "no_actions"),
    "journald export": ("j.json", b'{"MESSAGE": "x", "__REALTIME_TIMESTAMP": "1"}\n', "no_actions"),
    "Android bug report of version 2.0": (
        "bug.txt",
        b"=" * 56 + b"\n== dumpstate: 2031-01-01\nBugreport format version: 2.0\n",
        "no_actions",
    ),
    "heap snapshot of Chrome": ("a.heapsnapshot", b'{"snapshot":{"meta":{"node_fields":[]}}}', "no_actions"),
    "CPU profile of Chrome": ("a.cpuprofile", json.dumps({"nodes": NODES}).encode(), "no_actions"),
    "trace of Chrome's profiler": ("t.json", b'{"traceEvents":[{"pid":1}]}', "no_actions"),
    "video (MP4)": ("a.mp4", b"\0\0\0\x20ftypisom", "no_actions"),
    "video (Matroska, WebM)": ("a.webm", b"\x1a\x45\xdf\xa3\x01", "no_actions"),
    "video (AVI)": ("a.avi", b"RIFF\0\0\0\0AVI LIST", "no_actions"),
}


@pytest.mark.parametrize("named", SEEN)
def test_a_known_format_is_named_and_refused_for_its_reason(named):
    uri, data, reason = SEEN[named]
    connector, told = sniff(data, uri)[0]
    assert isinstance(connector, Refused)
    assert told.why.startswith(f"{named}, not read: ")
    (reject,) = connector.parse(MemoryBlob(uri, data))
    assert isinstance(reject, Reject)
    assert reject.reason == reason
    assert reject.detail in told.why or reject.detail.partition(": ")[2] in told.why


def test_every_signature_has_a_file_that_it_names():
    assert {one.name for one in SIGNATURES} == {named.partition(" of version ")[0] for named in SEEN}
