"""Nothing false is called done: what is not there, or not as it was written, is told and made again."""

import hashlib
import json
import random
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam import Pipeline
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from tests.pipelines.test_run import shards_of
from trajmill.pipelines.execution import runner
from trajmill.pipelines.execution.environment import differences, environment
from trajmill.pipelines.execution.execution import Execution, Seeing
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import REPORT
from trajmill.pipelines.storage.parquet import read_batches, write_parquet
from trajmill.pipelines.storage.units import finish_stage, finish_unit
from trajmill.schemas import SCHEMA_VERSION, ConfigError, ShardError
from trajmill.schemas.manifest import FileEntry, Manifest

RECIPE = load_recipe("terminal")


def _can_unshare() -> bool:
    tried = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"]
    return (
        shutil.which("unshare") is not None and subprocess.run(tried, capture_output=True, check=False).returncode == 0
    )


def flipped(path: Path, seed: int = 0) -> None:
    data = bytearray(path.read_bytes())
    bit = random.Random(seed).randrange(len(data) * 8)
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def digests(out: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.rglob("*.parquet"))}


WRITTEN = (
    "shards/sft/*/*.parquet", "shards/README.md", "shards/eval/*.jsonl", "transitions/*/*.parquet",
    "verdicts/*/*.parquet", "measures/*.sketch.parquet", "measures/replicates.json", "rejects/judge/*.parquet",
    "rejects/plan/*.parquet",
)  # fmt: skip


def test_flipped_bits_are_found_by_verify_and_mended_by_running_again(finished, raw):
    paths = [sorted(finished.glob(pattern))[0] for pattern in WRITTEN]
    before = digests(finished)
    for path in paths:
        flipped(path)
    report = verify(str(finished))
    assert sorted(fault.name for fault in report.faults) == sorted(str(path.relative_to(finished)) for path in paths)
    Run(RECIPE, [str(raw)], str(finished)).run()
    assert verify(str(finished)).is_whole
    assert digests(finished) == before


@pytest.mark.parametrize(
    "names",
    [
        ("shards", "plan.json", "run.json", "rejects/plan"),
        ("verdicts", "rejects/judge", "_units/verdicts"),
        ("transitions", "rejects/normalize", "_units/transitions", "rejects/_units/normalize"),
    ],
)
def test_what_docs_say_may_be_deleted_is_made_again_with_the_same_bytes(finished, raw, names):
    before = digests(finished)
    for name in names:
        path = finished / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    Run(RECIPE, [str(raw)], str(finished)).run()
    assert digests(finished) == before
    assert verify(str(finished)).is_whole
    assert (finished / "run.json").exists()


def test_every_flip_in_a_transitions_file_is_noticed_where_it_is_read(finished):
    """By its digest always; by the checksums of pages in nearly all places, whoever reads it without a manifest."""
    path = next((finished / "transitions").glob("*/*.parquet"))
    folder, name = Folder(str(path.parent)), path.name
    whole = [batch.to_pydict() for batch in read_batches(folder, name)]
    data = path.read_bytes()
    silent = 0
    rounds = 100
    for seed in range(rounds):
        flipped(path, seed)
        assert folder.sha256(name) != hashlib.sha256(data).hexdigest()
        with suppress(ShardError, ConfigError):
            silent += [batch.to_pydict() for batch in read_batches(folder, name)] != whole
        path.write_bytes(data)
    assert silent <= rounds * 3 // 100  # page headers and the footer's statistics bear no checksum


def test_memory_that_is_lacking_is_no_damage(tmp_path, monkeypatch):
    folder, schema = Folder(str(tmp_path)), pa.schema([("a", pa.int64())])
    write_parquet(folder, "a.parquet", schema, [pa.record_batch([pa.array([1])], schema=schema)])

    def lacking(*_, **__):
        raise pa.ArrowMemoryError("malloc of size 8 failed")

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lacking)
    with pytest.raises(MemoryError):
        list(read_batches(folder, "a.parquet"))


