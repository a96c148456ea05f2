"""What a model that counts would say without a part of what it was taught: counts of the part are taken away again.

That is exact: it gives the bits of a model that never saw the part, in a hundredth of the time of teaching one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.effect.documents import Document
from trajmill.pipelines.effect.ngrams import DISCOUNT, ORDER, Reading
from trajmill.pipelines.effect.trials import stream_of

Hashes = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Order:
    """What was taught of contexts of one length, and where what is asked for stands in it; -1 is nowhere.

    Attributes:
        pairs: of each taught position the number of its context with its follower.
        contexts: the same of its context.
        counts: of each pair.
        context_of: of each pair the number of its context.
        known: of each asked position how often its pair was taught.
        seen: of each scored position how often its context was.
        kinds: with how many followers.
        asked_pairs: of each asked position the number of its pair.
        asked_contexts: of each scored position the number of its context.
    """

    pairs: Ints
    contexts: Ints
    counts: Ints
    context_of: Ints
    known: Ints
    seen: Ints
    kinds: Ints
    asked_pairs: Ints
    asked_contexts: Ints

    @classmethod
    def of(cls, context: Hashes, pair: Hashes, asked_context: Hashes, asked_pair: Hashes) -> _Order:
        """Those of taught positions, and of asked ones."""
        pairs, first, numbers, counts = np.unique(pair, return_index=True, return_inverse=True, return_counts=True)
        contexts, places, seen = np.unique(context, return_inverse=True, return_counts=True)
        context_of = places[first]
        kinds = np.bincount(context_of, minlength=len(contexts))
        at_pair, at_context = _places(pairs, asked_pair), _places(contexts, asked_context)
        return cls(
            numbers,
            places,
            counts,
            context_of,
            _taken(counts, at_pair),
            _taken(seen, at_context),
            _taken(kinds, at_context),
            at_pair,
            at_context,
        )


def _places(keys: Hashes, asked: Hashes) -> Ints:
    """The place of each that is asked for among sorted keys; -1 where it is none of them."""
    if not len(keys):
        return np.full(len(asked), -1, np.int64)
    place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[place] == asked, place, -1)


def _taken(values: Ints, places: Ints) -> Ints:
    """The values at places; 0 at -1."""
    return np.append(values, 0)[places].astype(np.int64)


class LeavingOut:
    """Documents that were taught, in clusters, and others that are scored with and without each cluster.

    Args:
        documents: that are taught.
        clusters: of each the number of its cluster, from 0 on.
        vocabulary: how many tokens there are.
        reading: what is scored.
    """

    def __init__(
        self, documents: Sequence[Document], clusters: Sequence[int], vocabulary: int, reading: Reading
    ) -> None:
        self._vocabulary, self._reading = vocabulary, reading
        stream, asked = stream_of(documents), reading.stream
        borne = np.concatenate([np.zeros(0, np.bool_), *(one.borne for one in documents)])
        cluster = np.repeat(np.asarray(clusters, np.int64), [len(one.tokens) for one in documents])[borne]
        self._order = np.argsort(cluster, kind="stable")
        self._bounds = np.searchsorted(cluster[self._order], np.arange(max(clusters, default=-1) + 2))
        self._taught = [
            _Order.of(
                stream.contexts[order][borne],
                stream.followed(order)[borne],
                asked.contexts[order][reading.scored],
                asked.followed(order),
            )
            for order in range(ORDER + 1)
        ]
        self._own = [reading.own(order, of.known > 0) for order, of in enumerate(self._taught)]
        self._room = [np.zeros(len(of.counts) + 1, np.int64) for of in self._taught]

    def bits(self, cluster: int | None = None) -> Floats:
        """The bits of each scored position, by all that was taught, or by all but a cluster."""
        chance = np.full(len(self._reading.scored), 1.0 / self._vocabulary)
        rows = self._order[slice(*self._bounds[cluster : cluster + 2])] if cluster is not None else self._order[:0]
        for order, of in enumerate(self._taught):
            known, seen, kinds, own = of.known, of.seen, of.kinds, self._own[order]
            if len(rows):
                known, seen, kinds = self._without(order, rows)
                if ((known == 0) & (of.known > 0)).any():
                    own = self._reading.own(order, known > 0)
            seen, counts, kinds = seen + own[0], known[self._reading.scored] + own[1], kinds + own[2]
            share = np.maximum(counts - DISCOUNT, 0.0) + DISCOUNT * kinds * chance
            chance = np.where(seen > 0, share / np.maximum(seen, 1), chance)
        found: Floats = -np.log2(chance)
        return found

    def _without(self, order: int, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Of what is asked for: how often its pair, its context and with how many followers, without taught rows."""
        of, room = self._taught[order], self._room[order]
        pairs, times = np.unique(of.pairs[rows], return_counts=True)
        gone = of.context_of[pairs[times == of.counts[pairs]]]
        with _counted(room, pairs, times):
            known = of.known - room[of.asked_pairs]
        with _counted(room, *np.unique(of.contexts[rows], return_counts=True)):
            seen = of.seen - room[of.asked_contexts]
        with _counted(room, *np.unique(gone, return_counts=True)):
            kinds = of.kinds - room[of.asked_contexts]
        return known, seen, kinds


@contextmanager
def _counted(room: Ints, places: Ints, counts: Ints) -> Iterator[None]:
    """Counts at their places, for the while; the last place, which -1 names, stays 0."""
    room[places] = counts
    yield
    room[places] = 0
