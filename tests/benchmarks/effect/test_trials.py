"""Trials: documents, arms, seeds, models of n-grams, and significance."""

from collections import Counter

import numpy as np
import pytest

from benchmarks.effect.arms import ALL_RAW, ALL_TEXT, EVERYTHING, RAW, Arm
from benchmarks.effect.corpus import Shown
from benchmarks.effect.documents import CLASSES, Document, Tokens, train_tokenizer
from benchmarks.effect.measurement import compare_arms, count_changed
from benchmarks.effect.ngrams import DISCOUNT, ORDER, Ngrams, Reading, Stream
from benchmarks.effect.significance import alike, difference, holm
from benchmarks.effect.trials import CURATED, LOGGED, Domain, first_tokens, trial
from trajmill.pipelines.recipe.recipe import SpanClass
from trajmill.pipelines.render.loss_spans import Answer
from trajmill.pipelines.render.turns import Turn


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
    corpus = domain()
    groups = []
    for fold in range(corpus.folds):
        held_out = {document.group for document in corpus.held(LOGGED, 3, fold)}
        assert held_out.isdisjoint(document.group for arm in corpus.arms for document in corpus.learnt(arm, 3, fold))
        groups += sorted(held_out)
    assert sorted(groups) == sorted({document.group for document in corpus.arms[RAW]})


def test_arms_learn_equally_many_tokens_no_document_twice():
    corpus = domain()
    for fold in range(corpus.folds):
        budget = corpus.budget(0, fold)
        for arm in corpus.arms:
            learnt = first_tokens(corpus.learnt(arm, 0, fold), budget)
            assert sum(len(document.tokens) for document in learnt) == budget
            assert len({document.key for document in learnt}) == len(learnt)
    assert domain(most=100).budget(0, 0) == 100


def test_one_arm_learns_all_that_there_is_whatever_the_others_learn(monkeypatch):
    documents = [document(number) for number in range(40)]
    arms = {RAW: documents, EVERYTHING: documents[::2], ALL_RAW: documents}
    learnt = []

    def note(vocabulary, taught, most, asked):
        learnt.append(sum(len(document.tokens) for document in first_tokens(taught, most)))
        return [np.zeros(len(questions.kinds)) for questions in asked]

    monkeypatch.setattr("benchmarks.effect.trials.costs_of", note)
    one = Domain("web", arms, 20, 500, 4)
    trial(one, 0)
    folds = Counter(one.fold(item.group, 0) for item in documents for _ in item.tokens)
    outside = [folds.total() - folds[fold] for fold in range(4)]
    assert learnt == [size for most in outside for size in (500, 500, most)]
    assert min(outside) > 500


def test_seeds_cut_and_draw_anew_and_the_same_one_does_not():
    corpus = domain()
    learnt = [[document.key for document in corpus.learnt(RAW, seed, 0)] for seed in (0, 0, 1)]
    assert learnt[0] == learnt[1] != learnt[2]


def test_all_groups_are_scored_on_the_same_bytes_whatever_the_arm():
    corpus = domain()
    scores = trial(corpus, 0).found
    assert scores[RAW, LOGGED].size == scores[EVERYTHING, LOGGED].size
    assert sum(scores[RAW, LOGGED].size.values()) == sum(int(d.sizes.sum()) for d in corpus.arms[RAW])
    assert sum(scores[RAW, CURATED].size.values()) == sum(int(d.sizes.sum()) for d in corpus.arms[EVERYTHING])


def test_an_arm_is_compared_over_all_groups_that_were_scored():
    documents = [document(number) for number in range(120)]
    small = Domain("web", {RAW: documents, EVERYTHING: documents[::2]}, 20, 1_000, 2)
    results = [trial(small, seed) for seed in range(2)]
    tests = {test.what: test for test in compare_arms(small, [Arm(EVERYTHING, RAW, "whole")], results)}
    assert (tests[LOGGED].groups, tests[LOGGED].changed) == (60, 60)
    assert tests[LOGGED].apart is not None


def test_of_an_arm_that_changes_few_trajectories_nothing_is_said():
    documents = [document(number) for number in range(120)]
    arms = {RAW: documents, EVERYTHING: documents[3:]}
    small = Domain("web", arms, 20, 1_000, 2)
    results = [trial(small, seed) for seed in range(2)]
    (comparison, *_) = compare_arms(small, [Arm(EVERYTHING, RAW, "whole")], results)
    assert (comparison.groups, comparison.changed, comparison.word) == (60, 3, "not measurable")


