"""Runs whose raw logs and shards lie in an object store: the same bytes as beside us, with few requests."""

import hashlib
import shutil
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.conftest import ROOT
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import MARKER
from trajmill.schemas import ShardError

RECIPE = load_recipe("terminal")
LOGS = 13
MOST = 190
"""Requests of a run of one part, or of one that finds everything done."""


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    samples = ROOT / "samples" / "terminal"
    for log in sorted((samples / "claude_code").rglob("*.jsonl"))[8:17] + sorted(samples.rglob("*.cast"))[:4]:
        shutil.copy(log, folder)
    assert len(list(folder.iterdir())) == LOGS
    return folder


@pytest.fixture(scope="module")
def beside_us(raw, tmp_path_factory) -> dict[str, str]:
    """Name → sha256 of the shards of a run on this machine alone."""
    out = tmp_path_factory.mktemp("out")
    Run(RECIPE, [str(raw)], str(out)).run()
    shards = out / "shards"
    return {
        str(path.relative_to(shards)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in shards.rglob("*")
        if path.is_file()
    }


def shards_in(store) -> dict[str, str]:
    store.filesystem.invalidate_cache()
    root = "made-for-tests/out/shards"
    paths = store.filesystem.find(root)
    return {path[len(root) + 1 :]: hashlib.sha256(store.filesystem.cat_file(path)).hexdigest() for path in paths}


@pytest.fixture
def uploaded(store, raw) -> str:
    for log in raw.iterdir():
        store.filesystem.put_file(str(log), f"made-for-tests/raw/{log.name}")
    store.filesystem.invalidate_cache()
    store.door.forget()
    return f"{store.url}/raw"


def test_a_run_from_a_store_into_it_gives_the_same_bytes_with_few_requests(store, uploaded, beside_us):
    out = f"{store.url}/out"
    Run(RECIPE, [uploaded], out).run()
    lines = store.door.lines.copy()
    assert shards_in(store) == beside_us
    read = [line for line in lines if "raw/" in line and (".jsonl" in line or ".cast" in line)]
    requests = 2 if store.url.startswith("s3") else 4  # gcsfs asks what it is before it reads it
    assert len(read) <= requests * LOGS + 1  # the beginning for the plan, then the log
    assert len(lines) <= MOST
    # writes without a condition name their object in the body, with Google
    puts = [line for line in lines if line.startswith(("PUT", "POST"))]
    written = [line for line in puts if MARKER not in line and "multipart" not in line]
    twice = 1 if store.url.startswith("s3") else 0  # the record of the run, when it begins and when it ends
    assert len(written) == len(set(written)) + twice
    store.door.forget()
    Run(RECIPE, [uploaded], out).run()
    assert store.door.asked.total() <= MOST
    assert shards_in(store) == beside_us
    assert verify(out).is_whole


def test_a_run_through_faults_gives_the_same_bytes(store, uploaded, beside_us):
    faults = cycle([503, 429, "reset", 500, "lost"])
    count = iter(range(1_000_000))
    store.door.fail(islice(faults, 15), lambda _: next(count) % 9 == 0)
    Run(RECIPE, [uploaded], f"{store.url}/out").run()
    assert store.door.left < 8
    store.door.fail([])
    assert shards_in(store) == beside_us


def test_a_run_ends_when_another_takes_its_folder(store, uploaded, beside_us):
    out = f"{store.url}/out"
    first = Run(RECIPE, [uploaded], out)
    first.run("normalize")
    took: list[str] = []

    def take(start):
        if start.stage == "judge" and not took:
            took.append(start.stage)
            Run(RECIPE, [uploaded], out).run()

    with pytest.raises(ShardError):
        Run(RECIPE, [uploaded], out, tell=take).run()
    assert shards_in(store) == beside_us
    assert verify(out).is_whole


def test_shards_in_a_store_load_with_datasets(store, uploaded, beside_us, tmp_path):
    from datasets import load_dataset

    Run(RECIPE, [uploaded], f"{store.url}/out").run()
    file = next(name for name in beside_us if name.startswith("sft/"))
    loaded = load_dataset("parquet", data_files=f"{store.url}/out/shards/{file}", cache_dir=str(tmp_path))["train"]
    streamed = load_dataset(
        "parquet", data_files=f"{store.url}/out/shards/{file}", cache_dir=str(tmp_path), streaming=True
    )["train"]
    assert len(loaded) > 0
    assert [row["messages"] for row in streamed] == loaded["messages"][:]
