"""A run ends where too much of what a connector recognized could not be read, and only there."""

import json
import shutil
import zipfile

import pytest

from tests.conftest import ROOT
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.conservation import TooManyRejectsError

LOG = next((ROOT / "samples/terminal/claude_code").rglob("*.jsonl"))
ROW = {
    "messages": [
        {"role": "user", "content": "list the files"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "function": {"name": "ls", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "a.txt"},
    ]
}


def run(raw, out, **normalize):
    recipe = Recipe.model_validate({"name": "t", "source": "t", "normalize": normalize})
    return Run(recipe, [str(raw)], str(out)).run("normalize")


def table(path, good, bad):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps(ROW)] * good + ["{'no': JSON}"] * bad
    path.write_text("\n".join([rows[0], *sorted(rows[1:])]) + "\n")
    return path.parent


def logs(folder, count=10):
    folder.mkdir(parents=True)
    for number in range(count):
        shutil.copy(LOG, folder / f"{number}.jsonl")
    return folder


def test_a_table_of_bad_rows_is_too_much_though_its_file_was_read(tmp_path):
    raw = table(tmp_path / "raw" / "rows.jsonl", 10, 600)
    with pytest.raises(TooManyRejectsError, match=r"98\.4%"):
        run(raw, tmp_path / "out")
    assert run(raw, tmp_path / "other", max_reject_ratio=0.99).line("records").lost == {"bad_json": 600}


def test_a_few_bad_lines_among_the_many_of_one_log_are_not_too_much(tmp_path):
    raw = logs(tmp_path / "raw", 1)
    lines = LOG.read_text().splitlines()
    (raw / "0.jsonl").write_text("\n".join([*lines[:5], "{'no': JSON}", *lines[5:]]) + "\n")
    records = run(raw, tmp_path / "out").line("records")
    assert records.lost == {"bad_json": 1}
    assert records.kept > 5


def test_files_that_are_no_logs_beside_those_that_are_do_not_end_a_run_by_default(tmp_path):
    raw = logs(tmp_path / "raw", 3)
    for number in range(20):
        (raw / f"notes{number}.txt").write_text("what I saw")
    summary = run(raw, tmp_path / "out")
    assert summary.line("inputs").lost == {}
    assert summary.line("files").lost == {"unrecognized": 20}
    with pytest.raises(TooManyRejectsError, match=r"87\.0%"):
        run(raw, tmp_path / "other", max_unrecognized_ratio=0.5)


def test_unreadable_inputs_are_too_many_by_their_share_of_those_that_were_recognized(tmp_path):
    raw = logs(tmp_path / "raw", 3)
    for number in range(2):
        (raw / f"bad{number}.jsonl").write_bytes(LOG.read_bytes()[:700])
    with pytest.raises(TooManyRejectsError, match=r"40\.0%"):
        run(raw, tmp_path / "out")


@pytest.mark.parametrize("content", [b"\0\1\2", b""])
def test_a_run_that_keeps_nothing_is_not_called_done(tmp_path, content):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.bin").write_bytes(content)
    with pytest.raises(TooManyRejectsError, match=r"100\.0%"):
        run(tmp_path / "raw", tmp_path / "out")
    assert run(tmp_path / "raw", tmp_path / "other", max_reject_ratio=1).line("inputs").entered == 0


def test_what_was_read_of_another_domain_counts_as_read(tmp_path):
    raw = logs(tmp_path / "raw", 1)
    lost = {"type": "tool_result", "tool_use_id": "lost", "content": "x"}
    first = json.loads(next(line for line in LOG.read_text().splitlines() if '"uuid"' in line))
    for number in range(2):
        message = {"role": "user", "content": [{**lost, "tool_use_id": f"lost{number}"}]}
        line = {**first, "type": "user", "uuid": f"u{number}", "message": message}
        with (raw / "0.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")
    table(raw / "rows.jsonl", 3, 0)
    recipe = Recipe.model_validate({"name": "t", "source": "t", "domains": ["mcp"]})
    summary = Run(recipe, [str(raw)], str(tmp_path / "out")).run("normalize")
    assert summary.line("inputs").lost == {"other_domain": 1}
    records = summary.line("records")
    assert (records.kept, records.lost) == (3, {"other_domain": 7, "result_without_call": 2})


def test_a_file_that_only_looks_like_a_format_is_no_failure_in_a_large_archive_either(tmp_path):
    raw = logs(tmp_path / "raw", 1)
    row = {"messages": [ROW["messages"][0], {"role": "assistant", "content": "", "tool_calls": ["ls"]}]}
    with zipfile.ZipFile(raw / "packed.zip", "w") as archive:
        archive.writestr("like.jsonl", f"{json.dumps(row)}\n" * 3)
        archive.writestr("notes.txt", "of more than the beginning of a file\n" * 5_000)
    assert run(raw, tmp_path / "out").line("inputs").lost == {"misrecognized": 1}


def test_a_damaged_file_of_a_format_that_only_its_shape_tells_is_a_failure(tmp_path):
    raw = logs(tmp_path / "raw", 1)
    (raw / "cut.json").write_text(json.dumps([ROW] * 3)[:-40])
    assert run(raw, tmp_path / "out", max_reject_ratio=0.5).line("inputs").unreadable == 0.5
