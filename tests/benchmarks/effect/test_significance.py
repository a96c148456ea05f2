import numpy as np
import pytest

from benchmarks.effect.significance import Difference, alike, difference, holm, together

SIZES = np.full((5, 60), 1000.0)


def costs(seed, shift=0.0):
    """Bits by seed and group: groups differ much, seeds little."""
    random = np.random.default_rng(seed)
    return (random.normal(2.0, 0.8, 60)[None, :] + random.normal(shift, 0.05, (5, 60))) * SIZES


def test_a_difference_that_all_groups_show_is_found_though_groups_differ_more():
    base = costs(1)
    found = difference(base - 0.02 * SIZES + np.random.default_rng(2).normal(0, 20, (5, 60)), base, SIZES)
    assert found.high < 0
    assert found.mean == pytest.approx(-0.02, abs=0.003)
    assert found.p < 0.01


def test_noise_is_rarely_called_a_difference():
    random = np.random.default_rng(3)
    base = costs(4)
    chances = [difference(base + random.normal(0, 40, (1, 60)), base, SIZES, seed).p for seed in range(20)]
    assert sum(p < 0.05 for p in chances) <= 4  # of 20 one is to be expected


def test_one_group_that_outweighs_all_others_proves_nothing():
    base = costs(5)
    ours = base.copy()
    ours[:, 0] -= 40_000
    found = difference(ours, base, SIZES)
    assert found.mean < -0.5
    assert found.high == 0
    assert found.p > 0.05


def test_tests_of_one_question_tell_more_together_and_the_surer_one_most():
    sure, vague = Difference(-0.03, -0.04, -0.02, 0.01), Difference(-0.01, -0.05, 0.03, 0.6)
    both = together([sure, vague])
    assert together([sure]).mean == sure.mean
    assert (both.low, both.high) != (sure.low, sure.high)
    assert -0.03 < both.mean < -0.0285
    assert both.high - both.low < sure.high - sure.low
    assert both.p < 1e-6
    apart = together([Difference(-0.03, -0.04, -0.02, 0.01), Difference(0.03, 0.02, 0.04, 0.01)])
    assert abs(apart.mean) < 1e-9
    assert apart.p > 0.99


def test_holm_corrects_the_smallest_most_and_keeps_the_order():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_groups_of_one_size_weigh_as_many_and_a_large_one_makes_them_few():
    assert alike(np.full(40, 7.0)) == 40.0
    assert alike(np.array([96.0, 1.0, 1.0, 1.0, 1.0])) == 1.1
