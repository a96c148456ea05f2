import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe_file import load_recipe, parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError, scan_transitions

RAW = ROOT / "samples" / "terminal"
RECIPE = load_recipe("terminal")


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    """As few of the terminal samples as fill every pool, with a copy and with messages of the harness."""
    folder = tmp_path_factory.mktemp("raw")
    for log in sorted((RAW / "claude_code").rglob("*.jsonl"))[8:17] + sorted((RAW / "asciicast").rglob("*.cast"))[:4]:
        shutil.copy(log, folder)
    return folder


def shards_of(out: Path) -> dict[str, str]:
    """Name → sha256 of everything in a run's dataset folder."""
    folder = out / "shards"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def finished(raw, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("finished")
    Run(RECIPE, [str(raw)], str(out)).run()
    return out


def test_shuffled_inputs_and_other_part_sizes_give_the_same_bytes(raw, finished, tmp_path):
    names = [str(path) for path in raw.iterdir()]
    random.Random(5).shuffle(names)
    Run(RECIPE, names, str(tmp_path), Execution(part_bytes=30_000)).run()
    assert len(list((tmp_path / "transitions" / "terminal").iterdir())) > 3
    assert shards_of(tmp_path) == shards_of(finished)


def test_the_exchange_through_a_group_by_key_gives_the_same_bytes(raw, finished, tmp_path, monkeypatch):
    monkeypatch.setattr(Execution, "is_local", False)
    Run(RECIPE, [str(raw)], str(tmp_path)).run()
    assert shards_of(tmp_path) == shards_of(finished)


def test_many_small_shards_hold_the_same_samples(raw, finished, tmp_path):
    values = RECIPE.model_dump(mode="json")
    values["mix"]["shard_bytes"] = 2048
    Run(type(RECIPE).model_validate(values), [str(raw)], str(tmp_path)).run()
    single, many = (pl.read_parquet(f"{out}/shards/sft/*/*.parquet") for out in (finished, tmp_path))
    assert len(list((tmp_path / "shards" / "sft" / "terminal").iterdir())) > 2
    assert single.equals(many)


def test_a_recipe_that_keeps_harness_text_shows_it_in_every_pool(raw, finished, tmp_path):
    values = RECIPE.model_dump(mode="json")
    values["mix"]["harness"] = "keep"
    Run(type(RECIPE).model_validate(values), [str(raw)], str(tmp_path)).run()
    notes = scan_transitions(tmp_path).filter(pl.col("interleaved").is_not_null()).collect()
    assert notes.height > 0
    shown: list[str] = []
    for pool in ("cpt", "sft", "rl"):
        stripped = [str(row) for row in pl.read_parquet(f"{finished}/shards/{pool}/*/*.parquet").rows()]
        unstripped = [str(row) for row in pl.read_parquet(f"{tmp_path}/shards/{pool}/*/*.parquet").rows()]
        assert len(stripped) == len(unstripped)
        assert not any("Message:**" in row for row in stripped)
        shown += [row for row in unstripped if "Message:**" in row]
    assert shown


def test_a_second_run_does_nothing_again(raw, finished):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("part-*.parquet") if "plan" not in path.parts}
    assert len(before) == 3
    Run(RECIPE, [str(raw)], str(finished)).run()
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize("version", ["0.0.1", None])
def test_what_another_version_of_trajmill_left_is_made_again(raw, finished, tmp_path, version):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    noted = 0
    for path in tmp_path.rglob("*.json"):
        values = json.loads(path.read_bytes())
        if "manifest_version" in values:
            noted += bool(values.pop("program_version"))
            path.write_text(json.dumps({**values, "program_version": version} if version else values))
    paths = [path for path in tmp_path.rglob("part-*.parquet") if "plan" not in path.parts]
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}
    Run(RECIPE, [str(raw)], str(tmp_path)).run()
    assert noted >= 3
    for path, (stamp, content) in before.items():
        assert path.stat().st_mtime_ns > stamp
        assert path.read_bytes() == content


