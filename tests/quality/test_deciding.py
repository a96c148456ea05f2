import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make import Outcome, batch_of, trajectory
from tests.quality.whole import measured
from trajmill.quality.duplicate import KEY, losers
from trajmill.quality.group import components, name_edges
from trajmill.quality.measure import Measuring, instance_nodes, task_nodes
from trajmill.quality.rule import Rule, apply_rules
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import ConfigError, Environment, Task


def numbers(*values):
    return np.array(values, np.float32)


def test_the_first_rule_in_order_gives_the_reason():
    rules = [Rule("low", "s", "trajectory", least=2), Rule("high", "s", "trajectory", most=1)]
    assert apply_rules(rules, {"s": numbers(0, 3, 1.5)}, 3).trajectory.tolist() == [0, 1, 0]


def test_rules_on_transitions_do_not_touch_trajectories():
    decision = apply_rules([Rule("r", "s", "transition", most=0)], {"s": numbers(0, 1)}, 2)
    assert decision.trajectory.tolist() == [-1, -1]
    assert decision.transition.tolist() == [-1, 0]


def test_a_rule_of_some_domains_is_silent_in_others():
    rules = [Rule("r", "s", "trajectory", least=2, domains=("swe", "web")), Rule("all", "s", "trajectory", least=1)]
    decisions = [apply_rules(rules, {"s": numbers(0, 1, 2)}, 3, domain=domain) for domain in ("web", "mcp")]
    assert [decision.trajectory.tolist() for decision in decisions] == [[0, 0, -1], [1, -1, -1]]


def test_the_last_bit_of_a_float_decides_nothing():
    rule = Rule("r", "s", "transition", most=0.3)
    assert rule.keep(numbers(0.1 + 0.2, np.nextafter(np.float32(0.3), np.float32(1)))).all()


def test_a_rule_that_spares_lets_its_share_through_by_what_is_said():
    rule, other_rule = (Rule(name, "s", "transition", most=0, spare=0.25) for name in ("r", "t"))
    keys = {"transition": np.random.default_rng(0).integers(0, 1 << 63, 8_000, np.uint64) << np.uint64(1)}
    broken = {"s": np.ones(8_000, np.float32)}
    spared = apply_rules([rule], broken, 8_000, keys).transition < 0
    assert abs(spared.mean() - 0.25) < 0.02
    assert abs((spared & (apply_rules([other_rule], broken, 8_000, keys).transition < 0)).mean() - 0.25**2) < 0.02
    order = np.random.default_rng(1).permutation(8_000)
    again = apply_rules([rule], broken, 8_000, {"transition": keys["transition"][order]}).transition < 0
    assert (again == spared[order]).all()


@given(st.permutations([(0, 1, rank, tie, origin, 0, 0) for rank in (0, 1) for tie in (0, 1) for origin in (0, 1)]))
def test_of_equal_things_the_least_by_rank_tie_and_origin_survives(values):
    keys = np.array([(*value[:5], unit, row) for row, value in enumerate(values) for unit in (0, 1)], KEY)
    lost, winners = losers(keys)
    (first,) = (row for row, value in enumerate(values) if value[2:5] == (0, 0, 0))
    assert winners.tolist() == [(0, 1, 0, 0, 0, 0, first)] * 15
    assert [loser[2:5] for loser in lost.tolist()] == sorted([value[2:5] for value in values] * 2)[1:]


@given(st.permutations([(high, rank) for high in (0, 1, 2) for rank in range(2 * high)]), st.integers(1, 5))
def test_of_equal_things_as_many_survive_as_may_the_least_by_rank(values, most):
    keys = np.array([(high, 0, rank, 0, 0, 0, row) for row, (high, rank) in enumerate(values)], KEY)
    lost, winners = losers(keys, most)
    assert sorted(lost[["high", "rank"]].tolist()) == [(h, rank) for h in (1, 2) for rank in range(most, 2 * h)]
    assert winners["rank"].tolist() == [0] * len(lost)


def first_ranks(prefer, *trajectories):
    measuring = Measuring((), TokenCounter(), prefer)
    table = pa.Table.from_batches([*measuring.add(batch_of(*trajectories)), *measuring.rest()])
    return table.filter(pc.equal(table["step"], 0))["rank"].to_pylist()


OUTCOMES = [
    Outcome(True, math.inf),
    Outcome(True, 1.0),
    Outcome(True, 0.5),
    Outcome(True, -0.0),
    Outcome(True, -2.0),
    Outcome(True, -math.inf),
    Outcome(True, math.nan),
    Outcome(None, 0.9),
    Outcome(None, 0.1),
    None,
    Outcome(False, 7.0),
    Outcome(False),
]
"""From the best to the worst."""


