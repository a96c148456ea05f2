"""Signals of wording: a language model, predictability and diversity."""

import json
import random
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.make import batch_of, call, trajectory
from trajmill.pipelines.recipe.recipe_file import load_recipe, parse_recipe
from trajmill.quality.diversity import diversity
from trajmill.quality.fingerprint import trajectory_starts
from trajmill.quality.lookback import HISTORY
from trajmill.quality.registry import signal
from trajmill.quality.signal import Measured
from trajmill.quality.signals.predictability import ANSWER, compress_share
from trajmill.quality.tokens import TokenCounter
from trajmill.quality.variety import OF_TRAJECTORIES, kinds_of, plain
from trajmill.schemas import DOMAINS, Action, Environment, Observation, Step, Task, Trajectory

SENTENCES = json.loads((ROOT / "benchmarks" / "languages.json").read_text("utf-8"))


RECIPE = """
name: languages
source: made
extends: all
judge:
  signals: {language: {languages: [en, zh]}}
  rules: {other_language: {signal: language, min: 0.3}}
"""


def kept(text: str) -> bool:
    judge = parse_recipe(RECIPE, "languages").judge
    rule = judge.rules["other_language"]
    (value,) = set(judge.made(rule.signal).measure(Measured.of(batch_of(trajectory(text)), TokenCounter())).tolist())
    return value >= rule.min


@pytest.mark.parametrize("language", sorted(SENTENCES))
def test_prose_stays_in_the_languages_of_the_recipe_and_goes_in_any_other(language):
    assert kept("\n".join(SENTENCES[language])) == (language in ("en", "zh"))


@pytest.mark.parametrize("text", ["total 2\ndrwxr-xr-x 2 root", "x = {1: 2}", '#1 button "Weiter"', ""])
def test_what_is_no_prose_stays(text):
    assert kept(text)


@pytest.mark.parametrize(
    "text", ["translate it all to french", "Handle files in different git repos", "option to set model to gpt"]
)
def test_a_line_of_english_that_is_too_short_to_tell_a_language_stays(text):
    assert kept(text)


def test_two_lines_of_another_language_are_enough_to_go():
    assert not kept("\n".join(SENTENCES["fr"][:2]))


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_built_in_recipe_leaves_a_language_out(domain):
    assert "language" not in load_recipe(domain).judge.measured()


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
    secret, decoy = noise(), noise()
    rows = [(None, secret), (None, decoy), (None, secret)]
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
    assert compress_share(secret, secret + filler[: HISTORY - len(secret)]) < 0.02
    assert compress_share(secret, secret + filler) > 0.6
    assert compress_share(filler[:8] * (ANSWER // 8) + secret, b"") < 0.01


def test_a_short_answer_is_not_charged_for_the_frame():
    assert compress_share(b"ok", b"") == pytest.approx(1)
    assert compress_share(b"a" * 100, b"") < 0.1


def test_equally_common_kinds_count_in_full_and_rare_ones_hardly():
    even = diversity({"a": 5, "b": 5, "c": 5, "d": 0})
    assert (even.kinds, even.largest) == (3, 1 / 3)
    assert even.effective == pytest.approx(3)
    assert even.dominant == pytest.approx(3)
    skewed = diversity({"a": 90, "b": 10})
    assert skewed.effective == pytest.approx(1.3842, abs=1e-4)
    assert skewed.dominant == pytest.approx(1 / 0.82)
    assert diversity({}).kinds == 0


@given(st.dictionaries(st.text(max_size=2), st.integers(1, 50), min_size=1))
def test_numbers_fall_with_the_order(counts):
    numbers = diversity(counts)
    assert numbers.kinds + 1e-9 >= numbers.effective >= numbers.dominant - 1e-9
    assert 1 / numbers.largest**2 + 1e-9 >= numbers.dominant >= 1 / numbers.largest - 1e-9


def test_things_are_counted_a_trajectory_or_a_transition():
    actions = [
        call("bash", cmd="cd /x && A=1 git status"),
        Action("shell", "bash -lc 'ls -l'"),
        call("edit", path="a.txt"),
    ]
    uris = ["https://example.org/a?b", "com.app/.Main", None]
    steps = [
        Step(action, None, Observation("x", uri=uri), turn, 0)
        for turn, (action, uri) in enumerate(zip(actions, uris, strict=True))
    ]
    trajectories = [
        Trajectory(f"t{n}", "swe", steps, environment=Environment(id="e"), task=Task(None if n else "7", "do it"))
        for n in range(2)
    ]
    batch = batch_of(*trajectories)
    begins = pa.array(trajectory_starts(batch))
    kinds = {kind: plain(texts) for kind, texts in kinds_of(Measured.of(batch, TokenCounter())).items()}
    kinds |= {kind: texts.take(begins) for kind, texts in kinds.items() if kind in OF_TRAJECTORIES}
    kinds = {kind: Counter(texts.drop_null().to_pylist()) for kind, texts in kinds.items()}
    assert kinds["task"] == {"7": 1, "do it": 1}
    assert kinds["environment"] == {"e": 2}
    assert kinds["place"] == {"example.org": 2, "com.app": 2}
    assert kinds["action"] == {"bash": 2, "shell": 2, "edit": 2}
    assert kinds["command_head"] == {"git": 2, "ls": 2}
