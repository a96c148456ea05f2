import numpy as np
import pytest

from trajmill.pipelines.effect.documents import Document
from trajmill.pipelines.effect.leaving_out import LeavingOut
from trajmill.pipelines.effect.ngrams import Ngrams
from trajmill.pipelines.effect.trials import CURATED, Asked, stream_of

KINDS = 12


def documents(count, seed, length=80):
    """Documents in which tokens follow from those before, of which some bear the loss."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        tokens = np.cumsum(random.integers(1, 3, length) * (number % 3 + 1)) % KINDS
        borne = random.random(length) < 0.7
        found.append(Document(f"0:{number}", f"{number:x}", tokens, borne.astype(np.int8), borne * 3, borne))
    return found


@pytest.mark.parametrize("clusters", [[0, 1, 2, 3, 4, 5], [2, 0, 2, 1, 1, 0]])
def test_a_cluster_left_out_costs_what_it_costs_who_never_learnt_it(clusters):
    taught = documents(6, 1)
    asked = Asked.of(documents(4, 2), CURATED)
    leaving = LeavingOut(taught, clusters, KINDS, asked.reading)

    def learnt(some):
        borne = np.concatenate([one.borne for one in some])
        return Ngrams(stream_of(some), borne, KINDS).bits(asked.reading)

    whole = leaving.bits()
    np.testing.assert_array_equal(whole, learnt(taught))
    for cluster in sorted(set(clusters)):
        rest = [one for one, of in zip(taught, clusters, strict=True) if of != cluster]
        np.testing.assert_array_equal(leaving.bits(cluster), learnt(rest))
    np.testing.assert_array_equal(leaving.bits(), whole)


def test_all_may_be_one_cluster():
    taught, asked = documents(3, 1), Asked.of(documents(2, 2), CURATED)
    alone = LeavingOut(taught, [0, 0, 0], KINDS, asked.reading).bits(0)
    none = Ngrams(stream_of([]), np.zeros(0, np.bool_), KINDS).bits(asked.reading)
    np.testing.assert_array_equal(alone, none)
