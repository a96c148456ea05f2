"""The worked recipe of all seven domains: that its proportions are those it says, and that it runs."""

from __future__ import annotations

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


def weights(stage):
    return load_recipe("world-model").mix.stages[stage].components["trajectories"].weights


def is_share(weights, tokens):
    whole = sum(tokens.values())
    return weights.keys() == tokens.keys() and all(abs(weights[k] - tokens[k] / whole) < 0.001 for k in tokens)


def test_weights_are_the_tokens_that_the_published_counts_give():
    assert is_share(weights("rl"), {name: samples * size for name, (samples, size) in RL.items()})
    turns = {name: RL[name][1] / there for name, (_, _, there) in SFT.items()}
    assert is_share(weights("sft"), {name: samples * here * turns[name] for name, (samples, here, _) in SFT.items()})
    stages = load_recipe("world-model").mix.stages
    assert stages["sft"].samples == sum(samples for samples, _, _ in SFT.values())
    assert stages["rl"].samples == sum(samples for samples, _ in RL.values())


def test_the_recipe_runs_and_draws_a_turn_a_trajectory_and_few_of_a_group(tmp_path: Path):
    assert load_recipe("world-model").domains == DOMAINS
    raw = [word for domain in ("mcp", "terminal", "android") for word in ("--raw", ROOT / "samples" / domain)]
    trajmill("run", "world-model", *raw, "--out", tmp_path / "out")
    told = json.loads((tmp_path / "out/shards/manifest.json").read_text("utf-8"))["mixture"]
    assert all(told["stages"][pool] for pool in ("cpt", "sft", "rl", "eval"))
    rows = [info for path in (tmp_path / "out/shards/rl").rglob("*.parquet") for info in infos(path)]
    assert len({row["trajectory_id"] for row in rows}) == len(rows) > 0
    groups = [row["group"] for row in rows]
    assert max(map(groups.count, groups)) <= 8


def infos(path):
    return pq.read_table(path)["extra_info"].to_pylist()