SIZES = np.full((5, 60), 1000.0)


def costs(seed, shift=0.0):
    """Bits by seed and group: groups differ much, seeds little."""
    random = np.random.default_rng(seed)
    return (random.normal(2.0, 0.8, 60)[None, :] + random.normal(shift, 0.05, (5, 60))) * SIZES


def test_a_difference_that_all_groups_show_is_found_though_groups_differ_more():
    base = costs(1)
    result = difference(base - 0.02 * SIZES + np.random.default_rng(2).normal(0, 20, (5, 60)), base, SIZES)
    assert result.high < 0
    assert result.mean == pytest.approx(-0.02, abs=0.003)
    assert result.p < 0.01


def test_noise_is_rarely_called_a_difference():
    random = np.random.default_rng(3)
    base = costs(4)
    chances = [difference(base + random.normal(0, 40, (1, 60)), base, SIZES, seed).p for seed in range(20)]
    assert sum(p < 0.05 for p in chances) <= 4  # of 20 one is to be expected


def test_one_group_that_outweighs_all_others_proves_nothing():
    base = costs(5)
    ours = base.copy()
    ours[:, 0] -= 40_000
    result = difference(ours, base, SIZES)
    assert result.mean < -0.5
    assert result.high == 0
    assert result.p > 0.05


def test_holm_corrects_the_smallest_most_and_keeps_the_order():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_groups_of_one_size_weigh_as_many_and_a_large_one_makes_them_few():
    assert alike(np.full(40, 7.0)) == 40.0
    assert alike(np.array([96.0, 1.0, 1.0, 1.0, 1.0])) == 1.1


ANSWER = "größe 12\nMon 09:30\n$ ls\nneu ü\n"
PARTS = (
    ("größe ", None),
    ("12", "history"),
    ("\n", None),
    ("Mon 09:30", "volatile"),
    ("\n", None),
    ("$ ls", "action"),
)


def turn(step=0, loss=True):
    """A turn whose answer has a span of each kind, in bytes."""
    spans, offset = [], 0
    for text, label in PARTS:
        end = offset + len(text.encode())
        spans += [{"begin": offset, "end": end, "label": label}] if label else []
        offset = end
    after = {"content": ANSWER, "origin": "environment", "form": "stream", "dialect": None}
    answer = Answer(ANSWER, key=f"t:{step}", labels=spans, content=ANSWER, shown=ANSWER)
    return Turn(step, "### Turn 1\nls", answer, loss, {"row_id": f"r{step}", "next_observation": after})


@pytest.fixture(scope="module")
def tokens():
    return Tokens(train_tokenizer([]))  # a token a byte


def shown_document(tokens, arm, *turns):
    return tokens.document(Shown(0, 0, "g", turns or (turn(),)), arm, 0, labelled=True)


def spans_arm(weights: dict[SpanClass, float] | None = None) -> Arm:
    return Arm("one", EVERYTHING, "classes", loss="spans", weights=weights or {})


def borne(scored_document):
    """The text of the answer that bears the loss, a byte a token."""
    is_answer = scored_document.sizes > 0
    return bytes(np.frombuffer(ANSWER.encode(), np.uint8)[scored_document.borne[is_answer]]).decode("utf-8", "replace")


def test_bytes_have_the_class_of_their_character(tokens):
    kinds = shown_document(tokens, Arm(EVERYTHING, "", "")).kinds
    classes = [CLASSES[kind] for kind in kinds[kinds > 0]][:-1]
    class_of = {"history": "copied", "volatile": "volatile", "action": "copied"}
    expected = [class_of.get(label or "", "new") for text, label in PARTS for _ in text.encode()]
    assert classes == expected + ["new"] * (len(classes) - len(expected))


def test_a_class_without_loss_is_what_a_mixture_leaves_out(tokens):
    assert borne(shown_document(tokens, spans_arm())) == ANSWER
    assert borne(shown_document(tokens, spans_arm({"copied": 0.0}))) == ANSWER.replace("$ ls", "").replace("12", "")
    assert "09:30" in borne(shown_document(tokens, spans_arm({"volatile": 0.0})))  # the only one of a sample stays


