"""What of a recipe may change from one generation to the next."""

import json
from typing import Any

import pytest

from trajmill.pipelines.generations.compatibility import changes, recorded
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe

BASE: dict[str, Any] = {
    "name": "n",
    "source": "tests",
    "domains": ["terminal"],
    "normalize": {"scrub_salt": "0123456789abcdef"},
    "judge": {"replicates": {"max": 3}},
    "mix": {"stages": {"sft": {"budget": 1000, "bounds": [{"by": "task", "max_share": 0.5}], "max_per_group": 2}}},
}


def recipe(**sections: Any) -> Recipe:
    judge = {**BASE["judge"], **sections.pop("judge", {})}
    return parse_recipe(json.dumps({**BASE, **sections, "judge": judge}), "n")


def stages(**values: Any) -> dict[str, Any]:
    return {"mix": {"stages": {"sft": {**BASE["mix"]["stages"]["sft"], **values}}}}


def found(after: Recipe) -> dict[str, bool]:
    return {one.key: one.is_free for one in changes(recorded(recipe()), recorded(after))}


@pytest.mark.parametrize(
    ("after", "key"),
    [
        ({"source": "more"}, "source"),
        ({"licence": "MIT"}, "licence"),
        ({"judge": {"rules": {"short": {"signal": "length", "min": 1}}}}, "judge.rules.short"),
        ({"judge": {"max_share": {"task": 0.5}}}, "judge.max_share.task"),
        ({"judge": {"replicates": {"max": 2}}}, "judge.replicates.max"),
        (stages(budget=2000), "mix.stages.sft.budget"),
        (stages(bounds=[{"by": "task", "max_share": 0.1}]), "mix.stages.sft.bounds"),
        (stages(max_per_group=3), "mix.stages.sft.max_per_group"),
        (stages(bounds=[{"by": "domain", "max_share": 0.5}]), "mix.stages.sft.bounds"),
        (stages(max_per_group=None), "mix.stages.sft.max_per_group"),
        (stages(components={"all": {"weight": 1}}), "mix.stages.sft.components.all"),
        ({"mix": {"stages": {**BASE["mix"]["stages"], "rl": {"samples": 2}}}}, "mix.stages.rl"),
    ],
)
def test_rules_budgets_and_weights_may_change(after, key):
    told = found(recipe(**after))
    assert key in told
    assert all(told.values()), told


@pytest.mark.parametrize(
    ("after", "key"),
    [
        ({"name": "other"}, "name"),
        ({"normalize": {"scrub_salt": "fedcba9876543210"}}, "normalize.scrub_salt"),
        ({"normalize": {**BASE["normalize"], "scrub": ["email"]}}, "normalize.scrub"),
        ({"normalize": {**BASE["normalize"], "grown": "extend"}}, "normalize.grown"),
        ({"judge": {"near_duplicates": {"bands": 12}}}, "judge.near_duplicates.bands"),
        ({"judge": {"near_duplicates": None}}, "judge.near_duplicates"),
        ({"judge": {"replicates": None}}, "judge.replicates"),
        ({"mix": {**BASE["mix"], "pools": {"sft": 1}}}, "mix.pools.cpt"),
        ({"mix": {**BASE["mix"], "seed": 2}}, "mix.seed"),
        ({"mix": {**BASE["mix"], "group_by": ["site"]}}, "mix.group_by.site"),
        ({"mix": {**BASE["mix"], "edits": "diff"}}, "mix.edits"),
    ],
)
def test_what_ledgers_rest_on_may_not_change(after, key):
    assert found(recipe(**after))[key] is False
