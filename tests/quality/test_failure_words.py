"""Texts without a failure word are not searched for failures, so what the patterns match must hold one."""

from random import Random

import pyarrow as pa
import pytest

from tests.quality.forms import drawn
from trajmill.quality.failure_words import WORDS
from trajmill.quality.signals.environment_failure import PATTERNS
from trajmill.quality.signals.error_observation import PATTERN
from trajmill.quality.signals.unsettled import LOADING
from trajmill.quality.texts import Texts

SOUGHT = [*dict.fromkeys(pattern for both in PATTERNS.values() for pattern in both if pattern), PATTERN, LOADING]


@pytest.mark.parametrize("pattern", SOUGHT, ids=range(len(SOUGHT)))
def test_what_a_pattern_matches_holds_a_failure_word(pattern):
    random = Random(pattern)
    form = pattern.replace("’", "").encode()
    texts = Texts.of(pa.array([drawn(form, random, 3).decode() for _ in range(1000)]))
    matched = texts.matching(pattern)
    assert matched.mean() > 0.5
    assert (~texts.lower().matching(WORDS) & matched).sum() == 0


def test_a_letter_that_folds_to_one_of_ascii_is_as_good():
    texts = Texts.of(pa.array(["Pleaſe wait…", "PLEASE WAIT…", "Tea at six"]))
    assert texts.matching(LOADING).tolist() == texts.lower().matching(WORDS).tolist() == [True, True, False]
