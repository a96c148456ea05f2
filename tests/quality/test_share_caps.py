import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.quality.share_caps import BOUNDED, RECORD, beyond, limit
from trajmill.quality.variety import OF_TRAJECTORIES
from trajmill.schemas import ConfigError


def test_the_limit_is_the_largest_that_holds():
    assert limit(np.array([90, 5, 5]), 0.5) == 10
    assert limit(np.array([90, 5, 5]), 0.9) == 90
    assert limit(np.array([4, 4, 4]), 0.3) == 0
    assert limit(np.array([4, 7, 9]), 1 / 3) == 4
    assert limit(np.array([7]), 1.0) == 7
    assert limit(np.zeros(0, np.int64), 0.5) == 0


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.sampled_from([0.1, 0.2, 0.34, 0.5, 0.9, 1.0]))
def test_no_larger_limit_holds(counts, share):
    array = np.array(counts)

    def holds(most):
        left = np.minimum(array, most)
        return left.max() <= share * left.sum() + 1e-9

    most = limit(array, share)
    assert most == max((n for n in range(1, max(counts) + 1) if holds(n)), default=0)


def records(trajectories):
    """A record a row: for each trajectory its task, environment, and the (place, command) of each row; 0 is unknown."""
    rows: list[tuple[int, ...]] = []
    for number, (task, environment, places) in enumerate(trajectories):
        for location, head in places:
            chance = (len(rows) * 0x9E3779B97F4A7C15) % 2**64
            first = len(rows) - sum(row[1] == number + 1 for row in rows)
            rows.append((chance, number + 1, 7, task, environment, location, head, 0, first, len(rows)))
    return np.array(rows, RECORD)


def kept(rows, lost):
    """The rows that are left when what was lost is gone."""
    left = rows
    for kind, dropped in lost.items():
        left = left[~np.isin(left["first" if kind in OF_TRAJECTORIES else "row"], dropped["row"])]
    return left


def largest(left, kind):
    if kind in OF_TRAJECTORIES:
        left = left[np.unique(left["first"], return_index=True)[1]]
    _, counts = np.unique(left[kind][left[kind] > 0], return_counts=True)
    return counts.max() / counts.sum() if len(counts) else 0


ROWS = st.tuples(st.integers(0, 3), st.integers(0, 4))
CORPUS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.lists(ROWS, min_size=1, max_size=5)), min_size=1, max_size=30
)
SHARES = st.dictionaries(st.sampled_from(BOUNDED), st.sampled_from([0.3, 0.5, 0.7, 1.0]), min_size=1)


@given(CORPUS, SHARES, st.randoms())
def test_all_bounds_hold_together_and_the_order_of_rows_decides_nothing(corpus, shares, random):
    rows = records(corpus)
    shuffled = rows[random.sample(range(len(rows)), len(rows))]
    try:
        lost = beyond(rows, shares, "terminal")
    except ConfigError:
        with pytest.raises(ConfigError, match="terminal"):
            beyond(shuffled, shares, "terminal")
        return
    for kind, share in shares.items():
        assert largest(kept(rows, lost), kind) <= share + 1e-9
    again = beyond(shuffled, shares, "terminal")
    assert {kind: sorted(dropped["row"]) for kind, dropped in lost.items()} == {
        kind: sorted(dropped["row"]) for kind, dropped in again.items()
    }


def test_what_has_no_value_neither_counts_nor_goes():
    rows = records([(0, 0, [(1, 0)] * 4), (0, 0, [(2, 0), (0, 0), (0, 0)])])
    lost = beyond(rows, {"place": 0.5, "command_head": 0.1}, "terminal")
    assert len(lost["place"]) == 3
    assert len(lost["command_head"]) == 0


def test_too_few_values_are_told_with_how_many_are_needed():
    with pytest.raises(ConfigError, match=r"max_share\.task"):
        beyond(records([(1, 0, [(1, 1)]), (2, 0, [(1, 1)])]), {"task": 0.3}, "web")