def test_damage_between_stages_stops_the_run_with_the_files_name(finished, raw, monkeypatch):
    path = next((finished / "transitions").glob("*/*.parquet"))
    values = RECIPE.model_dump(mode="json")
    values["judge"]["spans"] = True  # so that it is measured again
    original = Run.judge

    def judged(self, units):
        flipped(path)
        return original(self, units)

    monkeypatch.setattr(Run, "judge", judged)
    with pytest.raises(ShardError, match=path.name):
        Run(type(RECIPE).model_validate(values), [str(raw)], str(finished)).run()


def test_a_stage_without_one_of_its_units_is_not_sealed(tmp_path):
    stage = Folder(str(tmp_path / "verdicts"))
    stage.write("a.parquet", b"abc")
    entry = FileEntry("a.parquet", 1, 3, hashlib.sha256(b"abc").hexdigest())
    finish_unit(stage, Manifest("judge", "a", "d", SCHEMA_VERSION, (entry,)))
    with pytest.raises(ShardError, match="judge"):
        finish_stage(stage, "judge", "d", ["a", "b"])
    finish_stage(stage, "judge", "d", ["a"])
    (tmp_path / "verdicts" / "a.parquet").write_bytes(b"")
    with pytest.raises(ShardError):
        finish_stage(stage, "judge", "d", ["a"])


def test_a_worker_with_other_packages_says_which_before_it_works(tmp_path):
    out = Folder(str(tmp_path))
    lines = [line for line in environment() if not line.startswith("numpy ")]
    assert len(lines) == len(environment()) - 1
    seeing = Seeing(out, "token", (*lines, "another 1.0", "numpy 0.1"))
    with pytest.raises(ShardError, match="numpy"):
        seeing("element")
    assert not any(tmp_path.iterdir())


def test_an_environment_is_told_with_the_files_that_run():
    names = {line.rpartition(" ")[0] for line in environment()}
    assert {"trajmill", "trajmill's modules", "python", "processor", "apache-beam", "pyarrow"} <= names
    assert "pytest" not in names
    assert differences(environment(), environment()) == ""


def test_a_worker_that_does_not_see_the_output_folder_says_so_before_it_works(raw, tmp_path, monkeypatch):
    monkeypatch.setattr(Execution, "is_local", False)
    seen: list[str] = []

    def elsewhere(work, transform, execution, seeing):
        seen.append(seeing.token)
        Seeing(Folder(str(tmp_path / "elsewhere")), seeing.token)(work[0])

    monkeypatch.setattr("trajmill.pipelines.run.run_over", elsewhere)
    with pytest.raises(ShardError):
        Run(RECIPE, [str(raw)], str(tmp_path / "out")).run()
    assert len(seen[0]) == 32


@pytest.mark.slow
@pytest.mark.skipif(not _can_unshare(), reason="mount namespaces are not to be had here")
def test_a_worker_in_a_mount_namespace_of_its_own_seals_nothing(raw, tmp_path, monkeypatch):
    out = tmp_path / "out"
    alone = (
        f"mount -t tmpfs none {out} && exec {shlex.quote(sys.executable)} -m apache_beam.runners.worker.sdk_worker_main"
    )
    worker = SubprocessSDKEnvironment.from_command_string(f"unshare -m sh -c {shlex.quote(alone)}")
    monkeypatch.setattr(runner, "Pipeline", lambda options: Pipeline(FnApiRunner(worker), options))
    monkeypatch.setattr(Execution, "is_plain", False)
    monkeypatch.setattr(Execution, "is_local", False)
    with pytest.raises(ShardError):
        Run(RECIPE, [str(raw)], str(out)).run()
    assert not (out / "shards").exists()
    assert not verify(str(out)).is_whole


def test_workers_elsewhere_that_see_the_folder_leave_no_trace_of_their_proof(raw, tmp_path, monkeypatch):
    monkeypatch.setattr(Execution, "is_local", False)
    Run(RECIPE, [str(raw)], str(tmp_path / "out")).run()
    assert verify(str(tmp_path / "out")).is_whole
    assert not [path for path in (tmp_path / "out").rglob("*") if "proof" in path.name]


