"""What rows are compared by: their hashes and words hang on the trajectory, and not on batches."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from tests.make import batch_of, steps_of, trajectory
from trajmill.quality.lookback import Reaching
from trajmill.quality.texts import Texts
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Environment, Observation, Task
from trajmill.worlds.drift.drift import paired
from trajmill.worlds.drift.rows import REFUSAL, _Measuring

TASK = Task(None, "Keep the shelf in order.")
WORLD = Environment(kind="model", world_model="m@1", sampling="{}")


def measured(batch, *cuts):
    """The rows of a batch that is cut at some rows."""
    reaching, measuring, found = Reaching(TokenCounter()), _Measuring(0), []
    ends = [0, *cuts, batch.num_rows]
    for begin, end in pairwise(ends):
        found += [measuring.measured(view) for view in reaching.add(batch.slice(begin, end - begin))]
    return pl.concat([*found, *(measuring.measured(view) for view in reaching.rest())])


def test_rows_are_the_same_wherever_batches_end():
    logs = [
        trajectory(*(f"answer {number} of {log}\nline" for number in range(9)), native_id=f"{log}", task=TASK)
        for log in range(3)
    ]
    batch = batch_of(*logs)
    whole = measured(batch)
    for cuts in ((4,), (9,), (2, 5, 8, 13, 20), tuple(range(1, 27))):
        assert measured(batch, *cuts).equals(whole)


def test_what_was_said_before_is_no_new_word_and_other_trajectories_do_not_count():
    rows = measured(batch_of(trajectory("red fish", "red bird", "do number", native_id="a"), trajectory("red fish")))
    assert rows["novelty"].to_list() == [1, 0.5, 0, 1]


def test_a_prediction_beside_a_real_history_pairs_with_the_row_of_that_history():
    real = batch_of(trajectory("one", "two", "three", task=TASK))
    steps = steps_of("one", "two", "three")
    predicted = [replace(step, next_observation=Observation(f"guess {step.turn}")) for step in steps]
    sim = batch_of(replace(trajectory(task=TASK, environment=WORLD), steps=predicted))
    assert len(paired(measured(real), measured(sim)).exact) == 3
    shown = [None, *(one.next_observation for one in predicted[:-1])]
    rollout = [replace(step, observation=before) for step, before in zip(predicted, shown, strict=True)]
    sim = batch_of(replace(trajectory(task=TASK, environment=WORLD), steps=rollout))
    made = paired(measured(real), measured(sim))
    assert made.exact["turn"].to_list() == [0]


@pytest.mark.parametrize(
    ("task", "pairs"), [(TASK, 2), (Task("7", None), 0), (Task(None, "Something else."), 0), (Task(), 0)]
)
def test_rows_of_another_task_or_of_none_are_no_pair(task, pairs):
    real, sim = batch_of(trajectory(task=TASK)), batch_of(trajectory(task=task, environment=WORLD))
    assert len(paired(measured(real), measured(sim)).exact) == pairs


def test_near_is_what_stood_before_or_a_history_that_is_alike_and_nothing_else():
    words = [" ".join(f"word{number * 40 + place}" for place in range(40)) for number in range(6)]
    real = measured(batch_of(trajectory(*words, task=TASK)))
    other = [words[0].replace("word7 ", "other "), *words[1:]]
    made = paired(real, measured(batch_of(trajectory(*other, task=TASK, environment=WORLD))))
    assert (len(made.exact), len(made.near), made.alone) == (1, 5, 0)
    assert (made.near["alike"] >= 0.5).all()
    strange = [" ".join(f"strange{number * 40 + place}" for place in range(40)) for number in range(6)]
    made = paired(real, measured(batch_of(trajectory(*strange, task=TASK, environment=WORLD))))
    assert (len(made.exact), len(made.near), made.alone) == (1, 0, 5)


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("I cannot run commands.", True),
        ("As an AI language model, I have no shell.", True),
        ("sorry.txt\nnotes.txt", False),
        ("ls: cannot access 'x': No such file or directory", False),
        ("I can't find it", True),
        ("total 0", False),
    ],
)
def test_refusals_are_told_by_how_they_begin(text, refuses):
    shown = Texts.of(batch_of(trajectory(text, "x"))["next_observation"].field("content"))
    assert shown.matching(REFUSAL).tolist() == [refuses, False]


def test_no_sketch_of_a_history_is_that_of_another():
    rows = measured(batch_of(trajectory("a b c d e f", "g h i j k l", "m", task=TASK)))
    mins = rows.select(pl.col(r"^min\d$")).to_numpy()
    assert (mins[0] == np.uint32(0xFFFFFFFF)).all()
    assert (mins[1] >= mins[2]).all()
    assert (mins[1] != mins[2]).any()
