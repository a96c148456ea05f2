"""Newcomers: nodes keep group and pool, bridges are told, the order of arrival within a generation is theirs alone."""

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trajmill.pipelines.generations.places import Bearing, Places, Settled, settled
from trajmill.pipelines.recipe.recipe import POOLS

ARRIVALS = st.lists(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=3), min_size=1, max_size=6), max_size=6)
CPT, EVAL = POOLS.index("cpt"), POOLS.index("eval")

Known = dict[int, tuple[int, int]]
"""Node → group and number of pool."""


def tried(nodes: Sequence[Sequence[int]], order: Sequence[int], known: Known) -> Settled:
    pairs = [(number, node) for number, some in enumerate(nodes) for node in some]
    newcomer, node = (np.array([one[side] for one in pairs]) for side in (0, 1))
    borne = {node for some in nodes for node in some}
    told = [(node, *place) for node, place in known.items() if node in borne]
    rows = np.array(told, np.uint64).reshape(len(told), 3)
    places = Places(rows[:, 0], rows[:, 1], rows[:, 2].astype(np.int8))
    return settled(Bearing.of(newcomer, node.astype(np.uint64)), np.array(order), places)


def joined_one_by_one(nodes: Sequence[Sequence[int]], known: Known) -> list[tuple[int, int] | None]:
    """The same by sets: group and pool of each newcomer, None for a bridge."""
    groups: list[set[int]] = []
    bridges = set()
    for number, some in enumerate(nodes):
        touched = [one for one in groups if one & set(some)]
        whole = set(some).union(*touched)
        if len({known[node][1] for node in whole if node in known}) > 1:
            bridges.add(number)
            continue
        groups = [one for one in groups if one not in touched] + [whole]
    return [None if number in bridges else _place(groups, some, known) for number, some in enumerate(nodes)]


def _place(groups: Sequence[set[int]], some: Sequence[int], known: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    (mine,) = (one for one in groups if one & set(some))
    return min((known[node] for node in mine if node in known), default=(min(mine), -1))


@given(ARRIVALS)
def test_over_generations_no_node_changes_its_pool_and_none_that_is_kept_bears_two(generations):
    known: Known = {}
    for newcomers in generations:
        found = tried(newcomers, range(len(newcomers)), known)
        fresh: Known = {}
        for number, nodes in enumerate(newcomers):
            if found.bridges[number]:  # what it would have joined is tested below
                continue
            group, pool = int(found.group[number]), int(found.pool[number])
            place = group, pool if pool >= 0 else group % len(POOLS)
            for node in nodes:
                held = known.get(node) or fresh.get(node)
                assert held is None or held[1] == place[1]
                fresh.setdefault(node, place)
        known = {**fresh, **known}


@given(ARRIVALS, st.dictionaries(st.integers(0, 12), st.integers(0, len(POOLS) - 1)))
def test_groups_are_those_that_joining_one_by_one_makes(generations, pools):
    known = {node: (100 + node, pool) for node, pool in pools.items()}
    for newcomers in generations:
        found = tried(newcomers, range(len(newcomers)), known)
        told = zip(found.group.tolist(), found.pool.tolist(), found.bridges.tolist(), strict=True)
        places = [None if bridge else (group, pool) for group, pool, bridge in told]
        assert places == joined_one_by_one(newcomers, known)


def test_the_first_to_take_a_new_node_keeps_it_and_who_would_join_it_to_another_pool_is_a_bridge():
    known = {1: (1, CPT), 2: (2, EVAL)}
    found = tried([[1, 9], [2, 9], [9], [7]], [0, 1, 2, 3], known)
    assert found.bridges.tolist() == [False, True, False, False]
    assert found.pool.tolist()[2:] == [CPT, -1]
    turned = tried([[1, 9], [2, 9], [9], [7]], [1, 0, 2, 3], known)
    assert turned.bridges.tolist() == [True, False, False, False]
    assert turned.pool.tolist()[2] == EVAL