def test_what_no_run_wrote_and_what_is_not_finished_is_told_by_verify(finished):
    (finished / "shards" / "mine.txt").write_text("x")
    assert verify(str(finished)).foreign == ("shards/mine.txt",)
    (finished / "shards" / "manifest.json").unlink()
    report = verify(str(finished))
    assert [stage.name for stage in report.stages if not stage.sealed] == ["shards"]
    assert not report.is_whole


def test_damaged_manifests_are_told(finished):
    (finished / "transitions" / "manifest.json").write_text("{")
    unit = next((finished / "_units" / "verdicts").iterdir())
    unit.write_bytes(unit.read_bytes().replace(b'"rows": ', b'"rows": 1'))
    faults = {fault.name: fault.what for fault in verify(str(finished)).faults}
    assert "no manifest" in faults["transitions/manifest.json"]
    assert "not the sum" in faults["verdicts/manifest.json"]


def test_a_change_in_any_file_but_the_report_is_told_by_verify(finished):
    files = [path for path in sorted(finished.rglob("*")) if path.is_file() and path.name not in (".lock", REPORT)]
    assert {"plan.json", "run.json", "trajmill.json", "checksums.json"} <= {path.name for path in files}
    assert any("_units" in path.parts for path in files)
    for path in {(path.parent, path.suffix, "part-" in path.name): path for path in files}.values():
        data = path.read_bytes()
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        try:
            assert verify(str(finished)).faults, path
        except ConfigError:
            assert path.name == "trajmill.json"  # the marker, without which it is no folder of ours
        path.write_bytes(data)
    assert verify(str(finished)).is_whole


def test_while_a_run_works_no_checksums_stand_that_are_not_so_any_more(finished, raw, monkeypatch):
    seen: list[object] = []
    run = Run(load_recipe("terminal"), [str(raw)], str(finished), overwrite=True)
    usual = run.judge

    def judge(units):
        seen.append(verify(str(finished)).faults)
        return usual(units)

    monkeypatch.setattr(run, "judge", judge)
    run.run()
    assert seen == [()]
    assert verify(str(finished)).is_whole


def test_a_folder_of_no_run_cannot_be_verified(tmp_path):
    with pytest.raises(ConfigError):
        verify(str(tmp_path))


def test_the_record_of_a_run_holds_what_it_takes_to_run_it_again(finished, raw, tmp_path):
    record = json.loads((finished / "run.json").read_text())
    assert record["version"]
    assert record["counts"]["transitions"]["kept"] > 0
    assert set(record["seconds"]) == {"plan", "normalize", "judge", "mix"}
    again = load_recipe(str(finished / "run.json"))
    assert again == RECIPE
    Run(again, [str(raw)], str(tmp_path / "again")).run()
    assert shards_of(tmp_path / "again") == shards_of(finished)


def test_a_salt_is_in_no_record_and_is_asked_for_where_the_record_is_run_again(raw, tmp_path, monkeypatch):
    values = RECIPE.model_dump(mode="json")
    values["normalize"]["scrub_salt"] = salt = "only the owner knows this"
    recipe = type(RECIPE).model_validate(values)
    Run(recipe, [str(raw)], str(tmp_path / "out"), command=["trajmill", "--key", "AKIA" + "Q7RTWZXC5VBNM2LK"]).run(
        "plan"
    )
    for path in (tmp_path / "out").rglob("*"):
        assert not path.is_file() or salt.encode() not in path.read_bytes()
    assert b"Q7RTWZXC5VBNM2LK" not in (tmp_path / "out" / "run.json").read_bytes()
    with pytest.raises(ConfigError, match="TRAJMILL_SCRUB_SALT"):
        load_recipe(str(tmp_path / "out" / "run.json"))
    monkeypatch.setenv("TRAJMILL_SCRUB_SALT", salt)
    assert load_recipe(str(tmp_path / "out" / "run.json")) == recipe
