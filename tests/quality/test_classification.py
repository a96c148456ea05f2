import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.quality.classification import at_threshold, average_precision, evaluation, roc_auc

SCORES = np.array([0.9, 0.8, 0.7, 0.6, 0.2])
GOOD = np.array([True, False, True, True, False])


def test_a_threshold_counts_what_a_rule_would_keep():
    found = at_threshold(SCORES, GOOD, 0.7)
    assert (found["true_good"], found["false_good"], found["false_bad"], found["true_bad"]) == (2, 1, 1, 1)
    assert (found["precision"], found["recall"], found["kept"]) == (0.6667, 0.6667, 0.6)
    assert at_threshold(SCORES, GOOD, 0.95)["precision"] == 1.0


def test_areas_are_those_worked_out_by_hand():
    assert roc_auc(SCORES, GOOD) == pytest.approx(4 / 6)
    assert average_precision(SCORES, GOOD) == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert roc_auc(np.zeros(5), GOOD) == 0.5
    assert average_precision(np.zeros(5), GOOD) == pytest.approx(0.6)
    assert roc_auc(SCORES, np.zeros(5, bool)) == 0.5


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=20))
def test_the_area_is_the_chance_that_a_good_row_scores_above_a_bad_one(pairs):
    scores, good = np.array([s / 5 for s, _ in pairs]), np.array([g for _, g in pairs], bool)
    wins = [(a > b) + (a == b) / 2 for a in scores[good] for b in scores[~good]]
    assert roc_auc(scores, good) == pytest.approx(np.mean(wins) if wins else 0.5)


def test_the_order_of_rows_decides_nothing():
    assert evaluation(SCORES, GOOD) == evaluation(SCORES[::-1], GOOD[::-1])
