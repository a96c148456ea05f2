"""The public Python API over a few samples: run, plan, sniff, and reading back."""

import json

import polars
import pyarrow.parquet as pq
import pytest

import trajmill
from tests.conftest import ROOT

SAMPLES = ROOT / "samples" / "terminal"


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    for log in [*sorted((SAMPLES / "asciicast").rglob("*.cast"))[:3], *sorted(SAMPLES.rglob("*.jsonl"))[8:14]]:
        (folder / log.name).write_bytes(log.read_bytes())
    (folder / "notes.txt").write_text("no log at all\n")
    return folder


@pytest.fixture(scope="module")
def made(raw, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "out"
    return out, trajmill.run("terminal", raw, out)


def test_a_run_over_one_path_reports_what_it_wrote(made):
    out, summary = made
    assert summary.line("inputs").entered == 9
    written = sum(pq.read_metadata(path).num_rows for path in out.glob("transitions/*/*.parquet"))
    assert summary.line("transitions").entered == written > 0


def test_transitions_and_verdicts_are_scanned_and_joined_by_their_key(made):
    out, summary = made
    frame = trajmill.scan_transitions(out)
    assert frame.collect_schema().names() == trajmill.TRANSITION_SCHEMA.names
    verdicts = polars.scan_parquet(out / "verdicts" / "*" / "*.parquet").drop("trajectory_id", "step")
    assert frame.join(verdicts, on="row_id").collect().height == summary.line("transitions").entered


@pytest.mark.parametrize("stage", ["cpt", "sft"])
@pytest.mark.parametrize("inner", ["", "shards"])
def test_shards_of_a_stage_are_scanned_from_either_folder(made, stage, inner):
    out, summary = made
    assert trajmill.scan_shards(out / inner, stage).collect().height == summary.samples[f"{stage}.terminal"] > 0


def test_a_stage_without_shards_is_an_error(made):
    with pytest.raises(trajmill.ConfigError, match="pretrain"):
        trajmill.scan_shards(made[0], "pretrain")


def test_sniffing_names_the_connector_of_each_log_and_the_file_that_none_reads(raw):
    logs = trajmill.sniff(raw)
    assert sorted(log.connector for log in logs if log.connector) == ["asciicast"] * 3 + ["claude_code"] * 6
    assert [(log.uri, log.connector) for log in logs][-1] == ("notes.txt", None)
    assert trajmill.sniff(*sorted(raw.glob("*.cast"))) == [log for log in logs if log.connector == "asciicast"]


def test_a_plan_takes_a_recipe_file_and_writes_nothing(raw, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"extends": "terminal", "name": "mine", "source": "tests"}))
    inputs = trajmill.plan(trajmill.load_recipe(str(file)), [raw]).inputs
    assert [log.uri for log in trajmill.plan(file, raw).inputs] == [log.uri for log in inputs]
    assert len(inputs) == 9
    assert list(tmp_path.iterdir()) == [file]


def test_a_stage_that_does_not_exist_is_refused_before_anything_is_written(raw, tmp_path):
    with pytest.raises(trajmill.ConfigError, match="publish"):
        trajmill.run("terminal", raw, tmp_path / "out", last_stage="publish")
    assert not (tmp_path / "out").exists()


def test_every_public_name_is_there_and_others_are_not():
    assert all(getattr(trajmill, name) is not None for name in trajmill.__all__)
    assert set(trajmill.__all__) <= set(dir(trajmill))
    with pytest.raises(AttributeError):
        trajmill.__getattr__("nothing")
