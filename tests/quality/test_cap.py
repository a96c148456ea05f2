import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.quality.cap import BINS, COUNT, beyond_own, bins, count_by_bin, limits
from trajmill.quality.hash_sampling import chances
from trajmill.quality.rule import Rule, apply_rules


def ids(count):
    return pa.array([f"{number:032x}" for number in range(count)])


def kept(rule, places, caps):
    """Of each capped rule how many rows keep their loss."""
    bounds = limits([count_by_bin(rule, places).tobytes()], caps)
    return [int((places[rule == number] < bounds[number]).sum()) for number in range(len(caps))]


def rules_of(*numbers):
    return np.repeat(np.arange(-1, len(numbers) - 1), numbers).astype(np.int16)


def drawn(rule):
    return bins(chances(ids(len(rule)), np.zeros(len(rule), np.int32), "cap"))


def test_what_fits_under_the_cap_all_keeps_its_loss():
    rule = rules_of(90, 10)
    assert kept(rule, drawn(rule), [0.1]) == [10]


def test_what_is_over_the_cap_keeps_its_share_of_the_targets_that_are_left():
    rule = rules_of(9_000, 5_000)
    assert 990 <= kept(rule, drawn(rule), [0.1])[0] <= 1_000


def test_two_caps_are_both_kept_of_what_is_left():
    rule = rules_of(7_000, 5_000, 9_000)
    first, second = kept(rule, drawn(rule), [0.1, 0.2])
    assert 985 <= first <= 1_000
    assert 1_985 <= second <= 2_000


def test_where_every_target_is_capped_none_is_left():
    rule = rules_of(0, 50)
    assert kept(rule, drawn(rule), [0.3]) == [0]


@given(
    st.lists(st.integers(0, 60), min_size=2, max_size=4),
    st.lists(st.one_of(st.none(), st.floats(0, 0.3)), min_size=3, max_size=3),
)
def test_no_cap_is_passed_and_none_is_missed_by_a_whole_bin(numbers, caps):
    caps = caps[: len(numbers) - 1]
    rule = rules_of(*numbers)
    places = drawn(rule)
    left = kept(rule, places, caps)
    total = numbers[0] + sum(left)
    bounds = limits([count_by_bin(rule, places).tobytes()], caps)
    for number, cap in enumerate(caps):
        if cap is None:
            assert left[number] == numbers[number + 1]
        elif left[number] < numbers[number + 1]:
            assert left[number] <= cap * total + len(caps)  # other caps round down as well
            next_bin = int((places[rule == number] == bounds[number]).sum())
            assert left[number] + next_bin > cap * total - 1e-6


def test_limits_do_not_depend_on_how_the_counts_were_cut():
    rule = rules_of(100, 80)
    places = drawn(rule)
    whole = limits([count_by_bin(rule, places).tobytes()], [0.2])
    parts = [count_by_bin(rule[chosen], places[chosen]).tobytes() for chosen in (np.s_[::2], np.s_[1::2])]
    assert limits(reversed(parts), [0.2]).tolist() == whole.tolist()
    assert limits([], [0.2]).tolist() == [BINS]
    assert COUNT.itemsize == 16


def test_chances_are_even_differ_by_purpose_and_do_not_depend_on_the_batch():
    step = np.arange(4_000, dtype=np.int32) % 7
    caps, masks = chances(ids(4_000), step, "cap"), chances(ids(4_000), step, "mask")
    assert abs((caps < np.uint64(1 << 63)).mean() - 0.5) < 0.04
    assert abs(((caps < np.uint64(1 << 63)) == (masks < np.uint64(1 << 63))).mean() - 0.5) < 0.04
    assert chances(ids(4_000)[100:101], step[100:101], "cap") == caps[100]
    encoded = ids(4_000).dictionary_encode()
    assert (chances(encoded, step, "cap") == caps).all()
    assert len(np.unique(chances(pa.array(["a"] * 50), np.arange(50, dtype=np.int32), "cap"))) == 50


@pytest.mark.parametrize("order", [1, -1])
def test_a_rule_without_a_cap_speaks_before_one_that_has_one(order):
    rules = [Rule("capped", "s", "transition", most=0, cap=0.1), Rule("hard", "t", "transition", most=0)][::order]
    numbers = {"s": np.array([1, 1, 0], np.float32), "t": np.array([1, 0, 0], np.float32)}
    decision = apply_rules(rules, numbers, 3)
    hard, soft = (decision.names.index(name) for name in ("hard", "capped"))
    assert decision.transition.tolist() == [hard, -1, -1]
    assert decision.capped.tolist() == [soft, soft, -1]


@pytest.mark.parametrize(
    ("breaks", "targets", "lost"),
    [
        # A trajectory without other targets keeps none; with four others it keeps the one of the least hash.
        ("xxx", "ttt", "xxx"),
        ("....xxx", "ttttttt", ".....xx"),
        ("...xx", "ttttt", "...xx"),
        # What is no target takes no place of one that is.
        ("....xx", "tttt.t", "....x."),
        ("....xx", ".ttttt", "....xx"),
        ("", "", ""),
    ],
)
def test_a_trajectory_keeps_a_share_of_its_own_targets(breaks, targets, lost):
    chance = np.arange(len(breaks)).astype(np.uint64)
    for before in (0, 2):  # The trajectory before it, of other targets alone, lends none.
        marks = beyond_own(
            np.array([False] * before + [mark == "x" for mark in breaks]),
            np.array([True] * before + [mark == "t" for mark in targets]),
            np.array([0, before] if before and breaks else [0][: before + len(breaks)]),
            np.concatenate([np.zeros(before, np.uint64), chance]),
            0.2,
        )
        assert marks[before:].tolist() == [mark == "x" for mark in lost]
        assert not marks[:before].any()
