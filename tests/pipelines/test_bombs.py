"""No input takes more than a gigabyte of a process that reads it, whatever it becomes when it is read."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.pipelines.hostile import GOOD

MOST: Final = 1000
"""Megabytes over those of a process that is idle."""

LIMIT_BYTES: Final = 3 << 30
"""Bound on the data of the process that is measured."""

NODE: Final = '<node class="android.widget.Button" text="{}" enabled="true" bounds="[0,0][540,200]"/>'

MILLING: Final = """
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

APART: Final = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
"""Starts a process from a small one, since one begins with the peak of the one that starts it."""


def line_of_lists() -> dict[str, bytes]:
    """A Claude Code log, and a line that is an array of eighteen million empty ones."""
    return {"log.jsonl": GOOD.rstrip(b"\n") + b"\n[" + b"[]," * 18_000_000 + b"[]]\n"}


def xml_nodes() -> dict[str, bytes]:
    """Two dumps of a screen with 600,000 nodes."""
    before = (
        "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation=\"0\">"
        '<node class="android.widget.FrameLayout" text="" package="org.example" clickable="true" enabled="true" '
        'bounds="[0,0][540,200]">'
    )
    dump = (before + "".join(map(NODE.format, range(600_000))) + "</node></hierarchy>").encode()
    event = b'{"action": "tap", "x": 100, "y": 100, "before": "dump_1.xml", "after": "dump_2.xml"}\n'
    return {"events.jsonl": event, "dump_1.xml": dump, "dump_2.xml": dump}


def parquet_list() -> dict[str, bytes]:
    """A row whose list holds one text of 1 MB 4,000 times: the file holds it once."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 4000, pa.int32()), pa.array(["a" * (1 << 20)]))
    table = pa.table({"id": ["1"], "messages": pa.ListArray.from_arrays(pa.array([0, 4000], pa.int32()), text)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", dictionary_pagesize_limit=64 << 20)
    return {"a.parquet": sink.getvalue().to_pybytes()}


@pytest.mark.parametrize(
    ("bomb", "transitions", "rejects"),
    [
        (line_of_lists, 6, {"too_many_values": 1}),
        (xml_nodes, 0, {"too_many_nodes": 2, "no_observation": 1}),
        (parquet_list, 0, {"row_too_large": 1, "no_transitions": 1}),
    ],
)
def test_a_bomb_is_refused_for_its_reason_and_takes_less_than_a_gigabyte(bomb, transitions, rejects, tmp_path: Path):
    for folder, files in (("idle", {"log.jsonl": GOOD}), ("raw", bomb())):
        (tmp_path / folder).mkdir()
        for name, data in files.items():
            (tmp_path / folder / name).write_bytes(data)
    milling = [sys.executable, "-c", MILLING, str(tmp_path / "raw"), str(tmp_path / "out"), str(LIMIT_BYTES)]
    command = [sys.executable, "-S", "-c", APART, *milling]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-300:]
    megabytes, *counts = json.loads(ended.stdout.splitlines()[-1])
    assert counts == [transitions, rejects]
    assert megabytes < MOST
