"""A planted world: some documents tell what is asked for, others tell it wrongly; and gains through a whole run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.pipelines.effect.test_effect import ITEMS, log
from trajmill.app.cli.attribution_output import markdown
from trajmill.pipelines.effect.arms import EVERYTHING
from trajmill.pipelines.effect.attribution import (
    BEST,
    FOUND,
    GAINS,
    RANDOM,
    WORST,
    Attribution,
    attributed,
    attributed_round,
    compared,
    gains_of,
    told,
)
from trajmill.pipelines.effect.documents import Document
from trajmill.pipelines.effect.effect import Settings, corrected
from trajmill.pipelines.effect.trials import Domain
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError

KEYS = 16
QUICK = Settings(seeds=2, folds=3, tokens=20_000)


def is_noise(cluster: str) -> bool:
    return int(cluster, 16) % 4 == 0


def document(number: int) -> Document:
    """Names, and three words behind each: those that belong to it, or in one document of four those of another name."""
    random = np.random.default_rng(number)
    cluster = f"{number:04x}"
    names = random.integers(0, KEYS, 12)
    said = random.integers(0, KEYS, 12) if is_noise(cluster) else names
    words = [names, *(KEYS + (said * by + off) % KEYS for by, off in ((1, 0), (3, 1), (5, 2)))]
    kinds = np.tile([0, 1, 1, 1], 12).astype(np.int8)
    tokens = np.stack(words, axis=1).ravel()
    return Document(f"0:{number}", cluster, tokens, kinds, kinds.astype(np.int64) * 4, kinds > 0)


@pytest.fixture(scope="module")
def planted() -> Domain:
    return Domain("web", {EVERYTHING: [document(number) for number in range(80)]}, 2 * KEYS, 100_000, 4)


def test_what_is_asked_for_gains_what_is_wrong_does_not_and_a_choice_by_it_teaches_more(planted: Domain):
    rounds = [attributed_round(planted, seed) for seed in range(2)]
    gains = gains_of(planted, rounds)
    assert {one.cluster for one in gains} == {one.group for one in planted.arms[EVERYTHING]}
    means = {kind: np.mean([one.gain for one in gains if is_noise(one.cluster) == kind]) for kind in (True, False)}
    assert means[False] > 10 * means[True]
    assert sum(is_noise(one.cluster) for one in gains[:20]) <= 1
    assert sum(is_noise(one.cluster) for one in gains[-20:]) >= 12
    assert sum(one.low > 0 for one in gains if not is_noise(one.cluster)) > 30
    words = {(one.arm, one.against): one.word for one in corrected(list(compared("web", rounds)))}
    assert words == {(BEST, RANDOM): "better", (WORST, RANDOM): "worse", (BEST, WORST): "better"}


def test_gains_do_not_come_from_the_split_that_they_are_tried_on(planted: Domain):
    (part, *_) = attributed_round(planted, 0).parts
    asked = {one.group for one in planted.arms[EVERYTHING] if planted.fold(one.group, 0) == 0}
    tried = {one.group for one in planted.arms[EVERYTHING] if planted.fold(one.group, 0) == 1}
    assert set(part.groups) == asked
    assert set(part.clusters).isdisjoint(asked | tried)


def recipe(**mix: Any) -> Any:
    values = {"name": "planted", "source": "planted", "judge": {"near_duplicates": None}, "mix": mix}
    return parse_recipe(json.dumps(values), "planted")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judged run over sessions that ask where items stand."""
    place = tmp_path_factory.mktemp("planted")
    (place / "raw").mkdir()
    random = np.random.default_rng(1)
    for number in range(30):
        made = log(number, random.choice(ITEMS, 4, replace=False).tolist())
        (place / "raw" / f"{number}.json").write_text(json.dumps(made))
    Run(recipe(), [str(place / "raw")], str(place / "out")).run("judge")
    return place / "out"


@pytest.fixture(scope="module")
def found(out: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Attribution, Path]:
    """What was found, and where."""
    place = tmp_path_factory.mktemp("gains") / "gains"
    return attributed(recipe(), str(out), str(place), QUICK), place


def test_every_trajectory_that_is_kept_has_a_gain_and_says_whether_it_was_measured(out: Path, found: Any):
    gains = pl.read_parquet(found[1] / GAINS)
    kept = pl.read_parquet(out / "verdicts" / "*" / "*.parquet").filter("kept")
    assert gains["trajectory_id"].to_list() == sorted(set(kept["trajectory_id"]))
    measured, rest = gains.filter("measured"), gains.filter(~pl.col("measured"))
    assert (measured["low"] <= measured["gain"]).all()
    assert (measured["gain"] <= measured["high"]).all()
    assert 0 < len(rest) < len(measured)
    assert rest["gain"].n_unique() == 1, "of the groups that teach the tokenizer the mean stands"


def test_the_page_and_the_figures_hold_every_test_and_the_ends_of_the_clusters(found: tuple[Attribution, Path]):
    made, place = found
    assert json.loads((place / FOUND).read_bytes()) == json.loads(json.dumps(told(made)))
    page = markdown(made)
    assert page.count("| terminal |") == 3
    assert f"`{made.gains['terminal'][0].cluster}`" in page
    assert f"`{made.gains['terminal'][-1].cluster}`" in page


def test_the_same_seeds_give_the_same_bytes_with_any_workers(out: Path, found: Any, tmp_path: Path):
    attributed(recipe(), str(out), str(tmp_path / "again"), Settings(**{**asdict(QUICK), "workers": 2}))
    for name in (GAINS, FOUND, "plan.json"):
        assert (tmp_path / "again" / name).read_bytes() == (found[1] / name).read_bytes()


def test_two_folds_are_too_few(out: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match="3 folds"):
        attributed(recipe(), str(out), str(tmp_path), Settings(folds=2))


def test_a_mixture_goes_by_gains_and_eval_takes_no_part_in_them(out: Path, found: Any, tmp_path: Path):
    values, raw = str(found[1] / GAINS), str(out.parent / "raw")
    gains = pl.read_parquet(values)
    half = float(gains["gain"].median())  # type: ignore[arg-type]
    component = {"where": {"values.gain": {"min": half}}, "weigh": {"values.gain": 2}}
    stage = {"components": {"all": component}}
    made = recipe(pools={"cpt": 0.8, "sft": 0, "rl": 0, "eval": 0.2}, values=values, stages={"cpt": stage})
    Run(made, [raw], str(tmp_path / "out")).run()
    shards = pl.read_parquet(tmp_path / "out" / "shards" / "cpt" / "*" / "*.parquet")
    assert 0 < len(shards) < len(gains)
    assert shards.join(gains, on="trajectory_id")["gain"].min() >= half  # type: ignore[operator]
    manifest = json.loads((tmp_path / "out/shards/manifest.json").read_bytes())
    assert len(manifest["models"]["mix.values"]) == 64
    again = attributed(made, str(tmp_path / "out"), str(tmp_path / "again"), QUICK)
    held = pl.read_parquet(tmp_path / "out" / "draws" / "*-part-*.parquet").filter(pl.col("pool") == "eval")
    groups = pl.read_parquet(tmp_path / "out" / "verdicts" / "*" / "*.parquet").join(held, on="trajectory_id")["group"]
    assert len(groups)
    assert set(groups).isdisjoint(one.cluster for one in again.gains["terminal"])
