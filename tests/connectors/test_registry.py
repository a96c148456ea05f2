"""The registry: which formats there are, which heads each takes, and which are refused."""

import csv
import io
import json
import pickle
import sqlite3
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.conftest import INDEX, ROOT, corpora_folder, named_files, real_files
from tests.golden.make import taken_by
from trajmill.connectors.connector import HEAD_BYTES, MemoryBlob
from trajmill.connectors.refused import SIGNATURES, Refused
from trajmill.connectors.registry import FORMATS, connectors, joining, sniff
from trajmill.schemas import Reject

FIXTURES = ROOT / "tests" / "fixtures"


def test_what_joins_the_files_of_a_fixture_is_asked_to():
    asked = 0
    for folder in sorted(path for path in FIXTURES.glob("*/*/*") if path.is_dir()):
        paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        for some in (paths, [f"deep/er/{path}" for path in paths]):
            could = {connector.name for connector in joining(connectors(), some)}
            for name, connector in connectors().items():
                logs = list(connector.join(some))
                asked += len(logs)
                assert not logs or name in could, (folder, name)
                for log in logs:
                    own = sorted(log.members.values())
                    assert name in {connector.name for connector in joining(connectors(), own)}, (
                        "each log holds such a file"
                    )
    assert asked > 100


def test_connectors_are_the_same_in_another_process():
    assert pickle.loads(pickle.dumps(connectors())) is connectors()


def in_parquet(rows: pa.Table) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(rows, buffer, compression="none", use_dictionary=False)
    return buffer.getvalue()


def in_arrow(rows: pa.Table, writer: Callable[..., pa.RecordBatchStreamWriter]) -> bytes:
    buffer = io.BytesIO()
    with writer(buffer, rows.schema) as stream:
        stream.write_table(rows)
    return buffer.getvalue()


def in_sqlite(rows: pa.Table) -> bytes:
    with sqlite3.connect(":memory:") as base:
        base.execute("create table session (text blob)")
        base.executemany("insert into session values (?)", [(row["text"],) for row in rows.to_pylist()])
        base.commit()
        return base.serialize()


@pytest.mark.parametrize(
    ("pack", "takers"),
    [
        (in_parquet, ["table"]),
        (lambda rows: in_arrow(rows, pa.ipc.new_file), ["table"]),
        (lambda rows: in_arrow(rows, pa.ipc.new_stream), ["table"]),
        (in_sqlite, ["refused"]),
    ],
)
def test_a_log_in_a_column_of_a_binary_file_is_never_taken_for_the_file_s_format(pack, takers):
    logs = [path for path in sorted(FIXTURES.glob("*/input/*")) if path.is_file()]
    assert len(logs) > 100
    for path in logs:
        text = b"\n" + path.read_bytes()[:32768].removeprefix(b"\xef\xbb\xbf") + b"\n"
        head = pack(pa.table({"text": pa.array([text, text], pa.binary())}))[:HEAD_BYTES]
        assert [connector.name for connector, _ in sniff(head, "data")] == takers, path


TABLE: dict[str, set[str | None]] = {
    "aider_chat_history": {"aider"},
    "android_control_jsonl": {"android_control_jsonl"},
    "appagent_task": {"appagent"},
    "asciicast_v2": {"asciicast"},
    "asciicast_v3": {"asciicast"},
    "browser_use_history": {"browser_use_history"},
    "browser_use_messages": {"browser_use_messages", None},
    "browsergym_result": {"browsergym"},
    "cdp_perflog": {"cdp"},
    "claude_code_jsonl": {"claude_code"},
    "claude_web_export": {"claude_code"},
    "claude_managed_agent_jsonl": {"managed_agent"},
    "codex_exec_json_stream": {"codex_exec"}, "codex_rollout_jsonl": {"codex"}, "droidbot_output": {"droidbot"},
    "gemini_cli_session": {"gemini_cli"}, "generic_message_jsonl": {"gemini_stream"}, "har": {"har"},
    "getevent": {"refused"}, "inspect_eval_log": {"inspect"}, "jsonrpc_spec_examples": {"mcp_jsonrpc", None},
    "jsonrpc_wire": {"agent_vcr", "mcp_recorder", "vcr_cassette"},
    "mhtml": {"refused"}, "mind2web_json": {"mind2web"}, "logcat": {"refused"},
    "mini_swe_agent_traj": {"mini_swe_agent"}, "openhands_events": {"openhands"}, "patch": {"refused"},
    "playwright_blob": {"playwright_trace"}, "playwright_trace": {"playwright_trace"},
    "react_hotpotqa_txt": {"react_log"}, "rrweb_events": {"rrweb", None}, "script_typescript": {"script"},
    "search_r1_text": {"search_r1"}, "selenium_side": {"refused"}, "sweagent_traj": {"sweagent"},
    "swebench_eval_logs": {"swebench_eval"},
    "swebench_predictions": {"swebench_predictions", None},
    "tau2_results": {"tau2"}, "tau_bench_results": {"tau_bench"}, "toolbench_answer": {"toolbench"},
    "terminator_mcp_log": {None}, "terminator_recording": {"terminator"}, "ttyrec": {"ttyrec", None},
    "utf16_log": {None}, "vcr_cassette": {"vcr_cassette", None}, "vcr_llm_toolcalls": {"vcr_cassette"},
    "webdancer_chatml_jsonl": {"webdancer"}, "webvoyager_messages": {"webvoyager"},
}  # fmt: skip
"""Format, as the index of the corpora names it → connectors that may take it; None: left alone. Single messages of the
protocol's specification are no log, what a program logs of itself is no trajectory, a summary of results is no
prediction, an empty file is nothing, events within source code are no recording, and calls of gRPC and of WebSockets
are in no exchange that a cassette's reader knows. Formats that are not named here are read by nothing yet, or hold no
trajectory (question seeds, tool logs)."""


@pytest.mark.corpus
def test_every_real_file_is_what_the_index_says(record_property):
    files = real_files([""], record_property)
    root = corpora_folder()
    assert root is not None
    with (root / INDEX).open(encoding="utf-8") as stream:
        formats = {row["path"]: row["format"] for row in csv.DictReader(stream, delimiter="\t")}
    takers = taken_by(files, root)
    assert takers == named_files()
    assert {name: taker for name, taker in takers.items() if taker not in TABLE.get(formats[name], {None})} == {}


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
    connector, guess = sniff(data, uri)[0]
    assert isinstance(connector, Refused)
    assert guess.why.startswith(f"{named}, not read: ")
    (reject,) = connector.parse(MemoryBlob(uri, data))
    assert isinstance(reject, Reject)
    assert reject.reason == reason
    assert reject.detail in guess.why or reject.detail.partition(": ")[2] in guess.why


def test_every_signature_has_a_file_that_it_names():
    assert {signature.name for signature in SIGNATURES} == {named.partition(" of version ")[0] for named in SEEN}


def test_the_registry_states_the_version_of_each_connector():
    assert {name: stated.version for name, stated in FORMATS.items()} == {
        name: connectors()[name].version for name in FORMATS
    }
