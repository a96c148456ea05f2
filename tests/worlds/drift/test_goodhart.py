"""Goodhart's signs: a reward that goes on where the outcome does not is told by its step, any other is not."""

import json
import random

import polars as pl
import pytest

from trajmill.schemas import ConfigError
from trajmill.worlds.drift.goodhart import COLUMNS, goodhart, read_rewards, spearman


def table(outcome, rows=6, noise=0.08, seed=1):
    """Rewards that rise over 20 steps, and beside each `outcome` of the same share of the way."""
    chance = random.Random(seed)
    return pl.DataFrame(
        [
            {
                "step": 10 * step,
                "simulated": 3 * step / 19 + chance.gauss(0, 3 * noise),
                "real": outcome(step / 19) + chance.gauss(0, noise),
            }
            for step in range(20)
            for _ in range(rows)
        ]
    )


def test_the_step_from_which_reward_and_outcome_part_is_found_with_its_interval():
    found = goodhart(table(lambda way: way if way < 0.5 else 1 - way))
    assert found is not None
    assert found.parts_at is not None
    at, low, high = found.parts_at
    assert low <= at <= high
    assert 80 <= low <= high <= 120
    assert found.before is not None
    assert found.after is not None
    assert (found.before > 0.8, found.after < -0.5) == (True, True)
    assert found.gap[0] == pytest.approx(1.5, abs=0.4)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "outcome", [lambda way: way, lambda way: 0.2 + way / 10, lambda way: 0.5], ids=["alike", "smaller", "level"]
)
def test_an_outcome_that_rises_with_the_reward_or_is_level_with_noise_does_not_part(outcome, seed):
    rewards = table(outcome, noise=0.005 if outcome(1) < 0.4 else 0.08, seed=seed)
    if outcome(0) == outcome(1):  # the reward is level too
        rewards = rewards.with_columns(simulated=pl.col("real").reverse())
    found = goodhart(rewards)
    assert found is not None
    assert found.parts_at is None


@pytest.mark.parametrize("seed", range(2))
def test_steps_of_a_row_each_are_resampled_themselves(seed):
    parted = goodhart(table(lambda way: min(way, 0.4), rows=1, noise=0.01, seed=seed))
    whole = goodhart(table(lambda way: way, rows=1, noise=0.01, seed=seed))
    assert parted is not None
    assert whole is not None
    assert parted.parts_at is not None
    assert whole.parts_at is None
    assert whole.rank_correlation[1] > 0.9


def test_the_order_of_rows_decides_nothing_and_few_steps_tell_nothing():
    rewards = table(lambda way: way if way < 0.5 else 1 - way)
    assert goodhart(rewards) == goodhart(rewards.sample(fraction=1, shuffle=True, seed=3))
    assert goodhart(rewards.filter(pl.col("step") < 50)) is None


def test_rewards_and_outcomes_may_be_measured_at_rows_of_their_own(tmp_path):
    rows = [{"step": step, "simulated": step, "real": None} for step in range(8)]
    rows += [{"step": step, "simulated": None, "real": -step} for step in range(8)]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = goodhart(read_rewards(str(tmp_path / "r.jsonl")))
    assert found is not None
    assert found.rank_correlation[0] == -1
    pl.DataFrame(rows).write_csv(tmp_path / "r.csv")
    assert goodhart(read_rewards(str(tmp_path / "r.csv"))) == found


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "step,simulated,real\n,1,2\n", "step,simulated,real\nx,1,2\n"])
def test_what_is_no_table_of_rewards_is_told_by_its_name(tmp_path, text):
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(ConfigError, match=r"r\.csv"):
        read_rewards(str(tmp_path / "r.csv"))
    with pytest.raises(ConfigError, match=", ".join(COLUMNS)):
        read_rewards(str(tmp_path / "none.jsonl"))


def test_ranks_are_correlated_as_spearman_has_it():
    one, other = pl.Series([1.0, 2, 2, 9]).to_numpy(), pl.Series([5.0, 7, 7, 8]).to_numpy()
    assert spearman(one, other) == pytest.approx(1.0)
    assert spearman(one, -other) == pytest.approx(-1.0)
