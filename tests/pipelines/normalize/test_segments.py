"""Long trajectories: with tiny limits every one is cut into segments and over row groups, and judged as a whole."""

import shutil
from functools import partial
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from trajmill.app.cli.export import read_trajectories
from trajmill.app.cli.inspection import inspect
from trajmill.pipelines.normalize import normalizer as normalize
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import Assembler, scan_transitions

RECIPE = load_recipe("terminal")


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    logs = (
        sorted((ROOT / "samples" / "terminal").rglob("*.jsonl"))[-2:] + sorted((ROOT / "samples").rglob("*.cast"))[:3]
    )
    for number, log in enumerate(logs):
        shutil.copy(log, folder / f"{number}-{log.name}")
        if number < 2:
            shutil.copy(log, folder / f"{number}-again-{log.name}")
    return folder


def run(raw: Path, out: Path, segment_bytes: int, block_bytes: int) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        small = partial(Assembler, segment_bytes=segment_bytes, block_bytes=block_bytes)
        patch.setattr(normalize, "Assembler", small)
        patch.setattr(normalize, "ROW_GROUP_BYTES", block_bytes)
        Run(RECIPE, [str(raw)], str(out)).run()
    return out


@pytest.fixture(scope="module")
def whole(raw, tmp_path_factory) -> Path:
    return run(raw, tmp_path_factory.mktemp("whole"), 128 << 20, 32 << 20)


@pytest.fixture(scope="module")
def cut(raw, tmp_path_factory) -> Path:
    return run(raw, tmp_path_factory.mktemp("cut"), 3000, 2400)


def shard_rows(out: Path, pool: str) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(file) for file in sorted((out / "shards" / pool).rglob("*.parquet"))])


def test_trajectories_are_cut_over_row_groups_and_segments(cut):
    rows = scan_transitions(str(cut / "transitions")).collect()
    assert rows.filter(pl.col("num_segments") > 2).height
    begins = []
    for file in sorted((cut / "transitions").rglob("*.parquet")):
        reader = pq.ParquetFile(file)
        begins += [reader.read_row_group(n, ["step"])["step"][0].as_py() for n in range(reader.num_row_groups)]
    assert sum(step > 0 for step in begins) > 5


def test_every_row_is_what_it_is_without_cuts_but_for_its_segment(cut, whole):
    frames = [scan_transitions(str(out / "transitions")).collect() for out in (cut, whole)]
    left, right = (frame.drop("segment", "num_segments").sort("row_id") for frame in frames)
    assert left.to_dicts() == right.to_dicts()


def test_every_verdict_is_what_it_is_without_cuts(cut, whole):
    frames = []
    for out in (cut, whole):
        files = sorted((out / "verdicts").rglob("part-*.parquet"))
        frames.append(pl.concat([pl.read_parquet(file) for file in files]).sort("row_id"))
    assert frames[0].drop(pl.selectors.float()).equals(frames[1].drop(pl.selectors.float()))
    for name in frames[0].select(pl.selectors.float()).columns:
        assert frames[0][name].to_list() == pytest.approx(frames[1][name].to_list(), rel=1e-5)


def turns(out: Path, pool: str) -> dict[str, int]:
    """Turns of each trajectory over all its samples."""
    rows = shard_rows(out, pool).group_by("trajectory_id").agg(pl.col("num_turns").sum())
    return dict(rows.iter_rows())


def test_segments_hold_every_turn_once_but_those_without_a_target(cut, whole):
    pool = next(name for name in ("cpt", "sft") if (whole / "shards" / name).is_dir())
    assert any(key.endswith("-2") for key in shard_rows(cut, pool)["id"])
    files = (cut / "rejects" / "mix").rglob("*.parquet")
    refused = pl.concat([pl.read_parquet(file) for file in files])  # a first segment is told as the trajectory
    left, right = turns(cut, pool), turns(whole, pool)
    assert left.keys() == right.keys()
    missing = {key: right[key] - left[key] for key in right if right[key] != left[key]}
    for key, number in missing.items():
        assert 0 < number <= refused.filter(pl.col("trajectory_id") == key)["transitions"].sum()


def test_a_long_trajectory_is_looked_at_and_exported_whole(cut, whole):
    keys = [
        sorted((rows[0]["trajectory_id"], len(rows)) for rows in read_trajectories(str(out / "transitions")))
        for out in (cut, whole)
    ]
    assert keys[0] == keys[1]
    longest = max(keys[0], key=lambda pair: pair[1])
    rows = inspect(str(cut / "transitions"), longest[0]).rows
    assert [row["step"] for row in rows] == list(range(longest[1]))
