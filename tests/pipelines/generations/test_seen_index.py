"""What a later generation knows of earlier ones: seen environments, and groups that join."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.generations.forgetting import Forgetting
from trajmill.pipelines.generations.known import Draws
from trajmill.pipelines.generations.places import Bearing, Places, Settled, assign_groups
from trajmill.pipelines.generations.traces import Selection
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.recipe.recipe import POOLS
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
        environments = known.group_by("trajectory_id").agg(pl.col("environment").first())
        tables.append(pl.read_parquet(out / "draws" / f"{label}.parquet").join(environments, on="trajectory_id"))
    return pl.concat(tables)


def said(out: Path) -> dict[str, set[str]]:
    """Trajectory → what rows of eval say of its environment, in both forms."""
    files = sorted((out / "shards" / "eval").glob("android_*test.jsonl"))
    assert len(files) > 1
    lines = [line for file in files for line in file.read_text().splitlines()]
    environments: dict[str, set[str]] = {}
    table = pl.concat([pl.read_parquet(path) for path in (out / "shards" / "eval" / "android").glob("*.parquet")])
    for row in [*map(json.loads, lines), *table.to_dicts()]:
        environments.setdefault(row["trajectory_id"], set()).add(row["environment"])
    return environments


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A run over the samples, at its first generation."""
    out = tmp_path_factory.mktemp("made") / "out"
    raws = [str(ROOT / "samples" / "android")]
    Run(RECIPE, raws, str(out)).run()
    Append(RECIPE, raws, str(out)).begin()
    return out


def test_an_environment_that_only_the_forgotten_showed_is_unseen_from_then_on_after_a_kill_too(
    made, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    shutil.copytree(made, out)
    before = drawn(out)
    assert set(before["familiarity"]) == {"seen"}
    evaluated = before.filter(pl.col("pool") == "eval")
    trained = before.filter(
        (pl.col("pool") != "eval") & pl.col("environment").is_in(evaluated["environment"].implode())
    )
    lost = trained.group_by("environment").len().sort("len", "environment")["environment"][0]
    gone = trained.filter(pl.col("environment") == lost)["trajectory_id"].to_list()
    mine = set(evaluated.filter(pl.col("environment") == lost)["trajectory_id"])
    selection = Selection(trajectories=tuple(gone))
    with monkeypatch.context() as patch:
        patch.setattr(Forgetting, "_forget_shards", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Forgetting(RECIPE, str(out)).forget(selection)
    Forgetting(RECIPE, str(out)).forget(selection)
    rows = said(out)
    assert mine
    assert mine <= rows.keys()
    assert rows == {key: {"unseen" if key in mine else "seen"} for key in rows}
    after = drawn(out)
    assert set(after.filter(pl.col("familiarity") == "unseen")["environment"]) == {lost}
    counts = json.loads((out / "shards" / "manifest.json").read_text())["mixture"]["eval"]["android"]
    assert counts["environment_unseen"] >= len(mine)
    assert counts["environment_seen"] > 0
    assert lost not in Draws.of(RECIPE, [Folder(str(out))]).environments()
    assert verify(str(out)).is_whole


ARRIVALS = st.lists(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=3), min_size=1, max_size=6), max_size=6)
CPT, EVAL = POOLS.index("cpt"), POOLS.index("eval")

Known = dict[int, tuple[int, int]]
"""Node → group and number of pool."""


def tried(nodes: Sequence[Sequence[int]], order: Sequence[int], known: Known) -> Settled:
    pairs = [(number, node) for number, members in enumerate(nodes) for node in members]
    newcomer, node = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    borne = {node for members in nodes for node in members}
    entries = [(node, *home) for node, home in known.items() if node in borne]
    rows = np.array(entries, np.uint64).reshape(len(entries), 3)
    places = Places(rows[:, 0], rows[:, 1], rows[:, 2].astype(np.int8))
    return assign_groups(Bearing.of(newcomer, node.astype(np.uint64)), np.array(order), places)


def joined_one_by_one(nodes: Sequence[Sequence[int]], known: Known) -> list[tuple[int, int] | None]:
    """The same by sets: group and pool of each newcomer, None for a bridge."""
    groups: list[set[int]] = []
    bridges = set()
    for number, members in enumerate(nodes):
        touched = [group for group in groups if group & set(members)]
        whole = set(members).union(*touched)
        if len({known[node][1] for node in whole if node in known}) > 1:
            bridges.add(number)
            continue
        groups = [group for group in groups if group not in touched] + [whole]
    return [None if number in bridges else _place(groups, members, known) for number, members in enumerate(nodes)]


def _place(groups: Sequence[set[int]], members: Sequence[int], known: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    (mine,) = (group for group in groups if group & set(members))
    return min((known[node] for node in mine if node in known), default=(min(mine), -1))


@given(ARRIVALS)
def test_over_generations_no_node_changes_its_pool_and_none_that_is_kept_bears_two(generations):
    known: Known = {}
    for newcomers in generations:
        result = tried(newcomers, range(len(newcomers)), known)
        fresh: Known = {}
        for number, nodes in enumerate(newcomers):
            if result.bridges[number]:  # what it would have joined is tested below
                continue
            group, pool = int(result.group[number]), int(result.pool[number])
            home = group, pool if pool >= 0 else group % len(POOLS)
            for node in nodes:
                earlier = known.get(node) or fresh.get(node)
                assert earlier is None or earlier[1] == home[1]
                fresh.setdefault(node, home)
        known = {**fresh, **known}


@given(ARRIVALS, st.dictionaries(st.integers(0, 12), st.integers(0, len(POOLS) - 1)))
def test_groups_are_those_that_joining_one_by_one_makes(generations, pools):
    known = {node: (100 + node, pool) for node, pool in pools.items()}
    for newcomers in generations:
        result = tried(newcomers, range(len(newcomers)), known)
        triples = zip(result.group.tolist(), result.pool.tolist(), result.bridges.tolist(), strict=True)
        places = [None if bridge else (group, pool) for group, pool, bridge in triples]
        assert places == joined_one_by_one(newcomers, known)


def test_the_first_to_take_a_new_node_keeps_it_and_who_would_join_it_to_another_pool_is_a_bridge():
    known = {1: (1, CPT), 2: (2, EVAL)}
    result = tried([[1, 9], [2, 9], [9], [7]], [0, 1, 2, 3], known)
    assert result.bridges.tolist() == [False, True, False, False]
    assert result.pool.tolist()[2:] == [CPT, -1]
    turned = tried([[1, 9], [2, 9], [9], [7]], [1, 0, 2, 3], known)
    assert turned.bridges.tolist() == [True, False, False, False]
    assert turned.pool.tolist()[2] == EVAL
