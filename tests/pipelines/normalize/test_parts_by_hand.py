"""Shares of the parts, done by hand in any order and at once, then a run: the bytes of one run."""

import fcntl
import json
import random
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.app.cli.test_cli import ran
from tests.pipelines.test_run import RAW, shards_of
from trajmill.app.cli.cli import app
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.judge import units_by_hand
from trajmill.pipelines.judge.evaluation_index import write_index
from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.judge.units_by_hand import measure_share
from trajmill.pipelines.mix.samples_by_hand import mix_share
from trajmill.pipelines.normalize.parts_by_hand import Share, ShareDone, normalize_share
from trajmill.pipelines.recipe.recipe_file import load_recipe, parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import LOCK
from trajmill.pipelines.storage.units import MANIFEST
from trajmill.schemas import SCHEMA_VERSION, ConfigError
from trajmill.schemas.manifest import FileEntry, Manifest

RECIPE = load_recipe("terminal")
SMALL = Execution(part_bytes=25_000)


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    for log in sorted((RAW / "asciicast").glob("*.cast"))[:6]:
        (folder / log.name).write_bytes(log.read_bytes())
    return folder


@pytest.fixture(scope="module")
def whole(raw, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    Run(RECIPE, [str(raw)], str(out), SMALL).run()
    return out


def transitions(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted((out / "transitions").rglob("*.parquet"))}


def share(raw: Path, out: Path, words: str):
    return normalize_share(RECIPE, [str(raw)], str(out), Share.of(words), SMALL)


def test_shares_in_any_order_and_the_rest_by_a_run_give_the_bytes_of_one_run(raw, whole, tmp_path):
    done = [share(raw, tmp_path, f"{number}/6") for number in random.Random(1).sample(range(6), 6)]
    parts = len(json.loads((whole / "plan.json").read_bytes())["parts"])
    assert parts > 3
    assert sum(result.parts for result in done) == parts
    assert not any(result.before for result in done)
    assert transitions(tmp_path) == transitions(whole)
    assert not (tmp_path / "transitions" / "manifest.json").exists()
    files = {name: (tmp_path / name).stat().st_ino for name in transitions(tmp_path)}
    Run(RECIPE, [str(raw)], str(tmp_path), SMALL).run()
    assert {name: (tmp_path / name).stat().st_ino for name in transitions(tmp_path)} == files
    assert shards_of(tmp_path) == shards_of(whole)


def test_shares_of_judging_measure_once_what_a_run_then_judges(raw, whole, tmp_path):
    def measure(number: int) -> ShareDone:
        return measure_share(RECIPE, [str(raw)], str(tmp_path), Share(number, 3), SMALL)

    with pytest.raises(ConfigError, match="--stop-after normalize"):
        measure(0)
    Run(RECIPE, [str(raw)], str(tmp_path), SMALL).run("normalize")
    done = [measure(number) for number in (2, 0, 1)]
    units = len(transitions(whole))
    assert units > 3
    assert (sum(result.parts for result in done), sum(result.before for result in done)) == (units, 0)
    assert measure(2).before == done[0].parts
    files = {path: (path.stat().st_ino, path.read_bytes()) for path in (tmp_path / "measures").rglob("*part-*.parquet")}
    assert {str(path.relative_to(tmp_path)): data for path, (_, data) in files.items()}.items() <= {
        str(path.relative_to(whole)): path.read_bytes() for path in (whole / "measures").rglob("*.parquet")
    }.items()
    Run(RECIPE, [str(raw)], str(tmp_path), SMALL).run()
    assert {path: path.stat().st_ino for path in files} == {path: inode for path, (inode, _) in files.items()}
    assert shards_of(tmp_path) == shards_of(whole)


def test_shares_of_judging_wait_for_transitions_and_the_index_of_benchmarks(tmp_path):
    plain, recipe = (
        parse_recipe(json.dumps({"name": "r", "source": "tests", "judge": {"benchmarks": benchmarks}}), "r")
        for benchmarks in ([], [{"name": "ours", "ids": ["a"]}])
    )
    folder = Folder(str(tmp_path))
    sealed = Manifest("normalize", "", "digest", SCHEMA_VERSION, (FileEntry("os/part-00000.parquet", 1, 1, "s"),))
    waits = partial(pytest.raises, ConfigError, match="--stop-after normalize")
    with waits():
        units_by_hand._units(plain, folder)
    (folder / "transitions").write(MANIFEST, sealed.to_json())
    units = [Unit(0, "os/part-00000.parquet", "s")]
    assert units_by_hand._units(plain, folder) == units
    with waits():
        units_by_hand._units(recipe, folder)
    digest = write_index(recipe.judge.benchmarks, folder / "measures")
    assert units_by_hand._units(recipe, folder) == units
    judging = units_by_hand._judging(recipe, folder)
    assert (judging.benchmarks, judging.transitions) == (digest, folder / "transitions")


def test_shares_of_mixing_make_samples_then_shards_that_a_run_only_seals(raw, whole, tmp_path):
    def mix(number: int, count: int = 3) -> ShareDone:
        return mix_share(RECIPE, [str(raw)], str(tmp_path), Share(number, count), SMALL)

    Run(RECIPE, [str(raw)], str(tmp_path), SMALL).run("judge")
    with pytest.raises(ConfigError, match="--stop-after draw"):
        mix(0)
    assert Run(RECIPE, [str(raw)], str(tmp_path), SMALL).run("draw").last == "draw"
    results = [mix(number) for number in (2, 0, 1)]
    assert (sum(result.parts for result in results), sum(result.before for result in results)) == (
        len(transitions(whole)),
        0,
    )
    assert not list((tmp_path / "shards").rglob("*.parquet"))
    written = [mix(number, 2) for number in (1, 0)]
    assert sum(result.parts for result in written) == len(list((whole / "shards").rglob("train-*.parquet"))) + 1
    files = {path: path.stat().st_ino for path in (tmp_path / "shards").rglob("t*-*.parquet")}
    Run(RECIPE, [str(raw)], str(tmp_path), SMALL).run()
    assert {path: path.stat().st_ino for path in files} == files
    assert shards_of(tmp_path) == shards_of(whole)
    assert not (tmp_path / "samples").exists()


def test_a_run_writes_shards_from_the_samples_that_some_shares_made(raw, whole, tmp_path):
    Run(RECIPE, [str(raw)], str(tmp_path), SMALL).run("draw")
    mix_share(RECIPE, [str(raw)], str(tmp_path), Share(1, 2), SMALL)
    Run(RECIPE, [str(raw)], str(tmp_path), SMALL).run()
    assert shards_of(tmp_path) == shards_of(whole)


def test_two_commands_at_once_each_do_a_share_and_keep_a_run_out(raw, whole, tmp_path):
    words = ["run", "terminal", "--raw", str(raw), "--out", str(tmp_path), "--part-size", "25000"]
    assert ran(*words, "--stage", "normalize", "--part", "0/2")[0] == 0
    with (tmp_path / LOCK).open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
        assert ran(*words, "--stage", "normalize", "--part", "1/2")[0] == 0
        with pytest.raises(ConfigError):
            Run(RECIPE, [str(raw)], str(tmp_path), SMALL).run()
    assert transitions(tmp_path) == transitions(whole)
    with (tmp_path / LOCK).open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(ConfigError):
            share(raw, tmp_path, "0/2")


def test_what_another_share_is_writing_stays(raw, tmp_path):
    share(raw, tmp_path, "0/2")
    writing = tmp_path / "transitions" / "terminal" / ".unfinished-0123456789abcdef-part.parquet"
    writing.write_bytes(b"half")
    share(raw, tmp_path, "1/2")
    assert writing.read_bytes() == b"half"
    Run(RECIPE, [str(raw)], str(tmp_path), SMALL).run("normalize")
    assert not writing.exists()


def test_a_share_of_another_run_or_beside_a_strangers_files_is_refused(raw, tmp_path):
    share(raw, tmp_path / "out", "0/2")
    with pytest.raises(ConfigError):
        normalize_share(load_recipe("swe"), [str(raw)], str(tmp_path / "out"), Share(1, 2), SMALL)
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError):
        share(raw, tmp_path / "out", "1/2")


@pytest.mark.parametrize("words", ["1", "2/2", "0/0", "-1/2", "a/b", "1/2/3"])
def test_what_is_no_share_is_refused(words):
    with pytest.raises(ConfigError, match="0/16"):
        Share.of(words)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--part", "0/2"], "go together"),
        (["--stage", "normalize"], "go together"),
        (["--stage", "normalize", "--part", "0/2", "--workers", "2"], "one process"),
        (["--part-size", "many"], "--part-size takes a size"),
        (["--part-size", "0MB"], "--part-size takes a size"),
        (["--partitions", "48"], "a power of two"),
    ],
)
def test_what_does_not_go_together_is_told_before_anything_is_written(raw, tmp_path, more, told):
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["run", "terminal", "--raw", str(raw), "--out", str(out), *more])
    assert isinstance(result.exception, ConfigError)
    assert told in str(result.exception)
    assert not out.exists()
