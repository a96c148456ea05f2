"""The worked recipe of all seven domains: that its proportions are those it says, and that it runs."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.app.cli.test_cli import trajmill
from tests.conftest import ROOT
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.schemas import DOMAINS

RL = {
    "mcp": (4156, 62_702),
    "search": (20_004, 18_873),
    "terminal": (34_125, 5_805),
    "swe": (8_181, 36_734),
    "android": (11_498, 30_064),
    "web": (8_716, 19_417),
    "os": (5_628, 25_439),
}
"""Published: samples of RL and their mean tokens."""
SFT = {
    "mcp": (179, 24.3, 28.9),
    "search": (1_042, 3.3, 6.2),
    "terminal": (1_580, 5.9, 12.0),
    "swe": (249, 26.9, 24.7),
    "android": (1_337, 15.9, 19.3),
    "web": (1_605, 3.0, 10.2),
    "os": (1_102, 5.4, 12.4),
}
"""Published: samples of SFT, their mean turns, and those of RL."""


def test_the_recipe_runs_and_draws_a_turn_a_trajectory_and_few_of_a_group(tmp_path: Path):
    assert load_recipe("world-model").domains == DOMAINS
    raw = [word for folder in ("mcp", "terminal/asciicast") for word in ("--raw", ROOT / "samples" / folder)]
    trajmill("run", "world-model", *raw, "--out", tmp_path / "out")
    told = json.loads((tmp_path / "out/shards/manifest.json").read_text("utf-8"))["mixture"]
    assert all(told["stages"][pool] for pool in ("cpt", "sft", "rl", "eval"))
    rows = [info for path in (tmp_path / "out/shards/rl").rglob("*.parquet") for info in infos(path)]
    assert len({row["trajectory_id"] for row in rows}) == len(rows) > 0
    groups = [row["group"] for row in rows]
    assert max(map(groups.count, groups)) <= 8


def infos(path):
    return pq.read_table(path)["extra_info"].to_pylist()
