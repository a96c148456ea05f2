"""A dataset folder is loaded as whoever trains on it would, and what does not load is told."""

import hashlib
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.publish.loading import verify_loading


def told(out):
    """What is found by loading, beyond what is found by checksums."""
    report = verify(str(out))
    return [f"{fault.name} {fault.what}" for fault in verify_loading(report).faults[len(report.faults) :]]


def rewritten(out, before, after):
    card = out / "shards" / "README.md"
    text = card.read_text("utf-8")
    assert before in text
    card.write_text(text.replace(before, after), "utf-8")


def sealed_anew(out, name):
    """Makes the manifests of the shards say of a file what is in it now, as if it had been written so."""
    data = (out / "shards" / name).read_bytes()
    for path in [out / "shards" / "manifest.json", *(out / "_units" / "shards").rglob("*.json")]:
        manifest = json.loads(path.read_text())
        for file in manifest["files"]:
            if file["name"] == name:
                file |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        path.write_text(json.dumps(manifest))
    (out / "checksums.json").unlink(missing_ok=True)


def a_shard(out, pool):
    (path,) = (out / "shards" / pool).rglob("*.parquet")
    return path


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("path: sft/*/train-*.parquet", "path: sft/*/test-*.parquet", "DataFilesNotFoundError"),
        ("path: sft/*/train-*.parquet", "path: '[cs]*/*/train-*.parquet'", "'sft' takes 2 files, and not the 1"),
        ("path: sft/*/train-*.parquet", "path: cpt/*/train-*.parquet", "'sft' takes 1 files, and not the 1"),
        ("config_name: cpt", "config_name: cqt", "BuilderConfig 'cpt' not found"),
        ("config_name: cpt", "config_name: cqt", "names a config 'cqt', of which there is no sample"),
        ("- split: train", "- split: validation", "'sft' takes 0 files"),
        ("configs:", "configurations:", "BuilderConfig 'sft' not found"),
        ("configs:", "configs: [", "ParserError"),
    ],
)
def test_a_card_whose_configs_do_not_match_the_files_is_told(finished, before, after, said):
    rewritten(finished, before, after)
    faults = told(finished)
    assert any(line.startswith("shards/README.md ") and said in line for line in faults), faults


def test_samples_of_other_columns_are_told(finished):
    path = a_shard(finished, "cpt")
    table = pq.read_table(path)
    pq.write_table(table.append_column("more", pa.nulls(table.num_rows, pa.string())), path)
    sealed_anew(finished, str(path.relative_to(finished / "shards")))
    assert told(finished) == ["shards/README.md does not load with datasets: 'cpt': CastError: Couldn't cast"]


def test_a_card_that_names_other_columns_is_told(finished):
    rewritten(finished, "dtype: int32", "dtype: int64")
    name = "shards/README.md does not load with datasets:"
    assert told(finished)[0] == f"{name} 'cpt' has other columns than its samples"


def test_lines_for_evaluation_that_are_none_are_told(finished):
    (path,) = (finished / "shards" / "eval").glob("*.jsonl")
    path.write_text(path.read_text("utf-8") + "{\n", "utf-8")
    sealed_anew(finished, str(path.relative_to(finished / "shards")))
    (line,) = told(finished)
    assert line.startswith("shards/eval does not load with datasets: 'eval': ")


def test_files_that_are_known_to_be_damaged_are_not_loaded(finished):
    path = a_shard(finished, "sft")
    path.write_bytes(path.read_bytes()[:-9])
    assert told(finished) == []


def test_a_run_without_a_dataset_is_not_loaded(finished):
    (finished / "shards" / "manifest.json").unlink()
    assert told(finished) == []


def test_the_command_loads_offline_and_leaves_nothing_behind(finished, tmp_path):
    home = tmp_path / "home"
    command = [sys.executable, "-m", "trajmill", "verify", str(finished)]
    env = {**os.environ, "HOME": str(home), "HF_HOME": str(home / "hf"), "TMPDIR": str(tmp_path)}
    online = {name: value for name, value in env.items() if not name.endswith("_OFFLINE")}
    before = set(tmp_path.iterdir())
    done = subprocess.run(command, cwd=ROOT, env=online, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "is as it was written.\npools: cpt " in done.stdout
    assert set(tmp_path.iterdir()) - before <= {home}
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_the_command_ends_with_5_where_the_card_misleads(finished):
    rewritten(finished, "path: rl/*/train-*.parquet", "path: rl/*.parquet")
    code, output, _ = ran("verify", finished)
    assert code == 5
    assert "shards/README.md does not load with datasets: 'rl' takes " in output