def test_a_changed_rule_judges_again_but_does_not_measure_or_parse_again(raw, finished, tmp_path):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    paths = [*(tmp_path / "transitions").rglob("*.parquet"), *(tmp_path / "measures").rglob("*-part-*.parquet")]
    assert len(paths) > 4
    before = {path: path.stat().st_mtime_ns for path in paths}
    values = RECIPE.model_dump(mode="json")
    values["judge"]["rules"]["few_turns"]["min"] = 5
    summary = Run(type(RECIPE).model_validate(values), [str(raw)], str(tmp_path)).run()
    assert {path: path.stat().st_mtime_ns for path in paths} == before
    assert summary.line("trajectories").lost["few_turns"] > 3


def test_a_changed_log_is_read_again(raw, tmp_path):
    logs = tmp_path / "logs"
    shutil.copytree(raw, logs)
    out = tmp_path / "out"
    Run(RECIPE, [str(logs)], str(out), Execution(part_bytes=1)).run("normalize")
    before = {path.name: path.stat().st_mtime_ns for path in (out / "transitions" / "terminal").iterdir()}
    changed = sorted(logs.glob("*.jsonl"))[0]
    changed.write_bytes(changed.read_bytes().replace(b"toolu_", b"toolx_"))
    Run(RECIPE, [str(logs)], str(out), Execution(part_bytes=1)).run("normalize")
    after = {path.name: path.stat().st_mtime_ns for path in (out / "transitions" / "terminal").iterdir()}
    assert sum(before.get(name) != stamp for name, stamp in after.items()) == 1


def parts_done(out: Path) -> list[Path]:
    """Parts of the transitions that are finished, with all that is written beside them."""
    units = [out / "_units" / "transitions", out / "rejects" / "_units" / "normalize"]
    parts = (out / "transitions").rglob("part-*.parquet")
    return [path for path in parts if all((unit / f"{path.stem}.json").exists() for unit in units)]


DIES_AFTER = """
import os, signal, sys
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder

def write(self, *file, **how):
    Folder.written(self, *file, **how)
    if self.url.endswith(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

Folder.written, Folder.write = Folder.write, write
Run(load_recipe("terminal"), [sys.argv[1]], sys.argv[2], Execution(part_bytes=30_000)).run()
"""


@pytest.mark.slow
def test_killed_at_any_moment_and_started_again_gives_the_same_bytes(raw, finished, tmp_path):
    for unit in ("rejects/_units/normalize", "_units/verdicts"):
        command = [sys.executable, "-c", DIES_AFTER, str(raw), str(tmp_path), unit]
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL, unit
    before = {path: path.stat().st_mtime_ns for path in parts_done(tmp_path)}
    assert before
    Run(RECIPE, [str(raw)], str(tmp_path), Execution(part_bytes=30_000)).run()
    assert shards_of(tmp_path) == shards_of(finished)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not list(tmp_path.rglob(".unfinished-*"))
    assert not (tmp_path / "spill").exists()


def test_two_runs_on_one_folder_at_once_are_refused(raw, tmp_path):
    run = Run(RECIPE, [str(raw)], str(tmp_path))
    refused: list[str] = []

    def second(start):
        if start.steps and not refused:
            with pytest.raises(ConfigError) as caught:
                Run(RECIPE, [str(raw)], str(tmp_path)).run("plan")
            refused.append(str(caught.value))

    run._tell = second
    run.run("normalize")
    assert str(os.getpid()) in refused[0]


def test_every_unit_is_conserved_and_every_drop_has_a_row(finished):
    summary = Run(RECIPE, [(finished / "plan.json").as_posix()], str(finished))
    rejects = pl.concat([pl.read_parquet(path) for path in (finished / "rejects").rglob("*.parquet")])
    verdicts = pl.read_parquet(f"{finished}/verdicts/*/*.parquet")
    dropped = verdicts.filter(~pl.col("kept"))["trajectory_id"].n_unique()
    listed = rejects.filter(pl.col("unit") == "trajectory")
    assert listed["trajectory_id"].n_unique() == dropped
    unused = verdicts.filter(pl.col("kept") & (pl.col("use") != "target")).height
    assert rejects.filter(pl.col("unit") == "transition").height == unused
    assert rejects.filter(pl.col("reason") == "").height == 0
    assert summary.recipe is RECIPE


