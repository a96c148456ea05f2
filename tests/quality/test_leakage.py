import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, call
from trajmill.quality.registry import signal
from trajmill.quality.sets import Sets, common_bits
from trajmill.quality.signal import Measured
from trajmill.quality.signals.leaks import WORDS, shared_shares
from trajmill.quality.texts import Texts
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Action, Context, Observation, Step, Task, Trajectory, call_text, json_text

NINE = "one two three four five six seven eight nine"
OTHER = "red orange yellow green blue indigo violet black white"


def measure(name, steps, **more):
    batch = batch_of(Trajectory("t", "terminal", steps, **more))
    return [round(n, 6) for n in signal(name).measure(Measured.of(batch, TokenCounter())).tolist()]


def step(after, before=None, action=None, form="stream"):
    seen = [Observation(text, form=form) if text is not None else None for text in (before, after)]
    return Step(action or call(), seen[0], seen[1], 0, 0)


def plain(text):
    words = re.findall(r"\w+", text or "")
    return {tuple(words[at : at + WORDS]) for at in range(len(words) - WORDS + 1)}


LONG = st.lists(st.sampled_from("ab"), max_size=16).map(" ".join)


@given(st.lists(st.tuples(*[st.none() | LONG] * 3), max_size=5))
def test_shares_are_those_of_sets_of_runs(rows):
    columns = [Texts.of(pa.array([row[side] for row in rows], pa.string()).dictionary_encode()) for side in range(3)]
    shares = shared_shares(columns[0], [columns[1]], [columns[2]])
    for number, (part, whole, apart) in enumerate(rows):
        own = plain(part) - plain(apart)
        assert shares[number] == pytest.approx(len(own & plain(whole)) / len(own) if own else 0)


def test_sets_hold_each_member_once_and_know_their_texts():
    sets = Sets.of(np.array([5, 5, 7, 5], np.uint64) << np.uint64(60), np.array([0, 3, 3, 4]), common_bits(3))
    assert sets.sizes.tolist() == [2, 0, 1]
    positions, hits = sets.within(np.array([0, 0, 2]), sets, np.array([2, -1, 0]))
    assert positions.tolist() == [0, 0, 1, 1, 2]
    assert hits.tolist() == [True, False, False, False, True]


@pytest.mark.parametrize("place", ["instruction", "initial_state", "demonstrations", "simulation_instruction"])
def test_an_answer_that_the_prompt_gives_is_a_leak(place):
    text = f"the file says: {NINE}."
    known = {"task": Task(None, text)} if place == "instruction" else {"context": Context(**{place: text})}
    assert measure("context_leak", [step(NINE)], **known) == [1]
    assert measure("context_leak", [step(OTHER)], **known) == [0]
    assert measure("context_leak", [step(f"{NINE} {OTHER}")], **known) == [round(2 / 11, 6)]
    assert measure("context_leak", [step(NINE)]) == [0]


def test_what_stood_on_the_screen_before_is_no_leak():
    known = {"context": Context(initial_state=NINE)}
    assert measure("context_leak", [step(f"{NINE}\n{OTHER}", NINE, form="screen")], **known) == [0]
    assert measure("context_leak", [step(NINE, NINE)], **known) == [0]


def thinking(reasoning, **arguments):
    return Action("run", call_text("run", arguments), json_text(arguments), reasoning=reasoning)


def test_reasoning_that_the_observation_holds_is_a_leak():
    assert measure("reasoning_leak", [step(f"$ {NINE}", action=thinking(NINE))]) == [1]
    assert measure("reasoning_leak", [step(OTHER, action=thinking(NINE))]) == [0]
    assert measure("reasoning_leak", [step(NINE, action=thinking(None))]) == [0]
    assert measure("reasoning_leak", [step(NINE, action=thinking("seven eight nine"))]) == [0]


def test_what_the_agent_read_or_wrote_may_be_shown_again():
    assert measure("reasoning_leak", [step(NINE, before=NINE, action=thinking(NINE))]) == [0]
    written = NINE.replace(" ", "\n")
    assert measure("reasoning_leak", [step(NINE, action=thinking(NINE, content=written))]) == [0]
