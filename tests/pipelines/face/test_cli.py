import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from schemas import scan_transitions
from tests.conftest import ROOT

SAMPLES = ROOT / "samples" / "terminal"
LOG = sorted((SAMPLES / "claude_code").rglob("*.jsonl"))[0]


def trajmill(*words, code: int = 0, cwd: Path = ROOT) -> str:
    command = [sys.executable, "-m", "pipelines", *map(str, words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_sniff_says_what_a_file_is_and_why(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    said = trajmill("sniff", LOG, tmp_path / "notes.txt")
    assert f"{LOG.name}: claude_code (" in said
    assert "notes.txt: unrecognized" in said


def test_plan_says_what_would_be_read():
    said = trajmill("plan", "terminal", "--raw", SAMPLES / "claude_code")
    assert "claude_code" in said
    assert "parts: 1" in said
    assert "licence" in said


def test_inspect_shows_a_raw_log_step_by_step():
    said = trajmill("inspect", LOG, "--lines", "3")
    assert "raw log: inputs 1" in said
    assert "step 0 of" in said


def test_run_takes_several_paths_after_raw_and_prints_the_balance(tmp_path):
    logs = sorted((SAMPLES / "claude_code").rglob("*.jsonl"))[:3]
    said = trajmill("run", "terminal", "--raw", *logs, "--out", tmp_path / "out", "--stop-after", "judge")
    assert re.search(r"│ inputs +│ 3", said)
    assert "next: trajmill inspect" in said


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["run", "terminal", "--raw", "nowhere"], "no raw input at 'nowhere'"),
        (["run", "terminall", "--raw", str(LOG)], "Did you mean 'terminal'?"),
        (["run", "terminal", "--raw", str(LOG), "--no_such_flag=1"], "--no_such_flag=1"),
        (["run", "terminal", "--raw", str(LOG), "--runner=Spark"], "no runner 'Spark'"),
        (["run", "terminal", "--raw", str(LOG), "--workers", "many"], "--workers"),
        (["run", "terminal", "--raw", "gopher://logs"], "Protocol not known: gopher"),
    ],
)
def test_a_mistake_is_answered_in_one_line(tmp_path, words, answer):
    said = trajmill(*words, "--out", tmp_path / "out", code=1)
    assert answer in said
    assert "Traceback" not in said
    assert not (tmp_path / "out" / "plan.json").exists()


def test_too_many_rejects_end_with_code_2_and_the_counts(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.bin").write_bytes(b"\0\1\2")
    said = trajmill("run", "terminal", "--raw", tmp_path / "raw", "--out", tmp_path / "out", code=2)
    assert "100.0% of 1 files were not recognized" in said
    assert "unrecognized 1" in said


def test_export_writes_atif_that_is_read_again_to_the_same_transitions(tmp_path):
    trajmill("run", "terminal", "--raw", LOG, "--out", tmp_path / "out", "--stop-after", "normalize")
    assert "1 trajectories" in trajmill("export", tmp_path / "out", "--out", tmp_path / "atif")
    trajmill("run", "terminal", "--raw", tmp_path / "atif", "--out", tmp_path / "again", "--stop-after", "normalize")
    columns = ["observation", "action", "next_observation"]
    first, again = (scan_transitions(tmp_path / name).select(columns).collect() for name in ("out", "again"))
    assert first.equals(again)


def test_the_schema_page_is_up_to_date():
    assert trajmill("schema", "--markdown") == (ROOT / "docs" / "schema.md").read_text("utf-8")


def test_the_schema_is_exported_as_json_schema(tmp_path):
    trajmill("schema", "--out", tmp_path / "schema.json")
    assert json.loads((tmp_path / "schema.json").read_text())["title"] == "trajmill transition"
