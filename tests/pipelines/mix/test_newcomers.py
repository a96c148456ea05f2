"""Newcomers: nodes keep group and pool, bridges are told, the order of arrival within a generation is theirs alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipelines.mix.newcomers import Place, settled

ARRIVALS = st.lists(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=3), min_size=1, max_size=6), max_size=6)
POOLS = ("cpt", "sft", "rl")


@given(ARRIVALS)
def test_over_generations_no_node_changes_its_pool_and_none_that_is_kept_bears_two(generations):
    known: dict[int, Place] = {}
    for newcomers in generations:
        found = settled(newcomers, range(len(newcomers)), known)
        fresh: dict[int, Place] = {}
        for number, nodes in enumerate(newcomers):
            if found.bridges[number]:  # what it would have joined is tested below
                continue
            group = int(found.group[number])
            place = Place(group, found.pool[number] or POOLS[group % len(POOLS)])
            for node in nodes:
                held = known.get(node) or fresh.get(node)
                assert held is None or held.pool == place.pool
                fresh.setdefault(node, place)
        known = {**fresh, **known}


def test_the_first_to_take_a_new_node_keeps_it_and_who_would_join_it_to_another_pool_is_a_bridge():
    known = {1: Place(1, "cpt"), 2: Place(2, "eval")}
    found = settled([[1, 9], [2, 9], [9], [7]], [0, 1, 2, 3], known)
    assert found.bridges.tolist() == [False, True, False, False]
    assert found.pool.tolist()[2] == "cpt"
    assert found.pool.tolist()[3] == ""
    turned = settled([[1, 9], [2, 9], [9], [7]], [1, 0, 2, 3], known)
    assert turned.bridges.tolist() == [True, False, False, False]
    assert turned.pool.tolist()[2] == "eval"
