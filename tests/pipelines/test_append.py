"""Adding to a finished run: earlier files keep their bytes, no copy comes in, no group changes its pool."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import polars as pl
import pytest

from pipelines.append import Append
from pipelines.engine.generations import chain
from pipelines.engine.storage import Folder
from pipelines.engine.verification import verify
from pipelines.recipe.recipe_file import load_recipe
from pipelines.run import Run
from tests.conftest import ROOT

RAW = ROOT / "samples" / "terminal"
RECIPE = load_recipe("terminal")
LOGS = sorted((RAW / "claude_code").rglob("*.jsonl"))[8:17] + sorted((RAW / "asciicast").rglob("*.cast"))[:8]


def put(folder: Path, logs: list[Path]) -> Path:
    folder.mkdir(exist_ok=True)
    for log in logs:
        shutil.copy(log, folder)
    return folder


def bytes_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def samples(out: Path) -> pl.DataFrame:
    """Pool, group and trajectory of every sample that the dataset holds."""
    found = []
    for pool in ("cpt", "sft"):
        for file in sorted((out / "shards" / pool).rglob("*.parquet")):
            table = pl.read_parquet(file)
            found.append(table.select(pl.lit(pool).alias("pool"), "group", "trajectory_id"))
    for file in sorted((out / "shards" / "rl").rglob("*.parquet")):
        info = pl.read_parquet(file)["extra_info"].struct
        found.append(
            pl.DataFrame({"pool": "rl", "group": info.field("group"), "trajectory_id": info.field("trajectory_id")})
        )
    return pl.concat(found)


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> Path:
    """A folder with logs, and the run over them."""
    folder = tmp_path_factory.mktemp("first")
    put(folder / "logs", LOGS[:11])
    Run(RECIPE, [str(folder / "logs")], str(folder / "out")).run()
    return folder


@pytest.fixture(scope="module")
def grown(first, tmp_path_factory) -> Path:
    """The same with a generation added, of new logs and a copy of an old one under another name."""
    folder = tmp_path_factory.mktemp("grown") / "all"
    shutil.copytree(first, folder)
    put(folder / "logs", LOGS[11:])
    shutil.copy(LOGS[0], folder / "logs" / "0-again.jsonl")
    appended = Append(RECIPE, [str(folder / "logs")], str(folder / "out")).run()
    assert appended.generation.number == 2
    assert appended.known == 12
    return folder


def test_what_earlier_generations_wrote_keeps_name_and_bytes(first, grown):
    derived = {"shards/README.md", "shards/manifest.json", "_units/shards/card.json", "trajmill.json", ".lock"}
    before, after = bytes_of(first / "out"), bytes_of(grown / "out")
    assert {name: after.get(name) for name in before if name not in derived} == {
        name: digest for name, digest in before.items() if name not in derived
    }
    fresh = {name for name in after.keys() - before.keys() if name.startswith("shards/")}
    assert fresh
    assert all("g0002" in name for name in fresh)


def test_the_grown_folder_verifies(grown):
    found = verify(str(grown / "out"))
    assert found.is_whole, found.faults
    assert not found.foreign


def test_adding_nothing_changes_nothing(grown):
    before = bytes_of(grown / "out" / "shards")
    appended = Append(RECIPE, [str(grown / "logs")], str(grown / "out")).run()
    assert appended.summary is None
    assert bytes_of(grown / "out" / "shards") == before
    assert len(chain(Folder(str(grown / "out")))) == 2
