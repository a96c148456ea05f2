"""Values of trajectories from a file, and draws weighed by numbers."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajmill.pipelines.mix.candidates import NOTHING, Wanted, read_values, weigh_keys, weights_by
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.schemas import ConfigError


def written(path: Path, **columns: list[object]) -> str:
    pq.write_table(pa.table(columns), path)
    return str(path)


def test_values_are_found_by_trajectory_and_unknown_ones_are_no_number(tmp_path):
    path = written(tmp_path / "v.parquet", trajectory_id=["b", "a", "c"], gain=[2, 1, None], other=["x", "y", "z"])
    values = read_values(path, ["values.gain"])
    ids = pa.array(["a", "nobody", "c", "b"]).dictionary_encode()
    np.testing.assert_array_equal(values.of("values.gain", ids), [1, np.nan, np.nan, 2])
    assert values.of("values.gain", pa.array([], pa.string())).tolist() == []


def test_where_nothing_is_drawn_trajectories_have_no_keys():
    ids = pa.array(["a", "b"])
    assert [len(keys) for keys in NOTHING.keys(ids).values()] == [0, 0]
    assert [len(set(keys.tolist())) for keys in Wanted(7).keys(ids).values()] == [2, 2]


@pytest.mark.parametrize(
    "columns",
    [
        ({"trajectory_id": ["a"], "other": [1]}),
        ({"gain": [1]}),
        ({"trajectory_id": ["a", "a"], "gain": [1, 2]}),
        ({"trajectory_id": ["a"], "gain": ["much"]}),
        ({"trajectory_id": [None], "gain": [1]}),
    ],
)
def test_a_file_that_does_not_say_them_is_refused(tmp_path, columns):
    path = written(tmp_path / "v.parquet", **columns)
    with pytest.raises(ConfigError):
        read_values(path, ["values.gain"])


def test_who_weighs_more_comes_earlier_by_chance_and_who_weighs_nothing_last():
    chance = np.random.default_rng(1)
    keys = chance.integers(0, 1 << 63, 30_000).astype(np.uint64) * np.uint64(2)
    weights = np.repeat([3.0, 1.0, 0.0], 10_000)
    order = np.argsort(weigh_keys(keys, weights), kind="stable")
    first = np.bincount(order[:2_000] // 10_000, minlength=3)
    assert first[0] / first[1] == pytest.approx(3, rel=0.15)
    assert set((order[20_000:] // 10_000).tolist()) == {2}
    permutation = chance.permutation(len(keys))
    assert (weigh_keys(keys[permutation], weights[permutation]) == weigh_keys(keys, weights)[permutation]).all()


def test_lots_hold_at_both_ends_of_hashes_and_weights():
    keys = np.array([0, 1 << 63, (1 << 64) - 1] * 3, np.uint64)
    weights = np.array([1e-290, 1.0, 1e9, 0.0, -1.0, np.nan, 1e-320, 5.0, 1.0])
    weighed = weigh_keys(keys, weights)
    assert len(np.unique(weighed)) == len(weighed)
    assert weighed[[3, 4, 5]].min() > np.delete(weighed, [3, 4, 5]).max()


def test_weights_are_products_of_powers():
    weights = weights_by({"a": np.array([2.0, -1.0, np.nan]), "b": np.array([3.0, 1.0, 1.0])}, {"a": 2, "b": 1})
    assert weights.tolist() == [12.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "mix",
    [
        ({"stages": {"cpt": {"components": {"a": {"weigh": {"values.gain": 1}}}}}}),
        ({"stages": {"cpt": {"components": {"a": {"weigh": {"turns": 1}}}}}}),
        ({"stages": {"cpt": {"weigh_turns": {"no_op": 1}}}}),
        ({"stages": {"rl": {"weigh_turns": {"length": 1}}}}),
    ],
)
def test_a_recipe_that_weighs_by_what_is_not_there_is_refused(mix):
    values = {"name": "r", "source": "tests", "judge": {"measure": ["no_op", "length"]}, "mix": mix}
    with pytest.raises(ConfigError):
        parse_recipe(json.dumps(values), "r")
