"""The decisions of a recipe: one table of reasons, rounds whose names are apart, a graph that no corpus enlarges."""

import json
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from trajmill.pipelines.judge import measuring
from trajmill.pipelines.judge.corpus_rule import UNITS, final_answers, schedule_rounds
from trajmill.pipelines.judge.judge import decisions
from trajmill.pipelines.judge.judging import Judging, Unit
from trajmill.pipelines.judge.measuring import measuring_digest
from trajmill.pipelines.judge.reasons import LOST, LOST_ROWS, NO_TEXT, REASONS
from trajmill.pipelines.judge.verdicts import verdict_reasons
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.storage.folders import Folder

RECIPE = """
name: all
source: tests
domains: [terminal]
judge:
  spans: true
  replicates: {max: 2}
  max_share: {task: 0.5, place: 0.5}
  max_per_task: 2
  rules:
    no_op: {signal: no_op, max: 0, cap: 0.2}
"""


def judging(text: str = RECIPE, benchmarks: str = "digest") -> Judging:
    folder = Folder("nowhere")
    return Judging(parse_recipe(text, "all"), folder, folder, folder, folder, folder, "digest", benchmarks)


def test_each_round_has_a_name_that_spill_files_can_bear_and_a_level_after_all_that_it_hears():
    level: dict[str, int] = {}
    levels = schedule_rounds(decisions(judging()))
    for number, some in enumerate(levels):
        for one in some:
            assert re.fullmatch("[a-z_]+", one.round.name)
            assert one.round.name not in level
            level[one.round.name] = number
    own = {one.round.name for some in levels for one in some if one.round.own is not None}
    for some in levels:
        for one in some:
            heard = [name for name in one.hears if name != UNITS]
            assert all(level[name] < level[one.round.name] + (name in own) for name in heard)
    assert set(final_answers(decisions(judging()))) <= level.keys()


def test_by_a_recipe_that_asks_for_nothing_nobody_loses():
    nothing = (
        "name: n\nsource: tests\ndomains: [terminal]\njudge: {near_duplicates: null, replicates: null, "
        "drop_duplicate_trajectories: false, mask_duplicate_transitions: false}"
    )
    assert [decision.reasons for decision in decisions(judging(nothing, ""))] == [()]  # groups are named all the same


def test_a_row_whose_next_observation_nobody_saw_is_omitted_whatever_rule_it_broke():
    recipe = RECIPE + "    late: {signal: unannounced_timeout, max: 0, use: context}\n"
    made = judging(recipe)
    of_rule = [rule.name for rule in made.recipe.judge.ordered_rules()].index("late")
    nobody = {name: {"row": np.array([], np.int64), "kept": np.array([], np.uint64)} for name in (*LOST, *LOST_ROWS)}
    measures: Any = SimpleNamespace(
        table=pa.table({"step": [0, 1]}),
        decision=SimpleNamespace(
            names=made.recipe.judge.rules, transition=np.array([-1, of_rule]), trajectory=np.array([-1, -1])
        ),
        column={"has_text": np.array([True, False])}.__getitem__,
        starts=np.array([0]),
        lengths=np.array([2]),
    )
    standing: Any = SimpleNamespace(judging=made, measures=measures, losers=nobody, over=np.array([-1, -1]))
    reasons, kept, _ = verdict_reasons(standing)
    no_text = len(made.recipe.judge.rules) + [one.name for one in REASONS].index(NO_TEXT)
    assert reasons.tolist() == [-1, no_text]
    assert kept.all()


@pytest.mark.parametrize(
    ("version", "rule"),
    [("EDGES_VERSION", {"harness_text": {}}), ("VERSION", {"near_duplicates": {}}), ("SPANS_VERSION", {"spans": True})],
)
def test_measures_are_made_again_if_the_code_of_one_that_is_asked_for_changed(version, rule, monkeypatch):
    none = {"harness_text": None, "near_duplicates": None, "spans": False}

    def digests():
        unit = Unit(0, "transitions", "sha256")
        recipes = ({"name": "r", "source": "tests", "judge": values} for values in (none, none | rule))
        return [measuring_digest(unit, judging(json.dumps(recipe), "")) for recipe in recipes]

    before = digests()
    monkeypatch.setattr(measuring, version, "next")
    after = digests()
    assert before[0] == after[0]
    assert len({*before, after[1]}) == 3
