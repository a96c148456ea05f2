"""Pools: groups whole, shares held by size, the same for every order."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.pipelines.mix.candidates import gather_candidates
from trajmill.pipelines.mix.coded_names import Coded
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.pools import group_by_domain, merge_groups, pools_of
from trajmill.schemas import ConfigError

SHARES = {"cpt": 0.4, "sft": 0.25, "rl": 0.2, "eval": 0.15}


def pools(group: list[int], domain: list[str], shares: dict[str, float] = SHARES, seed: int = 0) -> dict[int, str]:
    """The pool of each group of trajectories."""
    groups = group_by_domain(np.array(group, np.uint64), Coded.of(domain))
    assert groups.names[groups.number].tolist() == group
    names = [*shares]
    return {name: names[pool] for name, pool in zip(groups.names.tolist(), pools_of(groups, shares, seed), strict=True)}


ROWS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["web", "swe"])), min_size=1, max_size=200)


@given(ROWS, st.integers(0, 5), st.randoms(use_true_random=False))
def test_a_group_has_one_pool_whatever_the_order(rows, seed, random):
    shuffled = random.sample(rows, len(rows))
    found, again = (
        pools([group for group, _ in some], [domain for _, domain in some], seed=seed) for some in (rows, shuffled)
    )
    assert found == again
    assert set(found) == {group for group, _ in rows}


@given(st.lists(st.integers(1, 30), min_size=40, max_size=120))
def test_shares_are_held_within_the_largest_group(sizes):
    group = [number for number, size in enumerate(sizes) for _ in range(size)]
    found = pools(group, ["web"] * len(group))
    for pool, share in SHARES.items():
        held = sum(size for number, size in enumerate(sizes) if found[number] == pool)
        assert abs(held - share * sum(sizes)) <= max(sizes)


SIZES = st.dictionaries(st.sampled_from(["web", "swe", "os"]), st.integers(1, 9), min_size=1)


@given(st.lists(SIZES, min_size=1, max_size=40), st.integers(0, 5))
def test_a_group_goes_where_most_is_missing_and_to_the_first_of_equals(sizes, seed):
    domains = sorted({domain for held in sizes for domain in held})
    shares = {"cpt": Fraction(1, 2), "sft": Fraction(1, 4), "eval": Fraction(1, 4)}
    missing = {
        pool: {domain: share * sum(held.get(domain, 0) for held in sizes) for domain in domains}
        for pool, share in shares.items()
    }
    expected = {}
    for name in sorted(range(len(sizes)), key=lambda name: keyed_hash(f"pool:{name:016x}", seed)):
        lacks = {
            pool: sum(held[domain] * count for domain, count in sizes[name].items()) for pool, held in missing.items()
        }
        best = max(lacks.values())
        expected[name] = next(pool for pool in shares if lacks[pool] == best)
        for domain, count in sizes[name].items():
            missing[expected[name]][domain] -= count
    rows = [(name, domain) for name, held in enumerate(sizes) for domain, count in held.items() for _ in range(count)]
    floats = {pool: float(share) for pool, share in shares.items()}
    assert pools([name for name, _ in rows], [domain for _, domain in rows], floats, seed) == expected


def test_each_domain_has_its_shares():
    group = [*range(2000)]
    domain = ["web" if number % 5 else "os" for number in range(2000)]
    found = pools(group, domain, seed=3)
    for name in ("web", "os"):
        ours = [found[one] for one, where in zip(group, domain, strict=True) if where == name]
        assert [ours.count(pool) / len(ours) for pool in SHARES] == pytest.approx(list(SHARES.values()), abs=0.01)


def test_a_pool_without_a_share_is_given_nothing():
    assert set(pools([*range(50)], ["web"] * 50, {"cpt": 1.0, "sft": 0.0}).values()) == {"cpt"}


def test_a_group_that_no_pool_can_hold_ends_the_run():
    group = [11] * 700 + [100 + number for number in range(300)]
    with pytest.raises(ConfigError, match=r"0{15}b"):
        pools(group, ["web"] * 1000)
    assert set(pools([11] * 9 + [12], ["web"] * 10)) == {11, 12}


def test_trajectories_that_share_a_repository_or_a_site_belong_together():
    group = np.array([1, 2, 3, 4, 5], np.uint64)
    repository = np.array([7, 7, 0, 9, 0], np.uint64)
    site = np.array([0, 0, 0, 7, 7], np.uint64)
    assert merge_groups(group, [repository]).tolist() == [1, 1, 3, 4, 5]
    assert merge_groups(group, [repository, site]).tolist() == [1, 1, 3, 4, 4]
    assert merge_groups(group, []).tolist() == [1, 2, 3, 4, 5]


def test_a_site_ties_its_trajectories_up_to_its_share_of_the_domain():
    site = np.array([7, 7, 8, 8, 8, 0, 7], np.uint64)
    domain = Coded.of(["web"] * 6 + ["swe"])
    found = replace(gather_candidates([]), domain=domain, environment=site)
    assert found.shared("site", 0.4).tolist() == [7, 7, 0, 0, 0, 0, 0]
    assert found.shared("site", 0.5).tolist() == found.shared("site").tolist() == [7, 7, 8, 8, 8, 0, 0]
    assert not found.shared("site", 0).any()
