"""Near duplicates: rollouts that only begin alike stay, copies go, and no order or chain changes who."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from tests.make import batch_of, steps_of
from trajmill.quality.fingerprint import trajectory_starts
from trajmill.quality.near import (
    BEST,
    MEMBER,
    PAIR,
    STEP,
    Bands,
    background_steps,
    candidates,
    decisive,
    members,
    rollouts,
    second_looks,
    signatures,
    step_kinds,
)
from trajmill.quality.settings import FEW
from trajmill.quality.sketch import SIZE, Sketches, absent_shares, make_sketches, portions
from trajmill.schemas import Observation, Trajectory

VOCABULARY = [f"word{number}" for number in range(5000)]


def said(random_: random.Random, words: int) -> str:
    return " ".join(random_.choices(VOCABULARY, k=words))


def edited(random_: random.Random, text: str) -> str:
    """The text with one word changed."""
    words = text.split()
    words[random_.randrange(len(words))] = "changed"
    return " ".join(words)


def sketches_of(*logs: list[str], form: str = "stream", dialect: str | None = None) -> Sketches:
    trajectories = []
    for number, texts in enumerate(logs):
        seen = [None, *(Observation(text, form=form, dialect=dialect) for text in texts)]
        steps = [
            replace(step, observation=before, next_observation=after)
            for step, (before, after) in zip(steps_of(*texts), pairwise(seen), strict=True)
        ]
        trajectories.append(Trajectory(str(number), "terminal", steps))
    batch = batch_of(*trajectories)
    sketched = make_sketches(batch)
    return Sketches.of([sketched], trajectory_starts(batch), sketched.nbytes)


def background_of(sketches: Sketches, tasks: list[int]) -> npt.NDArray[np.bool_]:
    task = np.repeat(np.array(tasks, np.uint64), sketches.lengths)
    steps = np.zeros(len(sketches.step), STEP)
    steps["kind"] = step_kinds(task, sketches.step)
    steps["content"] = np.repeat(sketches.sequence(), sketches.lengths)
    steps["rollouts"] = rollouts(task, steps["content"])
    return background_steps(steps, 3, 0.2)


def goers(sketches: Sketches, tasks: list[int], max_absent: float = 0.2) -> list[int]:
    """The numbers of the trajectories that go, by the whole scheme within one unit."""
    background = background_of(sketches, tasks)
    count = len(sketches.starts)
    who = np.zeros(count, MEMBER)
    who["tie"], who["row"] = np.arange(count), sketches.starts
    pairs = candidates(members(sketches, np.arange(count), background, Bands(), who))
    number = np.searchsorted(sketches.starts, pairs["row"])
    rival = np.searchsorted(sketches.starts, pairs["other_row"])
    absent, size = absent_shares(sketches, number, background, sketches, rival)
    sequence = sketches.sequence()
    pairs["absent"] = np.where(sequence[number] == sequence[rival], 0, np.where(size < FEW, 1, absent))
    gone = pairs[decisive(pairs, np.flatnonzero(pairs["absent"] < max_absent))]
    return sorted(np.searchsorted(sketches.starts, gone["row"]).tolist())


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.8, 0.9])
def test_rollouts_that_share_a_prefix_stay_and_their_copies_go(shared: float):
    random_ = random.Random(7)
    logs, tasks, copies = [], [], []
    for task in range(4):
        prefix = [said(random_, 60) for _ in range(round(20 * shared))]
        tails = [[said(random_, 60) for _ in range(20 - len(prefix))] for _ in range(10)]
        logs += [prefix + tail for tail in tails]
        copies += [len(logs), len(logs) + 1]
        logs += [prefix + [edited(random_, text) for text in tail] for tail in tails[:2]]
        tasks += [task] * 12
    assert goers(sketches_of(*logs), tasks) == copies


def test_a_log_that_goes_on_where_another_was_cut_stays():
    random_ = random.Random(1)
    texts = [said(random_, 60) for _ in range(8)]
    assert goers(sketches_of(texts, texts[:4] + [said(random_, 60) for _ in range(4)]), [1, 2]) == []


def test_short_logs_go_only_if_every_step_is_equal():
    assert goers(sketches_of(["total 0", "done"], ["total 0", "done"], ["total 0", "gone"]), [1, 2, 3]) == [1]


@pytest.mark.parametrize(("form", "dialect"), [("screen", None), ("response", "http+uitree/1")])
def test_screens_that_share_a_layout_are_told_apart_by_their_new_lines(form: str, dialect: str | None):
    random_ = random.Random(3)
    frame = [f'#{number} group clickable [0,{number}][9,{number}] "{said(random_, 4)}"' for number in range(90)]

    def visit(word: str) -> list[str]:
        return ["\n".join(frame)] + ["\n".join([*frame, f'#91 text "{word} {row}"']) for row in range(40)]

    stay = sketches_of(visit("wifi"), visit("battery"), form=form, dialect=dialect)
    assert absent_shares(stay, np.array([1]), np.zeros(len(stay.step), bool), stay, np.array([0]))[0][0] > 0.3
    equal = sketches_of(visit("wifi"), visit("wifi"), form=form, dialect=dialect)
    assert absent_shares(equal, np.array([1]), np.zeros(len(equal.step), bool), equal, np.array([0]))[0][0] == 0


TASKS = [f'{{"id": {number}, "text": "a thing to do on day {number}", "done": false}}' for number in range(9)]


def sent(*items: str) -> str:
    return "HTTP 200 OK\ncontent-type: application/json\n\n[" + ", ".join(items) + "]"


def absent_of(sketches: Sketches, left: int, right: int) -> float:
    none = np.zeros(len(sketches.step), bool)
    return float(absent_shares(sketches, np.array([left]), none, sketches, np.array([right]))[0][0])


def test_one_item_changed_in_a_list_that_is_sent_whole_is_a_step_of_its_own():
    done = [TASKS[0], TASKS[1].replace("false", "true"), *TASKS[2:]]
    logs = [sent(*TASKS), sent(*done)], [sent(*TASKS), sent(*TASKS[:-1])], [sent(*TASKS), sent(*TASKS, TASKS[1])]
    sketches = sketches_of(*logs, *logs)
    for left in range(3):
        for right in range(3):
            assert absent_of(sketches, left, right) == (0 if left == right else 0.5)
        assert absent_of(sketches, left, left + 3) == 0


def test_a_list_that_is_sent_again_as_it_was_says_nothing_and_another_document_says_all():
    random_ = random.Random(4)
    first, second, third = (sent(f'"{said(random_, 40)}"') for _ in range(3))
    sketches = sketches_of([first, first], [first, second], [first, third], [first, second.replace("word1", "word2")])
    count = np.diff(sketches.offsets)[1::2] - np.diff(sketches.offsets)[0::2]
    assert count[0] < 0
    assert count[1] == count[2] == 0
    assert absent_of(sketches, 2, 1) > 0.4
    assert absent_of(sketches, 3, 1) < 0.5


def test_a_step_is_background_from_three_rollouts_and_a_fifth_on_and_equal_rollouts_count_once():
    steps = np.zeros(13, STEP)
    steps["content"] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 3, 3]
    steps["rollouts"] = rollouts(np.full(13, 5, np.uint64), steps["content"])
    assert set(steps["rollouts"]) == {11}
    steps["kind"] = [1, 1, 1, 2, 2, 6, 7, 8, 9, 9, 9, 2, 9]
    flags = background_steps(steps, 3, 0.2)
    assert {int(step) for step in steps["kind"][flags]} == {1, 2, 9}
    steps["content"][11:] = [5, 9]
    assert {int(step) for step in steps["kind"][background_steps(steps, 3, 0.2)]} == {1, 9}
    assert not background_steps(steps, 3, 0.5).any()


def test_a_chain_of_alike_logs_loses_only_those_that_a_kept_one_is_like():
    pairs = np.zeros(3, PAIR)
    pairs["tie"], pairs["row"] = [2, 3, 4], [2, 3, 4]
    pairs["other_tie"], pairs["other_row"] = [1, 2, 3], [1, 2, 3]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        shuffled = pairs[order]
        gone = shuffled[decisive(shuffled, np.arange(3))]
        assert sorted(zip(gone["row"].tolist(), gone["other_row"].tolist(), strict=True)) == [(2, 1), (4, 3)]


def test_one_whose_better_neighbour_goes_is_compared_with_the_one_that_this_goes_for():
    pairs = np.zeros(3, PAIR)
    pairs["tie"], pairs["row"], pairs["unit"] = [20, 30, 40], [2, 3, 4], [0, 1, 0]
    pairs["other_tie"], pairs["other_row"], pairs["other_unit"] = [10, 20, 10], [1, 2, 1], [5, 0, 5]
    looks = second_looks(pairs)
    assert [(row["unit"], row["row"], row["other_unit"], row["other_row"]) for row in looks] == [(1, 3, 5, 1)]
    assert (looks["tie"].tolist(), looks["other_tie"].tolist()) == ([30], [10])
    assert len(second_looks(pairs[:1])) == len(second_looks(pairs[:0])) == 0


def test_two_that_a_third_is_like_which_goes_are_compared():
    pairs = np.zeros(2, PAIR)
    pairs["tie"], pairs["row"], pairs["other_tie"], pairs["other_row"] = 3, 3, [1, 2], [1, 2]
    looks = second_looks(pairs)
    assert [(row["row"], row["tie"], row["other_row"], row["other_tie"]) for row in looks] == [(2, 2, 1, 1)]


def test_two_copies_that_meet_only_their_original_leave_one():
    pairs = np.zeros(2, PAIR)
    pairs["tie"], pairs["row"], pairs["other_tie"], pairs["other_row"] = [2, 3], [2, 3], [1, 2], [1, 2]
    pairs = np.concatenate([pairs, second_looks(pairs)])
    gone = pairs[decisive(pairs, np.arange(len(pairs)))]
    assert gone["row"].tolist() == [2, 3]
    assert gone["other_row"].tolist() == [1, 1]


def test_portions_hold_all_in_order_and_one_that_is_too_large_alone():
    sizes = np.array([1 << 17, 1 << 17, 1, 1 << 20, 0, 5])
    assert [(portion.start, portion.stop) for portion in portions(sizes)] == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert list(portions(sizes[:0])) == []


def test_a_bucket_compares_only_with_its_best_whatever_the_order():
    bucket = np.zeros(30, MEMBER)
    bucket["band"], bucket["tie"], bucket["row"] = 9, np.arange(30), np.arange(30)
    bucket["rank"] = np.arange(30)[::-1]
    pairs = candidates(bucket)
    assert set(pairs["other_row"].tolist()) == set(range(30 - BEST, 30))
    assert len(pairs) == BEST * 30 - BEST * (BEST + 1) // 2
    assert pairs.tobytes() == candidates(bucket[::-1]).tobytes()


def test_a_log_that_repeats_few_shingles_is_compared_by_its_steps():
    random_ = random.Random(6)
    sketches = sketches_of([" ".join([said(random_, 8)] * 90)], [said(random_, 90)])
    who = np.zeros(2, MEMBER)
    who["row"] = sketches.starts
    buckets_of = members(sketches, np.arange(2), np.zeros(len(sketches.step), bool), Bands(), who)
    assert np.unique(buckets_of["row"], return_counts=True)[1].tolist() == [1, Bands().bands]


def test_similarity_of_signatures_is_that_of_the_sets():
    random_ = np.random.default_rng(5)
    bins = 2048
    for share in (0.2, 0.9):
        common = random_.integers(0, 1 << 32, 400, np.uint32)
        rest = [random_.integers(0, 1 << 32, round(400 * (1 - share) / share / 2), np.uint32) for _ in range(2)]
        sets = [np.unique(np.concatenate([common, more])) for more in rest]
        owner = np.repeat([0, 1], [len(values) for values in sets])
        sketch = signatures(owner, np.concatenate(sets), 2, bins)
        order = random_.permutation(np.tile(np.arange(len(owner)), 2))
        assert np.array_equal(signatures(owner[order], np.concatenate(sets)[order], 2, bins), sketch)
        first, second = sets
        expected = len(np.intersect1d(first, second)) / len(np.union1d(first, second))
        assert abs(float((sketch[0] == sketch[1]).mean()) - expected) < 0.08


def test_a_long_log_keeps_a_bounded_sample_that_still_tells():
    random_ = random.Random(4)
    texts = [said(random_, 2000) for _ in range(6)]
    others = [said(random_, 2000) for _ in range(6)]
    half = [*texts[:3], *others[:3]]
    sketches = sketches_of(texts, half, others)
    sizes = [len(sketches.whole(np.array([number]))[1]) for number in range(3)]
    assert all(size <= SIZE for size in sizes)
    none = np.zeros(len(sketches.step), bool)
    shares, size = absent_shares(sketches, np.array([1, 2]), none, sketches, np.array([0, 0]))
    assert shares[0] == pytest.approx(0.5, abs=0.05)
    assert shares[1] > 0.95
    assert size == pytest.approx(12000, rel=0.1)
