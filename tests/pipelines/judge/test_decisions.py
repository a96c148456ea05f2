"""Decisions of judge: groups, the state of a part, and what each round is told."""

import json
import re
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.pipelines.judge import measuring
from trajmill.pipelines.judge.corpus_rule import UNITS, heard_at_last, scheduled
from trajmill.pipelines.judge.groups import _NODE, _TIE, GROUPS, named, tied
from trajmill.pipelines.judge.judge import decisions
from trajmill.pipelines.judge.judging import Judging, Unit
from trajmill.pipelines.judge.measuring import measuring_digest
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import LOST, LOST_ROWS, NO_TEXT, REASONS
from trajmill.pipelines.judge.verdicts import verdict_reasons
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.quality.group import components

RECIPE = """
name: all
source: tests
domains: [terminal]
judge:
  spans: true
  replicates: {max: 2}
  max_share: {task: 0.5, place: 0.5}
  rules:
    no_op: {signal: no_op, max: 0, cap: 0.2}
"""


def judging(text: str = RECIPE, benchmarks: str = "digest") -> Judging:
    folder = Folder("nowhere")
    return Judging(parse_recipe(text, "all"), folder, folder, folder, folder, folder, "digest", benchmarks)


def test_each_round_has_a_name_that_spill_files_can_bear_and_a_level_after_all_that_it_hears():
    level: dict[str, int] = {}
    levels = scheduled(decisions(judging()))
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
    assert set(heard_at_last(decisions(judging()))) <= level.keys()


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


EDGES = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=30)


@given(EDGES)
def test_groups_that_units_name_among_themselves_are_those_of_the_whole_corpus(edges):
    units: dict[int, np.ndarray] = {}
    for unit in {unit for unit, _, _ in edges}:
        pairs = np.array([edge[1:] for edge in edges if edge[0] == unit], np.uint64)
        units[unit] = np.stack(components(pairs))
    partitions: dict[int, list[bytes]] = defaultdict(list)
    for unit, (nodes, groups) in units.items():
        for node, group in zip(nodes, groups, strict=True):
            partitions[int(node) % 3].append(np.array([(node, group, unit)], _NODE).tobytes())
    told = [data for number in partitions for _, _, data in tied(number, partitions[number])]
    found = {unit: dict(zip(groups.tolist(), groups.tolist(), strict=True)) for unit, (_, groups) in units.items()}
    if told:
        assert all(len(np.unique(np.frombuffer(data, _TIE)["unit"])) == 1 for data in told)
        for name, unit, data in named(0, told):
            assert name == GROUPS
            found[unit].update((int(a), int(b)) for a, b in np.frombuffer(data, [("group", "<u8"), ("name", "<u8")]))
    whole = dict(zip(*components(np.array([edge[1:] for edge in edges], np.uint64)), strict=True))
    for unit, (nodes, groups) in units.items():
        for node, group in zip(nodes.tolist(), groups.tolist(), strict=True):
            assert found[unit][group] == whole[node]


OMITS = [reason.name for reason in REASONS if not reason.whole]
DROPS = [reason.name for reason in REASONS if reason.whole]


def standing(lengths: list[int], **values: Any) -> Standing:
    """The state of trajectories of these lengths; what is not given takes nothing away."""
    rows, starts = sum(lengths), np.cumsum([0, *lengths[:-1]])
    decision = SimpleNamespace(
        trajectory=np.array(values.get("trajectory", [-1] * rows)),
        transition=np.array(values.get("transition", [-1] * rows)),
    )
    text = np.array(values.get("has_text", [True] * rows))
    state = Standing(None, None)  # type: ignore[arg-type]
    vars(state)["measures"] = SimpleNamespace(
        decision=decision, starts=starts, lengths=np.array(lengths), column={"has_text": text}.__getitem__
    )
    lost = {reason.name: {"row": np.array(values.get("lost", {}).get(reason.name, []), np.int64)} for reason in REASONS}
    vars(state)["losers"] = lost
    vars(state)["over"] = np.array(values.get("over", [-1] * rows), np.int16)
    return state


@pytest.mark.parametrize(
    ("values", "targets"),
    [
        ({}, [True] * 5),
        ({"has_text": [True, False, True, True, False]}, [True, False, True, True, False]),
        ({"transition": [-1, 0, -1, 3, -1]}, [True, False, True, False, True]),
        ({"over": [0, -1, -1, -1, 1]}, [False, True, True, True, False]),
        ({"trajectory": [-1, -1, 0, 0, 0]}, [True, True, False, False, False]),
        ({"lost": {DROPS[0]: [0]}}, [False, False, True, True, True]),
        ({"lost": {OMITS[0]: [0, 3]}}, [False, True, True, False, True]),
    ],
)
def test_a_row_bears_the_loss_unless_something_takes_it(values, targets):
    assert standing([2, 3], **values).targets().tolist() == targets


@given(st.lists(st.sampled_from([*DROPS, None]), min_size=1, max_size=6), st.data())
def test_a_trajectory_is_kept_unless_a_rule_or_a_reason_for_wholes_drops_it(reasons, data):
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=len(reasons), max_size=len(reasons)))
    starts = np.cumsum([0, *lengths[:-1]]).tolist()
    lost = {name: [start for start, one in zip(starts, reasons, strict=True) if one == name] for name in DROPS}
    kept = standing(lengths, lost=lost).kept().tolist()
    assert kept == [one is None for one, length in zip(reasons, lengths, strict=True) for _ in range(length)]


@pytest.mark.parametrize(
    ("reason", "left"),
    [
        *((name, 0) for name in ("simulated", "bridges_pools", "contaminated", "duplicate_trajectory")),
        *((name, 0) for name in ("near_duplicate", "harness_share", "no_target")),
        *((name, 1) for name in ("harness_text", "duplicate_transition", "replicate", "no_text")),
    ],
)
def test_a_reason_takes_the_loss_of_a_trajectory_or_of_one_row(reason, left):
    assert standing([2, 3], lost={reason: [0]}).targets().sum() == left + 3


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
