"""Pools: groups dealt by share, tasks too large for one, and shares of simulated answers."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.pipelines.mix.candidates import gather_candidates
from trajmill.pipelines.mix.coded_names import Coded
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.pools import group_by_domain, merge_groups, pools_of
from trajmill.pipelines.mix.simulated import check_components, shares, sum_mixtures, sum_simulated
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
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
    first, again = (
        pools([group for group, _ in pairs], [domain for _, domain in pairs], seed=seed) for pairs in (rows, shuffled)
    )
    assert first == again
    assert set(first) == {group for group, _ in rows}


@given(st.lists(st.integers(1, 30), min_size=40, max_size=120))
def test_shares_are_held_within_the_largest_group(sizes):
    group = [number for number, size in enumerate(sizes) for _ in range(size)]
    assigned = pools(group, ["web"] * len(group))
    for pool, share in SHARES.items():
        total = sum(size for number, size in enumerate(sizes) if assigned[number] == pool)
        assert abs(total - share * sum(sizes)) <= max(sizes)


SIZES = st.dictionaries(st.sampled_from(["web", "swe", "os"]), st.integers(1, 9), min_size=1)


@given(st.lists(SIZES, min_size=1, max_size=40), st.integers(0, 5))
def test_a_group_goes_where_most_is_missing_and_to_the_first_of_equals(sizes, seed):
    domains = sorted({domain for by_domain in sizes for domain in by_domain})
    shares = {"cpt": Fraction(1, 2), "sft": Fraction(1, 4), "eval": Fraction(1, 4)}
    missing = {
        pool: {domain: share * sum(by_domain.get(domain, 0) for by_domain in sizes) for domain in domains}
        for pool, share in shares.items()
    }
    expected = {}
    for name in sorted(range(len(sizes)), key=lambda name: keyed_hash(f"pool:{name:016x}", seed)):
        lacks = {
            pool: sum(lacking[domain] * count for domain, count in sizes[name].items())
            for pool, lacking in missing.items()
        }
        best = max(lacks.values())
        expected[name] = next(pool for pool in shares if lacks[pool] == best)
        for domain, count in sizes[name].items():
            missing[expected[name]][domain] -= count
    rows = [
        (name, domain)
        for name, by_domain in enumerate(sizes)
        for domain, count in by_domain.items()
        for _ in range(count)
    ]
    floats = {pool: float(share) for pool, share in shares.items()}
    assert pools([name for name, _ in rows], [domain for _, domain in rows], floats, seed) == expected


def test_each_domain_has_its_shares():
    group = [*range(2000)]
    domain = ["web" if number % 5 else "os" for number in range(2000)]
    assigned = pools(group, domain, seed=3)
    for name in ("web", "os"):
        ours = [assigned[key] for key, label in zip(group, domain, strict=True) if label == name]
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
    candidates = replace(gather_candidates([]), domain=domain, environment=site)
    assert candidates.shared("site", 0.4).tolist() == [7, 7, 0, 0, 0, 0, 0]
    assert candidates.shared("site", 0.5).tolist() == candidates.shared("site").tolist() == [7, 7, 8, 8, 8, 0, 0]
    assert not candidates.shared("site", 0).any()


ROLLOUTS, OTHERS = 120, 60


def rollout(question: str, number: int) -> dict[str, Any]:
    call = {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": json.dumps({"n": number})}}
    return {
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": f"Entry {number}."},
        ]
    }


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    rows = [rollout("What is known of it?", number) for number in range(ROLLOUTS)]
    rows += [rows[0]] * 500  # equal rollouts are one
    rows += [rollout(f"What is known of {number}?", 1000 + number) for number in range(OTHERS)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def recipe(**sections: Any) -> Recipe:
    return parse_recipe(json.dumps({"name": "rows", "source": "tests", **sections}), "rows")


def test_a_task_that_no_pool_has_room_for_is_told_before_anything_is_judged(raw, tmp_path):
    with pytest.raises(ConfigError, match=r"One task has 120 of the 180 trajectories of mcp.*\n?.*judge\.max_per_task"):
        Run(recipe(mix={"pools": {"sft": 0.5, "eval": 0.5}}), [str(raw)], str(tmp_path / "out")).run()
    assert (tmp_path / "out" / "transitions" / "manifest.json").exists()
    assert not (tmp_path / "out" / "measures").exists()


@pytest.mark.parametrize(
    "sections",
    [
        {"mix": {"pools": {"sft": 0.7, "eval": 0.3}}},
        {"mix": {"pools": {"sft": 0.5, "eval": 0.5}}, "judge": {"max_share": {"task": 0.25}}},
        {"mix": {"pools": {"sft": 0.5, "eval": 0.5}}, "judge": {"max_per_task": 10}},
    ],
)
def test_a_larger_pool_or_a_bound_on_tasks_lets_the_run_go_on(raw, tmp_path, sections):
    summary = Run(recipe(**sections), [str(raw)], str(tmp_path / "out")).run()
    assert summary.last == "mix"
    assert sum(summary.samples.values()) > 0


def test_a_run_that_draws_nothing_does_not_ask(raw, tmp_path):
    summary = Run(recipe(mix={"pools": {"sft": 0.5, "eval": 0.5}}), [str(raw)], str(tmp_path / "out")).run("judge")
    assert summary.last == "judge"


COMPONENT = Coded.of(["a", "a", "b", "b", "a"])
MODELS = Coded.of(["m@1", "", "n@1", "n@1", "m@1"])


def test_samples_count_as_often_as_they_are_drawn_and_real_ones_not_at_all():
    tokens, copies = np.array([10, 20, 30, 40, 50]), np.array([2, 1, 0, 1, 1])
    assert sum_simulated("sft", COMPONENT, MODELS, tokens, copies) == [
        {"stage": "sft", "component": "a", "world_model": "m@1", "samples": 3, "tokens": 70},
        {"stage": "sft", "component": "b", "world_model": "n@1", "samples": 1, "tokens": 40},
    ]
    assert sum_simulated("sft", COMPONENT, MODELS, tokens, copies * 0) == []


def test_generations_add_up_and_shares_are_of_all_that_their_stage_drew():
    simulated = sum_simulated("sft", COMPONENT, MODELS, np.full(5, 10), np.ones(5, np.int32))
    mixtures = [{"simulated": simulated}, {}, {"simulated": simulated[:1]}]
    added = sum_mixtures(mixtures)
    assert [(row["world_model"], row["samples"], row["tokens"]) for row in added] == [("m@1", 4, 40), ("n@1", 2, 20)]
    assert simulated[0]["tokens"] == 20
    per_model = shares({"simulated": added, "stages": {"sft": [{"tokens": 60}, {"tokens": 20}]}})
    assert [row["share"] for row in per_model] == [0.5, 0.25]
    assert shares({"stages": {}}) == []


@pytest.mark.parametrize(
    ("models", "before", "holds"),
    [
        (["m@1", "", "n@1", "n@1", "m@1"], [], True),
        (["m@1", "", "n@1", "n@1", "m@2"], [], False),
        (["m@1", "m@1", "", "", ""], [("sft", "b", "n@1"), ("rl", "a", "n@1")], True),
        (["m@1", "m@1", "", "", ""], [("sft", "a", "n@1")], False),
        (["", "", "", "", ""], [("sft", "a", "n@1"), ("sft", "a", "n@1")], True),
    ],
)
def test_a_component_holds_one_world_model_over_all_generations_of_its_stage(models, before, holds):
    earlier = [dict(zip(("stage", "component", "world_model"), values, strict=True)) for values in before]
    if holds:
        check_components("sft", COMPONENT, Coded.of(models), earlier)
    else:
        with pytest.raises(ConfigError):
            check_components("sft", COMPONENT, Coded.of(models), earlier)
