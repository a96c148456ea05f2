"""Pools: groups whole, shares held by size, the same for every order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.mix.pools import grouped, pools_of, widened
from schemas import ConfigError

SHARES = {"cpt": 0.4, "sft": 0.25, "rl": 0.2, "eval": 0.15}
ROWS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["web", "swe"])), min_size=1, max_size=200)


@given(ROWS, st.integers(0, 5), st.randoms(use_true_random=False))
def test_a_group_has_one_pool_whatever_the_order(rows, seed, random):
    shuffled = random.sample(rows, len(rows))
    found, again = (
        pools_of(grouped([f"{group:016x}" for group, _ in some], [domain for _, domain in some]), SHARES, seed)
        for some in (rows, shuffled)
    )
    assert found == again
    assert set(found) == {f"{group:016x}" for group, _ in rows}


@given(st.lists(st.integers(1, 30), min_size=40, max_size=120))
def test_shares_are_held_within_the_largest_group(sizes):
    group = [f"{number:016x}" for number, size in enumerate(sizes) for _ in range(size)]
    found = pools_of(grouped(group, ["web"] * len(group)), SHARES, 0)
    for pool, share in SHARES.items():
        held = sum(size for number, size in enumerate(sizes) if found[f"{number:016x}"] == pool)
        assert abs(held - share * sum(sizes)) <= max(sizes)


def test_each_domain_has_its_shares():
    group = [f"{number:016x}" for number in range(2000)]
    domain = ["web" if number % 5 else "os" for number in range(2000)]
    found = pools_of(grouped(group, domain), SHARES, 3)
    for name in ("web", "os"):
        ours = [found[one] for one, where in zip(group, domain, strict=True) if where == name]
        assert [ours.count(pool) / len(ours) for pool in SHARES] == pytest.approx(list(SHARES.values()), abs=0.01)


def test_a_pool_without_a_share_is_given_nothing():
    group = [f"{number:016x}" for number in range(50)]
    assert set(pools_of(grouped(group, ["web"] * 50), {"cpt": 1.0, "sft": 0.0}, 0).values()) == {"cpt"}


def test_a_group_that_no_pool_can_hold_ends_the_run():
    group = ["a" * 16] * 700 + [f"{number:016x}" for number in range(300)]
    with pytest.raises(ConfigError, match=r"holds 700 of the 1,000 trajectories of web, .* \(cpt\) is to have 400"):
        pools_of(grouped(group, ["web"] * 1000), SHARES, 0)
    few = ["a" * 16] * 9 + ["b" * 16]
    assert set(pools_of(grouped(few, ["web"] * 10), SHARES, 0)) == {"a" * 16, "b" * 16}


def test_trajectories_that_share_a_repository_or_a_site_belong_together():
    group = np.array([1, 2, 3, 4, 5], np.uint64)
    repository = np.array([7, 7, 0, 9, 0], np.uint64)
    site = np.array([0, 0, 0, 7, 7], np.uint64)
    assert widened(group, [repository]).tolist() == [1, 1, 3, 4, 5]
    assert widened(group, [repository, site]).tolist() == [1, 1, 3, 4, 4]
    assert widened(group, []).tolist() == [1, 2, 3, 4, 5]
