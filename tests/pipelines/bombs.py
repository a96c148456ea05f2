"""Small inputs that grow in memory, and what a worker's peak is over them.

    python -m tests.pipelines.bombs NAME…   # a line for each: its bytes, peak MB over idle, what became of it

Each runs in a process of its own, with a bound on its data.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tests.conftest import ROOT
from trajmill.connectors.android.protos import example_of, read_example
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.reading.tfrecord import framed, frames

GOOD: Final = sorted((ROOT / "samples/terminal/claude_code").rglob("*.jsonl"))[0].read_bytes()
CASSETTE: Final = (ROOT / "tests/fixtures/vcr_cassette/input/anthropic.yaml").read_bytes()
EPISODES: Final = "tests/fixtures/android_control/input/two_episodes.tfrecord"
LIMIT_BYTES: Final = 6 << 30
"""Bound on the data of the process that is measured."""

MB: Final = 1 << 20


class Milled(NamedTuple):
    """What became of a bomb.

    Attributes:
        megabytes: peak resident memory less what the process held before it read the input.
        transitions: of the input.
        rejects: by reason.
    """

    megabytes: float
    transitions: int
    rejects: dict[str, int]


def line_of(unit: bytes, size: int, end: bytes) -> bytes:
    """A Claude Code log, and a line that is an array of one unit again and again."""
    return GOOD.rstrip(b"\n") + b"\n[" + unit * (size // len(unit)) + end + b"]\n"


def result_of(text: str) -> bytes:
    """A chat whose tool answers with a text."""
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return json.dumps({"messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": text},
    ]}, ensure_ascii=False).encode()  # fmt: skip


def har_of(bodies: list[dict[str, Any]], more: bytes = b"") -> bytes:
    entries = []
    for number, body in enumerate(bodies):
        kind = {"name": "Content-Type", "value": body["mimeType"]}
        coding = [{"name": "Content-Encoding", "value": body.pop("coding")}] if "coding" in body else []
        request = {"method": "GET", "url": f"https://example.org/{number}", "headers": [], "queryString": []}
        answer = {"status": 200, "statusText": "OK", "headers": [kind, *coding], "content": body}
        began = f"2024-05-01T10:00:{number % 60:02d}.000Z"
        entries.append({"startedDateTime": began, "time": 1, "request": request, "response": answer})
    log = {"version": "1.2", "creator": {"name": "t", "version": "1"}, "pages": [], "entries": entries}
    return b'{"log": ' + json.dumps(log).encode()[:-1] + more + b"}}"


def packed_body(size: int, unit: bytes = b"word and ") -> dict[str, Any]:
    packed = gzip.compress(unit * (size // len(unit)), 9)
    return {
        "mimeType": "text/html",
        "size": size,
        "text": base64.b64encode(packed).decode(),
        "encoding": "base64",
        "coding": "gzip",
    }


def parquet_of(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **{"compression": "zstd", "compression_level": 9, **options})
    return bytes(sink.getvalue())


def messages_rows(answers: list[str]) -> pa.Table:
    """A row for each answer of a tool, in the form of published chats."""
    call = [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    rows = [{"id": str(number), "messages": [
        {"role": "user", "content": "Look.", "tool_calls": [], "tool_call_id": None},
        {"role": "assistant", "content": "", "tool_calls": call, "tool_call_id": None},
        {"role": "tool", "content": answer, "tool_calls": [], "tool_call_id": "a"},
    ]} for number, answer in enumerate(answers)]  # fmt: skip
    return pa.Table.from_pylist(rows)


def parquet_cell() -> bytes:
    """One cell of 2 GB less a little."""
    rows = messages_rows(["a" * (2000 * MB)])
    return parquet_of(rows, use_dictionary=False, compression="brotli", compression_level=5)


def parquet_dictionary() -> bytes:
    """One text of 1 MB in 4,000 rows: the file holds it once."""
    return parquet_of(messages_rows(["a" * MB] * 4000), data_page_size=64 * MB, dictionary_pagesize_limit=64 * MB)


def parquet_list() -> bytes:
    """A row whose list holds one text of 1 MB 4,000 times."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 4000, pa.int32()), pa.array(["a" * MB]))
    contents = pa.ListArray.from_arrays(pa.array([0, 4000], pa.int32()), text)
    return parquet_of(pa.table({"id": ["1"], "messages": contents}), dictionary_pagesize_limit=64 * MB)


def arrow_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=19))
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def arrow_cell() -> bytes:
    return arrow_of(messages_rows(["a" * (2000 * MB)]))


def arrow_cells() -> bytes:
    """Four cells of 500 MB."""
    return arrow_of(messages_rows(["a" * (500 * MB)] * 4))


