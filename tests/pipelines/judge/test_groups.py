from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trajmill.pipelines.judge.groups import _NODE, _TIE, GROUPS, collect_nodes, name_groups, tie_groups
from trajmill.pipelines.judge.reasons import BRIDGES_POOLS
from trajmill.quality.group import components

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
    ties = [data for number in partitions for _, _, data in tie_groups(number, partitions[number])]
    by_unit = {unit: dict(zip(groups.tolist(), groups.tolist(), strict=True)) for unit, (_, groups) in units.items()}
    if ties:
        assert all(len(np.unique(np.frombuffer(data, _TIE)["unit"])) == 1 for data in ties)
        for name, unit, data in name_groups(0, ties):
            assert name == GROUPS
            by_unit[unit].update((int(a), int(b)) for a, b in np.frombuffer(data, [("group", "<u8"), ("name", "<u8")]))
    whole = dict(zip(*components(np.array([edge[1:] for edge in edges], np.uint64)), strict=True))
    for unit, (nodes, groups) in units.items():
        for node, group in zip(nodes.tolist(), groups.tolist(), strict=True):
            assert by_unit[unit][group] == whole[node]


def test_trajectories_with_a_task_a_parent_or_an_instance_in_common_are_one_group():
    columns = {
        "task_node": [1, 2, 3, 4, 5, 1],
        "own_node": [11, 12, 13, 14, 15, 16],
        "parent_node": [11, 12, 11, 14, 12, 16],
        "instance_node": [1, 2, 3, 2, 1, 1],
    }
    nodes = {name: np.array(values, np.uint64) for name, values in columns.items()}
    bridging = np.array([(4,)], [("row", "<i8")])
    standing: Any = SimpleNamespace(
        measures=SimpleNamespace(column=nodes.__getitem__, starts=np.arange(6)),
        losers={BRIDGES_POOLS: bridging},
        told=lambda _: [],
        unit=SimpleNamespace(number=0),
        judging=SimpleNamespace(partitions=3),
    )
    records = np.concatenate([np.frombuffer(data, _NODE) for _, data in collect_nodes(standing)])
    group = dict(zip(records["node"].tolist(), records["group"].tolist(), strict=True))
    assert [group[node] for node in (1, 2, 3, 4, 5)] == [1, 2, 1, 2, 5]