@given(st.permutations(range(len(OUTCOMES))))
def test_solved_is_preferred_to_unknown_and_that_to_failed_then_the_score_then_the_shorter(order):
    trajectories = [
        trajectory(*["x"] * length, native_id=f"{number}-{length}", outcome=OUTCOMES[number])
        for number in order
        for length in (2, 1)
    ]
    names = [(number, length) for number in order for length in (2, 1)]
    ranks = first_ranks(("solved", "shorter"), *trajectories)
    assert [name for _, name in sorted(zip(ranks, names, strict=True))] == sorted(names)
    assert len(set(ranks)) == len(ranks)


def test_zero_and_negative_zero_are_one_score_and_no_score_is_the_least():
    scores = [0.0, -0.0, None, math.nan]
    trajectories = [trajectory(native_id=str(n), outcome=Outcome(True, score)) for n, score in enumerate(scores)]
    zero, minus, none, nan = first_ranks(("solved",), *trajectories)
    assert zero == minus < none == nan


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 2), max_size=12))
def test_things_are_equal_only_where_both_halves_of_the_hash_are(hashes):
    keys = np.array([(high, low, row, 0, 0, 0, row) for row, (high, low) in enumerate(hashes)], KEY)
    lost, winners = losers(keys)
    pairs = {row: hashes.index(hash_) for row, hash_ in enumerate(hashes) if hashes.index(hash_) < row}
    assert dict(zip(lost["row"].tolist(), winners["row"].tolist(), strict=True)) == pairs


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=25), st.randoms())
def test_components_are_those_of_a_graph_search(edges, random):
    nodes, groups = components(np.array(edges, np.uint64).reshape(-1, 2))
    neighbours: dict[int, set[int]] = {}
    for a, b in edges:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    expected = {}
    for start in sorted(neighbours):
        stack = [start]
        while stack:
            node = stack.pop()
            if node not in expected:
                expected[node] = start
                stack += neighbours[node]
    assert dict(zip(nodes.tolist(), groups.tolist(), strict=True)) == expected
    ends = np.array(edges, np.uint64).reshape(-1, 2).T.copy()
    name_edges((ends[0], ends[1]))
    assert ends.T.tolist() == [[a, expected[a]] for a, _ in edges]
    random.shuffle(edges)
    again = components(np.array(edges, np.uint64).reshape(-1, 2))
    assert np.array_equal(again[1], groups)


def nodes_of(*trajectories):
    batch = measured(batch_of(*trajectories))
    return batch["task_node"].to_pylist(), batch["instance_node"].to_pylist()


def test_without_an_id_the_instruction_tells_the_task():
    same = [trajectory(text, native_id=text, task=Task(None, "do it")) for text in "ab"]
    tasks, _ = nodes_of(*same, trajectory("c", native_id="c", task=Task(None, "do that")))
    assert tasks[0] == tasks[1] != tasks[2]


def test_without_task_and_instance_a_trajectory_is_its_own_group_and_shares_it_with_its_copy():
    tasks, instances = nodes_of(trajectory("a"), trajectory("b", native_id="u"), trajectory("a", native_id="v"))
    assert tasks == instances
    assert tasks[0] == tasks[2] != tasks[1]


def test_one_instance_joins_two_tasks():
    environment = Environment(id="image", instance_id="7")
    _, instances = nodes_of(
        trajectory("a", task=Task("1"), environment=environment),
        trajectory("b", task=Task("2"), environment=environment),
    )
    assert instances[0] == instances[1]


@pytest.mark.parametrize(
    ("instance", "joined"), [("/home/me/work/lamp", False), (r"C:\\me\\work\\lamp", False), ("7", True)]
)
def test_a_working_folder_joins_no_tasks_where_it_is_to_be_no_instance(instance, joined):
    environment = Environment(instance_id=instance)
    batch = batch_of(*(trajectory(name, task=Task(name), environment=environment) for name in "ab"))
    tasks = task_nodes(batch, np.zeros(batch.num_rows, np.uint64))
    assert len(set(instance_nodes(batch, tasks).tolist())) == 1
    apart = instance_nodes(batch, tasks, folders=False)
    assert (apart[0] == apart[1]) == joined


def test_a_child_is_joined_to_its_parent():
    child = trajectory("b", native_id="c", parent="p", relation="subagent")
    batch = measured(batch_of(trajectory("a", native_id="p"), child))
    own, parent = batch["own_node"].to_pylist(), batch["parent_node"].to_pylist()
    assert own[0] == parent[0] == parent[1] != own[1]


def test_an_unreadable_tokenizer_is_named():
    with pytest.raises(ConfigError, match=r"nowhere\.json"):
        TokenCounter("nowhere.json")
