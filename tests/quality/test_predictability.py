import random

import pytest

from tests.make import batch_of, call
from trajmill.quality.lookback import HISTORY
from trajmill.quality.registry import signal
from trajmill.quality.signal import Measured
from trajmill.quality.signals.predictability import ANSWER, compressed_share
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Observation, Step, Trajectory

RANDOM = random.Random(3)


def noise(size=2_000):
    return "".join(RANDOM.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=size))


def measure(name, *pairs, copies=1):
    steps = []
    for number, (before, after) in enumerate(pairs):
        seen = [Observation(text) if text is not None else None for text in (before, after)]
        steps.append(Step(call(), seen[0], seen[1], number, 0))
    batch = batch_of(*[Trajectory(f"t{copy}", "terminal", steps) for copy in range(copies)])
    return signal(name).measure(Measured.of(batch, TokenCounter())).tolist()


def test_an_answer_that_was_shown_before_is_predictable_from_the_history_alone():
    secret, other = noise(), noise()
    rows = [(None, secret), (None, other), (None, secret)]
    first, second, third = measure("history_predictability", *rows)
    assert min(first, second) > 0.6
    assert third < 0.02
    assert min(measure("step_predictability", *rows)) > 0.6


def test_an_answer_that_repeats_the_observation_is_predictable_from_the_step():
    secret = noise()
    assert measure("step_predictability", (secret, secret))[0] < 0.02
    assert measure("history_predictability", (secret, secret))[0] < 0.02


def test_a_trajectory_does_not_know_the_one_before():
    first, second = measure("history_predictability", (None, noise()), copies=2)
    assert first == second > 0.6


@pytest.mark.parametrize("name", ["history_predictability", "step_predictability"])
def test_what_is_not_there_or_empty_costs_nothing(name):
    assert measure(name, (None, None), (None, "")) == [0, 0]


def test_only_the_latest_history_and_the_beginning_of_the_answer_count():
    secret = noise().encode()
    filler = noise(HISTORY).encode()
    assert compressed_share(secret, secret + filler[: HISTORY - len(secret)]) < 0.02
    assert compressed_share(secret, secret + filler) > 0.6
    assert compressed_share(filler[:8] * (ANSWER // 8) + secret, b"") < 0.01


def test_a_short_answer_is_not_charged_for_the_frame():
    assert compressed_share(b"ok", b"") == pytest.approx(1)
    assert compressed_share(b"a" * 100, b"") < 0.1