def dump_of(count: int, unit: str) -> dict[str, bytes]:
    before = (
        "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation=\"0\">"
        '<node class="android.widget.FrameLayout" text="" package="org.example" clickable="true" enabled="true" '
        'bounds="[0,0][540,200]">'
    )
    dump = before + "".join(unit.format(number) for number in range(count)) + "</node></hierarchy>"
    event = b'{"action": "tap", "x": 100, "y": 100, "before": "dump_1.xml", "after": "dump_2.xml"}\n'
    return {"events.jsonl": event, "dump_1.xml": dump.encode(), "dump_2.xml": dump.encode()}


def cassette_of(bodies: list[bytes]) -> bytes:
    """A cassette whose answers are these bodies, compressed."""
    made = b"interactions:\n"
    asked = json.dumps({"model": "c", "messages": [{"role": "user", "content": "Look."}]})
    for body in bodies:
        made += b"- request:\n    body: '" + asked.encode() + b"'\n    headers: {}\n    method: POST\n"
        made += b"    uri: https://api.anthropic.com/v1/messages\n  response:\n    body:\n      string: !!binary |\n"
        made += b"        " + base64.b64encode(gzip.compress(body, 9)) + b"\n"
        made += b"    headers:\n      content-type: [application/json]\n    status: {code: 200, message: OK}\n"
    return made


def message_of(text: str) -> bytes:
    """An answer of a model that calls a tool with a text."""
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {"at": text}}
    answer = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [call]}
    return json.dumps(answer, ensure_ascii=False).encode()


