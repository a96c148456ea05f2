"""Looking at what is damaged, or at what is no run, ends in one line that names the file."""

import os
import random

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.conftest import FUZZ, ROOT
from trajmill.app.cli.cli import app
from trajmill.app.cli.inspection import inspect
from trajmill.connectors.conversation.harness_text import read_forms
from trajmill.pipelines.judge.harness_text import TABLE
from trajmill.pipelines.run_record.endings import Code
from trajmill.quality.spans import SPANS_SCHEMA
from trajmill.schemas import ConfigError

GOLDEN = sorted((ROOT / "tests" / "golden").glob("transitions-v*.parquet"))[-1].read_bytes()


def look(path):
    done = CliRunner().invoke(app, ["inspect", str(path), "--lines", "1"])
    if isinstance(done.exception, ConfigError):
        return Code.USAGE, f"trajmill: {done.exception}\n"  # as `main` says it
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def stored(folder, name, data=GOLDEN):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def test_a_damaged_table_is_told_in_one_line_that_names_it(tmp_path):
    chance = random.Random(FUZZ)
    refused = 0
    for number in range(16 * FUZZ):
        data = bytearray(GOLDEN)
        offset = chance.randrange(len(data))
        if number % 4 == 0:
            del data[offset:]
        else:
            data[offset : offset + 1 + number % 40] = bytes(len(data[offset : offset + 1 + number % 40]))
        file = stored(tmp_path, "transitions/terminal/part-00000-aaaaaaaa.parquet", bytes(data))
        for path in (file, tmp_path):
            code, output = look(path)
            if code:
                refused += 1
                assert code == 1
                assert output.startswith("trajmill: ")
                assert str(tmp_path) in output
                assert output.count("\n") == 1
    assert refused > 8


@pytest.mark.parametrize("line", [b"{", b"\xff", b"7", b"[]", b'"x"', b"", b"nul"])
def test_a_bad_line_of_a_shard_is_told_by_its_number(tmp_path, line):
    file = stored(tmp_path, "terminal_test.jsonl", b'{"id": 1}\n' + line + b"\n")
    code, output = look(file)
    assert code == 1
    assert "line 2 is no JSON" in output
    assert str(file) in output
    assert output.count("\n") == 1


def test_a_sample_of_a_shard_is_shown_by_its_number(tmp_path):
    file = stored(tmp_path, "terminal_test.jsonl", b"".join(orjson.dumps({"id": n}) + b"\n" for n in range(3)))
    assert [inspect(str(file), wanted).rows for wanted in (None, "1", "9")] == [[{"id": 0}], [{"id": 1}], [{"id": 2}]]
    assert inspect(str(stored(tmp_path, "web_test.jsonl", b""))).rows == []


def test_a_folder_of_several_things_is_no_run(tmp_path):
    stored(tmp_path, "first/transitions/terminal/part-00000-aaaaaaaa.parquet")
    stored(tmp_path, "second/table.parquet", b"damaged")
    code, output = look(tmp_path)
    assert code == 1
    assert f"'{tmp_path}/second/table.parquet' cannot be read" in output.replace("\n", "")
    (tmp_path / "second/table.parquet").unlink()
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "second/table.parquet")
    code, output = look(tmp_path)
    assert code == 1
    assert f"there are transitions in '{tmp_path}/first/transitions/terminal'" in output


def test_what_cannot_be_opened_is_told(tmp_path):
    for path in ("x" * 300, tmp_path / "nothing", tmp_path):
        code, output = look(path)
        assert code == 1
        assert output.count("\n") == 1
    os.mkfifo(tmp_path / "pipe.parquet")
    assert "unrecognized 1" in look(tmp_path)[1]


def test_of_what_an_observation_is_made_is_told_where_it_was_measured(tmp_path):
    stored(tmp_path, "transitions/terminal/part-00000-aaaaaaaa.parquet")
    row = next(row for row in inspect(str(tmp_path)).rows if (row["next_observation"] or {}).get("content"))
    assert "classes" not in row
    size = len(row["next_observation"]["content"].encode())
    spans = [{"begin": 0, "end": 1, "label": "frame"}, {"begin": 1, "end": 2, "label": "history"}]
    keys = {name: [row[name]] for name in ("row_id", "trajectory_id", "step")}
    (tmp_path / "spans/terminal").mkdir(parents=True)
    file = tmp_path / "spans/terminal/part-00000-aaaaaaaa.parquet"
    pq.write_table(pa.Table.from_pydict({**keys, "spans": [spans]}, SPANS_SCHEMA), file)
    for path in (tmp_path, tmp_path / "transitions"):
        (classes,) = [row["classes"] for row in inspect(str(path)).rows if "classes" in row]
        assert classes == {
            name: number for name, number in {"frame": 1, "copied": 1, "new": size - 2}.items() if number
        }
    assert "% frame" in look(tmp_path)[1]


def test_no_such_trajectory_is_told(tmp_path):
    stored(tmp_path, "transitions/terminal/part-00000-aaaaaaaa.parquet")
    with pytest.raises(ConfigError, match="'zz'"):
        inspect(str(tmp_path), "zz")


def test_a_line_that_is_printed_for_the_table_of_harness_text_is_a_row_of_it(tmp_path):
    frame = {
        "agent": "crane",
        "version": "1.2",
        "share": 0.1,
        "tool": "bash",
        "place": "tail",
        "skeleton": "[done in 0 ms]",
    }
    counts = {"answers": 8, "among": 9, "kinds": 6, "expected": 6.5, "example": "[done in 31 ms]"}
    (tmp_path / "measures").mkdir()
    pq.write_table(pa.Table.from_pylist([frame | counts], TABLE), tmp_path / "measures" / "harness_text.parquet")
    done = CliRunner().invoke(app, ["inspect", str(tmp_path), "--harness"])
    (form,) = read_forms(done.output.splitlines()[-1])
    assert (form.agent, form.versions, [*form.tools], form.meaning) == ("crane", "1.2-1.2", ["bash"], "after")
    assert form.pattern.fullmatch("[done in 7 ms]")
