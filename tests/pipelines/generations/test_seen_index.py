"""What rows of eval say of their environment, when what training showed of it was forgotten."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.generations.forgetting import Forgetting
from trajmill.pipelines.generations.known import Draws
from trajmill.pipelines.generations.traces import Selection
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder

RECIPE = parse_recipe(
    '{"name": "n", "source": "t", "domains": ["android"], "judge": {"rules": {}}, '
    '"mix": {"shard_bytes": 1024, "pools": {"cpt": 2, "eval": 1, "sft": 0, "rl": 0}}}',
    "n",
)


def drawn(out: Path) -> pl.DataFrame:
    """What was drawn, with the hash of the environment of each."""
    tables = []
    for file in sorted((out / "transitions").glob("*/*.parquet")):
        label = f"{file.parent.name}-{file.stem}"
        rows = pl.read_parquet(file).select("trajectory_id")
        shown = pl.read_parquet(out / "measures" / f"{label}.variety.parquet").select("environment")
        known = pl.concat([rows, shown], how="horizontal").filter(pl.col("environment") != 0)
        of = known.group_by("trajectory_id").agg(pl.col("environment").first())
        tables.append(pl.read_parquet(out / "draws" / f"{label}.parquet").join(of, on="trajectory_id"))
    return pl.concat(tables)


def said(out: Path) -> dict[str, set[str]]:
    """Trajectory → what rows of eval say of its environment, in both forms."""
    files = sorted((out / "shards" / "eval").glob("android_*test.jsonl"))
    assert len(files) > 1
    lines = [line for file in files for line in file.read_text().splitlines()]
    found: dict[str, set[str]] = {}
    table = pl.concat([pl.read_parquet(one) for one in (out / "shards" / "eval" / "android").glob("*.parquet")])
    for row in [*map(json.loads, lines), *table.to_dicts()]:
        found.setdefault(row["trajectory_id"], set()).add(row["environment"])
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A run over the samples, at its first generation."""
    out = tmp_path_factory.mktemp("made") / "out"
    raws = [str(ROOT / "samples" / "android")]
    Run(RECIPE, raws, str(out)).run()
    Append(RECIPE, raws, str(out)).begin()
    return out


@pytest.mark.parametrize("killed", [False, True], ids=["at once", "killed amid it"])
def test_an_environment_that_only_the_forgotten_showed_is_unseen_from_then_on(made, tmp_path, monkeypatch, killed):
    out = tmp_path / "out"
    shutil.copytree(made, out)
    before = drawn(out)
    assert set(before["familiarity"]) == {"seen"}
    held = before.filter(pl.col("pool") == "eval")
    trained = before.filter((pl.col("pool") != "eval") & pl.col("environment").is_in(held["environment"].implode()))
    lost = trained.group_by("environment").len().sort("len", "environment")["environment"][0]
    gone = trained.filter(pl.col("environment") == lost)["trajectory_id"].to_list()
    mine = set(held.filter(pl.col("environment") == lost)["trajectory_id"])
    what = Selection(trajectories=tuple(gone))
    if killed:
        with monkeypatch.context() as patch:
            patch.setattr(Forgetting, "_forget_shards", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                Forgetting(RECIPE, str(out)).forget(what)
    Forgetting(RECIPE, str(out)).forget(what)
    rows = said(out)
    assert mine
    assert mine <= rows.keys()
    assert rows == {one: {"unseen" if one in mine else "seen"} for one in rows}
    after = drawn(out)
    assert set(after.filter(pl.col("familiarity") == "unseen")["environment"]) == {lost}
    told = json.loads((out / "shards" / "manifest.json").read_text())["mixture"]["eval"]["android"]
    assert told["environment_unseen"] >= len(mine)
    assert told["environment_seen"] > 0
    assert lost not in Draws.of(RECIPE, [Folder(str(out))]).environments()
    assert verify(str(out)).is_whole