def zip_of(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return sink.getvalue()


def trace_of(size: int) -> bytes:
    """A trace of Playwright that is long when it is unpacked."""
    begin = b'{"version":8,"type":"context-options","browserName":"chromium"}\n'
    return begin + (b'{"type":"log","time":1,"message":"' + b"word " * 200_000 + b'"}\n') * (size // MB)


def database_of(size: int) -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        with sqlite3.connect(file.name) as database:
            database.execute("create table t (a blob)")
            database.execute("insert into t values (zeroblob(?))", (size,))
        return Path(file.name).read_bytes()


def records_of(**features: Any) -> bytes:
    """A compressed TFRecord file of Android Control's episode with more features."""
    data = next(frames(MemoryBlob("a", (ROOT / EPISODES).read_bytes()))).data
    assert isinstance(data, bytes)
    return gzip.compress(framed(example_of({**read_example(data, "", 0), **features})), 6)


NODE: Final = '<node class="android.widget.Button" text="{}" enabled="true" bounds="[0,0][540,200]"/>'

BOMBS: Final[dict[str, Callable[[], dict[str, bytes]]]] = {
    "nothing": lambda: {"log.jsonl": GOOD},
    "line_of_lists": lambda: {"log.jsonl": line_of(b"[],", 54_000_000, b"[]")},
    "line_of_objects": lambda: {"log.jsonl": line_of(b"{},", 54_000_000, b"{}")},
    "line_of_small_objects": lambda: {"log.jsonl": line_of(b'{"a":[1]},', 54_000_000, b"{}")},
    "line_of_numbers": lambda: {"log.jsonl": line_of(b"1000,", 120_000_000, b"1")},
    "line_of_long_numbers": lambda: {"log.jsonl": line_of(b"1000,", 54_000_000, b"12345678901234567890123")},
    "document_of_lists": lambda: {"a.har": har_of([packed_body(1000)] * 2, b', "x": [' + b"[]," * 18_000_000 + b"[]]")},
    "text_of_lists": lambda: {"log.jsonl": result_of("[" + "[]," * 18_000_000 + "[]]")},
    "wide_text": lambda: {"log.jsonl": result_of("word " * 12_000_000 + "\U0001f600")},
    "wide_text_120": lambda: {"log.jsonl": result_of("word " * 24_000_000 + "\U0001f600")},
    "wide_document": lambda: {
        "a.har": har_of([{"mimeType": "text/html", "text": "word " * 48_000_000 + "\U0001f600"}])
    },
    "parquet_cell": lambda: {"a.parquet": parquet_cell()},
    "parquet_dictionary": lambda: {"a.parquet": parquet_dictionary()},
    "parquet_list": lambda: {"a.parquet": parquet_list()},
    "arrow_cell": lambda: {"a.arrow": arrow_cell()},
    "arrow_cells": lambda: {"a.arrow": arrow_cells()},
    "xml_nodes": lambda: dump_of(600_000, NODE),
    "xml_empty_nodes": lambda: dump_of(2_000_000, "<node/>"),
    "har_body_of_nodes": lambda: {"a.har": har_of([packed_body(31 * MB, b"<b>x</b>")] * 2)},
    "har_bodies": lambda: {"a.har": har_of([packed_body(31 * MB)] * 40)},
    "rejected_lines": lambda: {"log.jsonl": GOOD + b"1\n" * 27_000_000},
    "rejected_entries": lambda: {"a.har": har_of([packed_body(1000)] * 2)[:-4] + b", 1" * 18_000_000 + b"]}}"},
    "members": lambda: {
        "a.har": har_of(
            [packed_body(1000)] * 2, b', "x": {' + b"".join(b'"%d":0,' % n for n in range(5_000_000)) + b'"":0}'
        )
    },
    "cassette": lambda: {
        "c.yaml": (ROOT / "tests/fixtures/vcr_cassette/input/anthropic.yaml").read_bytes()
        + b"more: ["
        + b"[]," * 15_000_000
        + b"[]]\n"
    },
    "cassette_body": lambda: {"c.yaml": cassette_of([message_of("word " * 6_000_000)])},
    "cassette_wide_body": lambda: {"c.yaml": cassette_of([message_of("word " * 6_000_000 + "\U0001f600")])},
    "cassette_bodies": lambda: {"c.yaml": cassette_of([message_of("word " * 6_000_000)] * 40)},
    "cassette_body_of_lists": lambda: {"c.yaml": cassette_of([b"[" + b"[]," * 20_000_000 + b"[]]"])},
    "cassette_lines": lambda: {"c.yaml": cassette_of([b'{"a": 1}\n' * 6_000_000])},
    "page": lambda: {"a.mhtml": b"From: <Saved by Blink>\nMIME-Version: 1.0\n" + b"=3D<b>x</b>\n" * 20_000_000},
    "tfrecord_bytes": lambda: {"a.tfrecord.gz": records_of(more=[bytes(400 * MB)])},
    "tfrecord_values": lambda: {"a.tfrecord.gz": records_of(more=[b""] * 30_000_000)},
    "tfrecord_numbers": lambda: {"a.tfrecord.gz": records_of(more=[1] * 30_000_000)},
    "zip_trace": lambda: {"trace.zip": zip_of({"trace.trace": trace_of(1000 * MB)})},
    "zip_members": lambda: {"trace.zip": zip_of({f"{n}.trace": b"" for n in range(199_000)})},
    "zip_log": lambda: {
        "logs.zip": zip_of({"log.jsonl": GOOD + b'"word word word word word word word word word"\n' * 20_000_000})
    },
    "zip_har": lambda: {
        "a.zip": zip_of({"har.har": har_of([{"mimeType": "text/html", "_file": "b"}] * 2), "b": b"word " * 100_000_000})
    },
    "database": lambda: {"a.sqlite": database_of(500 * MB)},
    "cassette_aliases": lambda: {
        "c.yaml": (ROOT / "tests/fixtures/vcr_cassette/input/anthropic.yaml").read_bytes()
        + b"more:\n- &a x\n"
        + b"- *a\n" * 10_000_000
    },
}
"""Name → what makes the files of a bomb."""

_MILLING: Final = """
import json, resource, sys
from collections import Counter
from pathlib import Path
raw, out, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
from trajmill.pipelines.normalize.normalizer import normalize_part
from trajmill.pipelines.normalize.parts_by_hand import normalizer_of
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder
import polars as pl
def mill(raw, out):
    recipe = Recipe.model_validate({"name": "t", "source": "t"})
    plan = make_plan(recipe, [raw])
    for part in plan.parts:
        normalize_part(part, normalizer_of(recipe, Folder(out), strict=True))
    rejects = [pl.read_parquet(one) for one in Path(out).glob("rejects/normalize/*.parquet")]
    rows = sum(len(pl.read_parquet(one, columns=["step"])) for one in Path(out).glob("transitions/*/*.parquet"))
    reasons = [one for table in rejects for one in table["reason"].to_list()]
    return rows, dict(Counter(reasons + [one.reason for one in plan.unrecognized]))
mill(raw + "/../idle", out + "/idle")
idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
rows, rejects = mill(raw, out + "/bomb")
print(json.dumps([(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle) / 1024, rows, rejects]))
"""
"""Mills a small log, then the bomb, and prints what became of it."""


def milled(name: str, limit: int = LIMIT_BYTES) -> Milled | str:
    """What becomes of a bomb, in a process of its own; how the process ended if it did not get through."""
    with tempfile.TemporaryDirectory(prefix="trajmill-bomb-") as place:
        base = Path(place)
        for folder, files in (("idle", {"log.jsonl": GOOD}), ("raw", BOMBS[name]())):
            (base / folder).mkdir()
            for file, data in files.items():
                (base / folder / file).write_bytes(data)
        words = [sys.executable, "-c", _MILLING, str(base / "raw"), str(base / "out"), str(limit)]
        # through a small process, since one begins with the peak of the one that starts it
        command = [
            sys.executable,
            "-S",
            "-c",
            "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)",
        ]
        ended = subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True, check=False)
        if ended.returncode:
            return f"code {ended.returncode}: {ended.stderr.strip()[-300:]}"
        return Milled(*json.loads(ended.stdout.splitlines()[-1]))


if __name__ == "__main__":
    for name in sys.argv[1:] or BOMBS:
        print(name, milled(name), flush=True)  # noqa: T201