def test_verdicts_lie_beside_the_payload_row_by_row(finished):
    for verdict in (finished / "verdicts").rglob("part-*.parquet"):
        payload = finished / "transitions" / verdict.relative_to(finished / "verdicts")
        columns = ["trajectory_id", "step"]
        assert pl.read_parquet(verdict, columns=columns).equals(pl.read_parquet(payload, columns=columns))


def test_pools_share_no_group_and_no_trajectory(finished):
    shards = finished / "shards"
    groups = {
        "cpt": set(pl.read_parquet(f"{shards}/cpt/*/*.parquet")["group"]),
        "sft": set(pl.read_parquet(f"{shards}/sft/*/*.parquet")["group"]),
        "rl": set(pl.read_parquet(f"{shards}/rl/*/*.parquet")["extra_info"].struct.field("group")),
        "eval": set(pl.read_ndjson(next(shards.glob("eval/*.jsonl")))["group"]),
    }
    assert all(groups.values())
    assert sum(map(len, groups.values())) == len(set().union(*groups.values()))


def test_rl_takes_exactly_one_turn_of_a_trajectory(finished):
    info = pl.read_parquet(f"{finished}/shards/rl/*/*.parquet")["extra_info"].struct.unnest()
    assert info["trajectory_id"].is_unique().all()
    assert (info["turn_idx"] <= info["total_turns"]).all()


def test_a_sample_can_be_traced_to_the_bytes_it_came_from(raw, finished):
    sample = pl.read_parquet(f"{finished}/shards/sft/*/*.parquet").row(0, named=True)
    rows = scan_transitions(finished).filter(pl.col("trajectory_id") == sample["trajectory_id"]).collect()
    provenance = rows["provenance"][0]
    data = (raw / provenance["uri"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == provenance["sha256"]
    assert data[provenance["offset"] :][:1] in b"{["


def test_no_path_clock_or_runner_name_is_in_a_shard_folder(finished, raw):
    for path in (finished / "shards").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert str(raw).encode() not in data
            assert str(finished).encode() not in data
            assert b"FnApiRunner" not in data


@pytest.mark.parametrize("config", ["sft", "cpt", "rl"])
def test_shards_load_with_datasets_whole_and_streaming(finished, config, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    folder = str(finished / "shards")
    whole = load_dataset(folder, config, cache_dir=str(tmp_path))["train"]
    stream = load_dataset(folder, config, streaming=True)["train"]
    assert whole.num_rows > 0
    assert list(stream) == list(whole)


def test_trajectories_of_other_domains_are_rejected_and_counted(raw, tmp_path):
    recipe = parse_recipe("name: a\nsource: b\ndomains: [android]\nnormalize: {max_reject_ratio: 1}\n", "r")
    summary = Run(recipe, [str(raw)], str(tmp_path)).run("normalize")
    assert summary.line("inputs").kept == 0
    assert summary.line("inputs").lost["other_domain"] > 5


@pytest.mark.parametrize("stage", ["plan", "normalize", "judge"])
def test_a_run_stops_where_it_is_told_to(raw, tmp_path, stage):
    summary = Run(RECIPE, [str(raw)], str(tmp_path), Execution(limit=3)).run(stage)
    assert summary.last == stage
    assert not (tmp_path / "shards").exists()
    assert (tmp_path / "verdicts").exists() == (stage == "judge")


def test_an_output_folder_may_lie_on_another_file_system(raw, finished):
    out = "memory://made"
    Run(RECIPE, [str(raw)], out).run()
    import fsspec

    filesystem = fsspec.filesystem("memory")
    for name, digest in shards_of(finished).items():
        assert hashlib.sha256(filesystem.cat_file(f"/made/shards/{name}")).hexdigest() == digest


def test_a_path_that_is_a_file_cannot_be_the_output_folder(raw, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError):
        Run(RECIPE, [str(raw)], str(tmp_path / "file")).run("plan")
