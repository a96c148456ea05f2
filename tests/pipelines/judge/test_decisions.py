"""The decisions of a recipe: one table of reasons, rounds whose names are apart, a graph that no corpus enlarges."""

import json
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from trajmill.pipelines.judge import judging as settings
from trajmill.pipelines.judge import measuring
from trajmill.pipelines.judge.corpus_rule import UNITS, Answers, Key, Keys, Round, final_answers, schedule_rounds
from trajmill.pipelines.judge.judge import _keys, _of_round, decisions
from trajmill.pipelines.judge.judging import Judging, Unit, count_packed_records
from trajmill.pipelines.judge.measuring import measuring_digest
from trajmill.pipelines.judge.reasons import BRIDGES_POOLS, LOST, LOST_ROWS, NO_TARGET, NO_TEXT, REASONS
from trajmill.pipelines.judge.verdicts import _details, verdict_reasons
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
    for number, entries in enumerate(levels):
        for entry in entries:
            assert re.fullmatch("[a-z_]+", entry.round.name)
            assert entry.round.name not in level
            level[entry.round.name] = number
    own = {entry.round.name for entries in levels for entry in entries if entry.round.own is not None}
    for entries in levels:
        for entry in entries:
            heard = [name for name in entry.hears if name != UNITS]
            assert all(level[name] < level[entry.round.name] + (name in own) for name in heard)
    assert set(final_answers(decisions(judging()))) <= level.keys()


def test_by_a_recipe_that_asks_for_nothing_nobody_loses():
    nothing = (
        "name: n\nsource: tests\ndomains: [terminal]\njudge: {near_duplicates: null, replicates: null, "
        "drop_duplicate_trajectories: false, mask_duplicate_transitions: false}"
    )
    assert [decision.reasons for decision in decisions(judging(nothing, ""))] == [()]  # groups are named all the same


def test_a_row_whose_next_observation_nobody_saw_is_omitted_whatever_rule_it_broke():
    recipe = RECIPE + "    late: {signal: unannounced_timeout, max: 0, use: context}\n"
    judge = judging(recipe)
    of_rule = [rule.name for rule in judge.recipe.judge.ordered_rules()].index("late")
    nobody = {name: {"row": np.array([], np.int64), "kept": np.array([], np.uint64)} for name in (*LOST, *LOST_ROWS)}
    measures: Any = SimpleNamespace(
        table=pa.table({"step": [0, 1]}),
        decision=SimpleNamespace(
            names=judge.recipe.judge.rules, transition=np.array([-1, of_rule]), trajectory=np.array([-1, -1])
        ),
        column={"has_text": np.array([True, False])}.__getitem__,
        starts=np.array([0]),
        lengths=np.array([2]),
    )
    standing: Any = SimpleNamespace(judging=judge, measures=measures, losers=nobody, over=np.array([-1, -1]))
    reasons, is_kept, _ = verdict_reasons(standing)
    no_text = len(judge.recipe.judge.rules) + [reason.name for reason in REASONS].index(NO_TEXT)
    assert reasons.tolist() == [-1, no_text]
    assert is_kept.all()


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


def test_a_round_is_told_what_units_answer_it_and_the_units_themselves():
    unit = Unit(3, "terminal/part-3.parquet", "")
    assert _of_round((3, ("runs", ("answer", b"x"))), "runs") == [(("runs", 3), b"x")]
    assert _of_round((3, (UNITS, unit)), UNITS) == [((UNITS, 3), unit)]
    assert _of_round((3, (UNITS, unit)), "runs") == []


def test_a_decided_unit_gives_keys_to_the_rounds_that_take_it_alone():
    def keys(_: Any) -> Keys:
        yield 1, b"key"

    def nothing(_: Key, __: Any) -> Answers:
        yield from ()

    decision: Any = SimpleNamespace(
        rounds=(Round("all", keys, nothing, takes_decided=True), Round("new", keys, nothing, common=UNITS)), losing=""
    )
    [level] = schedule_rounds([decision])
    rounds = [entry.round for entry in level]
    for folder, names in ((None, ["all", "new"]), (Folder("earlier"), ["all"])):
        unit = Unit(0, "terminal/part-0.parquet", "", folder)
        assert [name for (name, _), _ in _keys((0, [(UNITS, unit)]), rounds, judging(), {})] == names


@pytest.mark.parametrize(("near", "records"), [(None, 70), ({"bands": 10}, 100), ({"bands": 5}, 70)])
def test_the_largest_exchange_has_a_record_for_each_row_or_for_each_band_of_a_trajectory(near, records, monkeypatch):
    sealed = SimpleNamespace(counts={"trajectories": 5}, files=[SimpleNamespace(rows=30), SimpleNamespace(rows=5)])
    monkeypatch.setattr(settings, "read_manifest", lambda *_: sealed)
    recipe: Any = SimpleNamespace(judge=SimpleNamespace(near_duplicates=near and SimpleNamespace(**near)))
    assert count_packed_records(recipe, [Folder("one"), Folder("two")]) == records


def test_a_reject_tells_why_by_its_reason():
    decision: Any = SimpleNamespace(
        reasons=("contaminated",), words=lambda reason, survivor: f"{reason} by item {survivor}"
    )
    reasons = [BRIDGES_POOLS, NO_TARGET, "contaminated", "few_turns", "few_turns"]
    rules = {"few_turns": lambda row: f"few_turns: {row} turns"}
    details = _details([decision], np.array(reasons, object), np.arange(5, dtype=np.uint64), rules)(np.arange(5))
    assert details[2] == "contaminated by item 2"
    assert [("two pools" in text, "no transition" in text, "few_turns" in text) for text in details] == [
        (True, False, False),
        (False, True, False),
        (False, False, False),
        (False, False, True),
        (False, False, True),
    ]
    assert details[4] == "few_turns: 4 turns"