def test_context_bears_nothing_but_where_all_text_does(tokens):
    assert not shown_document(tokens, spans_arm(), turn(loss=False)).borne.any()
    assert shown_document(tokens, Arm(ALL_TEXT, "", "", loss="all"), turn(loss=False)).borne.all()


def test_trajectories_count_as_changed_where_text_or_loss_differs(tokens):
    whole, new = (
        shown_document(tokens, Arm(EVERYTHING, "", "")),
        shown_document(tokens, spans_arm({"copied": 0.0})),
    )
    assert count_changed([whole], [whole]) == 0
    assert count_changed([whole], [new]) == 1
    assert count_changed([whole], []) == 1


VOCABULARY = 12


def drawn(seed, lengths):
    """Documents of tokens that repeat, and which of them bear the loss."""
    random = np.random.default_rng(seed)
    size = sum(lengths)
    return np.minimum(random.integers(0, 4, size) * random.integers(1, 4, size), 9), random.random(size) < 0.6


def counted(taught, borne, lengths, document):
    """What the last token of a document costs, by dictionaries: the same model, said in another way."""
    follows: Counter[tuple] = Counter()
    kinds: dict[tuple, set] = {}
    begin = 0
    for length in lengths:
        for index in range(begin, begin + length):
            if borne[index]:
                for order in range(ORDER + 1):
                    context = tuple(taught[at] if at >= begin else -1 for at in range(index - order, index))
                    follows[context, taught[index]] += 1
                    kinds.setdefault(context, set()).add(taught[index])
        begin += length
    for index in range(len(document) - 1):
        for order in range(ORDER + 1):
            context = tuple(document[at] if at >= 0 else -1 for at in range(index - order, index))
            follows[context, document[index]] += 1
            kinds.setdefault(context, set()).add(document[index])
    chance, last = 1 / VOCABULARY, len(document) - 1
    for order in range(ORDER + 1):
        context = tuple(document[at] if at >= 0 else -1 for at in range(last - order, last))
        some = kinds.get(context, set())
        total = sum(follows[context, token] for token in some)
        if total:
            chance = (max(follows[context, document[last]] - DISCOUNT, 0) + DISCOUNT * len(some) * chance) / total
    return -np.log2(chance)


def scored(model, document):
    """What each token of a document costs."""
    return model.bits(Reading(Stream.of(document, np.array([len(document)])), np.ones(len(document), np.bool_)))


@pytest.mark.parametrize("seed", range(8))
def test_what_columns_count_is_what_dictionaries_count(seed):
    lengths = [30, 17, 25]
    taught, borne = drawn(seed, lengths)
    model = Ngrams(Stream.of(taught, np.array(lengths)), borne, VOCABULARY)
    document, _ = drawn(seed + 100, [20])
    for end in (1, 2, 7, 20):
        score = scored(model, document[:end])[-1]
        assert score == pytest.approx(counted(taught.tolist(), borne, lengths, document[:end].tolist()))


def test_chances_of_all_tokens_sum_to_one():
    taught, borne = drawn(1, [200])
    model = Ngrams(Stream.of(taught, np.array([200])), borne, VOCABULARY)
    before, _ = drawn(2, [25])
    chances = [2 ** -scored(model, np.append(before, token))[-1] for token in range(VOCABULARY)]
    assert sum(chances) == pytest.approx(1.0)


def test_nothing_is_learnt_of_tokens_without_loss_though_they_stand_before_others():
    tokens = np.array([1, 2, 3] * 40)
    none = Ngrams(Stream.of(tokens, np.array([120])), np.zeros(120, np.bool_), VOCABULARY)
    threes = Ngrams(Stream.of(tokens, np.array([120])), tokens == 3, VOCABULARY)
    unseen = np.array([1, 2, 3])
    assert scored(none, unseen)[0] == pytest.approx(np.log2(VOCABULARY))
    assert scored(threes, unseen)[0] > 6  # a 1 was never learnt
    assert scored(threes, unseen)[2] < 0.1


def test_documents_know_nothing_of_each_other_but_all_of_themselves():
    model = Ngrams(Stream.of(np.array([5]), np.array([1])), np.array([True]), VOCABULARY)
    twice = np.array([1, 7, 3, 1, 7, 3])
    apart = model.bits(Reading(Stream.of(twice, np.array([3, 3])), np.ones(6, np.bool_)))
    assert apart[3:].tolist() == apart[:3].tolist()
    assert scored(model, twice)[5] < apart[5] - 1
