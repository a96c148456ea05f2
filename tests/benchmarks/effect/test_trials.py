from dataclasses import replace

import numpy as np

from benchmarks.effect.arms import EVERYTHING, RAW, Arm
from benchmarks.effect.documents import Document
from benchmarks.effect.measurement import compared
from benchmarks.effect.trials import CURATED, LOGGED, Counting, Domain, first_tokens, trial


def document(number, length=60):
    """A document in a group that two share."""
    random = np.random.default_rng(number)
    kinds = (np.arange(length) % 3 > 0).astype(np.int8)
    tokens = random.integers(0, 20, length)
    return Document(f"0:{number}", f"{number // 2:016x}", tokens, kinds, kinds.astype(np.int64) * 4, kinds > 0)


def domain(most=100_000):
    documents = [document(number) for number in range(40)]
    return Domain("web", {RAW: documents, EVERYTHING: documents[::2]}, 20, most, 4)


def test_each_group_is_held_out_once_and_never_learnt_there():
    one = domain()
    held = []
    for fold in range(one.folds):
        asked = {document.group for document in one.held(LOGGED, 3, fold)}
        assert asked.isdisjoint(document.group for arm in one.arms for document in one.learnt(arm, 3, fold))
        held += sorted(asked)
    assert sorted(held) == sorted({document.group for document in one.arms[RAW]})


def test_arms_learn_equally_many_tokens_no_document_twice():
    one = domain()
    for fold in range(one.folds):
        budget = one.budget(0, fold)
        for arm in one.arms:
            learnt = first_tokens(one.learnt(arm, 0, fold), budget)
            assert sum(len(document.tokens) for document in learnt) == budget
            assert len({document.key for document in learnt}) == len(learnt)
    assert domain(most=100).budget(0, 0) == 100


def test_seeds_cut_and_draw_anew_and_the_same_one_does_not():
    one = domain()
    learnt = [[document.key for document in one.learnt(RAW, seed, 0)] for seed in (0, 0, 1)]
    assert learnt[0] == learnt[1] != learnt[2]


def test_all_groups_are_scored_on_the_same_bytes_whatever_the_arm():
    one = domain()
    found = trial(one, 0, Counting(20), range(one.folds)).found
    assert found[RAW, LOGGED].size == found[EVERYTHING, LOGGED].size
    assert sum(found[RAW, LOGGED].size.values()) == sum(int(d.sizes.sum()) for d in one.arms[RAW])
    assert sum(found[RAW, CURATED].size.values()) == sum(int(d.sizes.sum()) for d in one.arms[EVERYTHING])


def test_an_arm_is_compared_over_all_groups_that_were_scored():
    documents = [document(number) for number in range(120)]
    small = Domain("web", {RAW: documents, EVERYTHING: documents[::2]}, 20, 1_000, 2)
    found = [trial(small, seed, Counting(20), range(2)) for seed in range(2)]
    tests = {one.what: one for one in compared(small, [Arm(EVERYTHING, RAW, "whole")], found, "n-grams")}
    assert (tests[LOGGED].groups, tests[LOGGED].changed) == (60, 60)
    assert tests[LOGGED].apart is not None


def test_of_an_arm_that_changes_few_trajectories_nothing_is_said():
    documents = [document(number) for number in range(120)]
    arms = {RAW: documents, EVERYTHING: documents[3:]}
    small = Domain("web", arms, 20, 1_000, 2)
    found = [trial(small, seed, Counting(20), range(2)) for seed in range(2)]
    (one, *_) = compared(small, [Arm(EVERYTHING, RAW, "whole")], found, "n-grams")
    assert (one.groups, one.changed, one.word) == (60, 3, "not measurable")


def test_of_long_documents_the_first_tokens_are_scored_where_few_are_asked_for():
    one = replace(domain(), most_each=20)
    whole, cut = domain().held(LOGGED, 0, 0), one.held(LOGGED, 0, 0)
    assert [document.key for document in cut] == [document.key for document in whole]
    assert [len(document.tokens) for document in cut] == [20] * len(cut)
    assert cut[0].sizes.tolist() == whole[0].sizes[:20].tolist()


def test_of_a_corpus_that_is_too_large_few_groups_are_taken_and_used_up():
    whole = domain()
    small = whole.used_up(400)
    groups = {one.group for one in small.arms[EVERYTHING]}
    assert groups < {one.group for one in whole.arms[EVERYTHING]}
    assert {one.group for one in small.arms[RAW]} >= groups  # the copies of what is learnt stay
    assert sum(len(one.tokens) for one in small.arms[EVERYTHING]) < 2 * 400 / 0.9
    assert max(small.budget(0, fold) for fold in range(4)) <= 400
    assert whole.used_up(1_000_000).arms == whole.arms
