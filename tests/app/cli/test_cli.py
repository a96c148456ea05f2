import io
import json
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from trajmill.app.cli.cli import main
from trajmill.connectors.registry import FORMATS, VERIFIED
from trajmill.schemas import scan_transitions

SAMPLES = ROOT / "samples" / "terminal"
LOG = sorted((SAMPLES / "claude_code").rglob("*.jsonl"))[0]


def ran(*words) -> tuple[int, str, str]:
    """(code, what it says on stdout, and on stderr) of the command, run in this process."""
    code: object = 0
    said, complained = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(complained):
        patch.setattr(sys, "argv", ["trajmill", *map(str, words)])
        try:
            main()
        except SystemExit as error:
            code = error.code or 0
    return int(str(code)), said.getvalue(), complained.getvalue()


def trajmill(*words, code: int = 0) -> str:
    ended, said, complained = ran(*words)
    assert ended == code, complained
    return said + complained


def test_the_module_is_the_command_in_a_process_of_its_own():
    command = [sys.executable, "-m", "trajmill", "sniff", str(LOG)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == trajmill("sniff", LOG)


def test_a_mistake_ends_a_process_of_its_own_with_code_1():
    command = [sys.executable, "-m", "trajmill", "plan", "terminall", "--raw", str(LOG)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Did you mean 'terminal'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_sniff_says_what_a_file_is_and_why(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    said = trajmill("sniff", LOG, tmp_path / "notes.txt")
    assert f"{LOG.name}: claude_code (" in said
    assert "notes.txt: unrecognized" in said


def test_formats_that_met_no_real_log_are_listed_as_unverified():
    rows = [line.split() for line in trajmill("formats").splitlines()]
    assert {name for name, _, told, *_ in rows if told == "unverified"} == FORMATS.keys() - VERIFIED.keys()
    assert ["asciicast", FORMATS["asciicast"].version, str(VERIFIED["asciicast"]), "logs"] in [row[:4] for row in rows]


def test_sniff_names_the_command_that_reads_a_table_of_unknown_columns(tmp_path):
    table = tmp_path / "steps.jsonl"
    table.write_text('{"ep": 1, "obs": "a", "cmd": "go", "result": "b"}\n' * 3)
    ended, said, complained = ran("sniff", table)
    assert (ended, "steps.jsonl: unrecognized" in said) == (0, True)
    assert f"`trajmill init {table}` drafts a recipe" in complained
    assert ran("sniff", LOG)[2] == ""


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
    assert "trajmill-terminal: 3 logs" in said
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


def test_it_tells_its_version_and_the_flag_that_was_meant(tmp_path):
    assert re.fullmatch(r"trajmill \d+\.\d+\.\d+\n", trajmill("--version"))
    said = trajmill("run", "terminal", "--raw", SAMPLES, "--out", tmp_path / "out", "--worker", "2", code=1)
    assert "--worker. Did you mean --workers?" in said
    assert not (tmp_path / "out").exists()


def test_a_program_reads_how_a_run_went_and_a_quiet_one_says_nothing(tmp_path):
    words = ("run", "terminal", "--raw", SAMPLES / "claude_code", "--out", tmp_path / "out")
    code, said, complained = ran(*words, "--log-format", "json")
    assert code == 0
    told = [json.loads(line) for line in complained.splitlines()]
    assert [one["stage"] for one in told if one["event"] == "stage_ends"] == ["plan", "normalize", "judge", "mix"]
    summary = json.loads(said)
    assert summary["event"] == "summary"
    assert summary["counts"]["trajectories"]["entered"] > 0
    assert "mix: done in" in (tmp_path / "out" / "run.log").read_text()
    assert ran(*words, "--quiet") == (0, "", "")
    code, said, complained = ran("run", "terminall", *words[2:], "--log-format", "json")
    assert (code, said) == (1, "")
    assert json.loads(complained)["code"] == 1


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


def test_export_writes_conversations_of_agents_and_why_others_are_none(tmp_path):
    asked = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    talk = [
        {"role": "user", "content": "How is it?"},
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "a", "content": "dry"},
        {"role": "assistant", "content": "Dry."},
    ]
    tools = [{"type": "function", "function": {"name": "look"}}]
    raw = tmp_path / "raw"
    raw.mkdir()
    undeclared = [{"role": "user", "content": "Now?"}, *talk[1:]]
    logs = [{"tools": tools, "messages": talk}, {"messages": undeclared}]
    (raw / "talks.jsonl").write_text("".join(json.dumps(one) + "\n" for one in logs))
    shutil.copy(ROOT / "tests" / "fixtures" / "har" / "input" / "chrome.har", raw)
    trajmill("run", "all", "--raw", raw, "--out", tmp_path / "out", "--stop-after", "normalize")
    trajmill("export", tmp_path / "out", "--to", "agent_sft", "--out", tmp_path / "sft")
    rows = pq.read_table(tmp_path / "sft" / "train.parquet").to_pylist()
    row, other = sorted(rows, key=lambda one: one["messages"][0]["content"])
    assert [one["content"] for one in row["messages"]] == ["How is it?", None, "dry", "Dry."]
    assert [one["loss"] for one in row["messages"]] == [None, True, None, True]
    assert json.loads(row["messages"][1]["tool_calls"]) == [asked]
    assert json.loads(row["tools"]) == tools
    assert (other["tools"], other["fidelity"]["tools"]) == (None, "not_logged")
    refused = [json.loads(line) for line in (tmp_path / "sft" / "refused.jsonl").read_text().splitlines()]
    assert {one["reason"] for one in refused} == {"no_conversation"}


def test_the_schema_page_is_up_to_date():
    assert trajmill("formats", "--markdown") == (ROOT / "docs" / "schema.md").read_text("utf-8")


def test_the_schema_is_printed_as_json_schema():
    assert json.loads(trajmill("formats", "--schema"))["title"] == "trajmill transition"
