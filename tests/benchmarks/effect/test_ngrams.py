from collections import Counter

import numpy as np
import pytest

from benchmarks.effect.ngrams import DISCOUNT, ORDER, Ngrams, Reading, Stream

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
        for place in range(begin, begin + length):
            if borne[place]:
                for order in range(ORDER + 1):
                    context = tuple(taught[at] if at >= begin else -1 for at in range(place - order, place))
                    follows[context, taught[place]] += 1
                    kinds.setdefault(context, set()).add(taught[place])
        begin += length
    for place in range(len(document) - 1):
        for order in range(ORDER + 1):
            context = tuple(document[at] if at >= 0 else -1 for at in range(place - order, place))
            follows[context, document[place]] += 1
            kinds.setdefault(context, set()).add(document[place])
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
        found = scored(model, document[:end])[-1]
        assert found == pytest.approx(counted(taught.tolist(), borne, lengths, document[:end].tolist()))


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
    asked = np.array([1, 2, 3])
    assert scored(none, asked)[0] == pytest.approx(np.log2(VOCABULARY))
    assert scored(threes, asked)[0] > 6  # a 1 was never learnt
    assert scored(threes, asked)[2] < 0.1


def test_documents_know_nothing_of_each_other_but_all_of_themselves():
    model = Ngrams(Stream.of(np.array([5]), np.array([1])), np.array([True]), VOCABULARY)
    twice = np.array([1, 7, 3, 1, 7, 3])
    apart = model.bits(Reading(Stream.of(twice, np.array([3, 3])), np.ones(6, np.bool_)))
    assert apart[3:].tolist() == apart[:3].tolist()
    assert scored(model, twice)[5] < apart[5] - 1
