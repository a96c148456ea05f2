"""A model of tokens that counts: n-grams of what it was taught, and of the prompt that it reads.

After PPM (Cleary and Witten 1984) with absolute discounting (Ney, Essen and Kneser 1994): what follows a context of k
tokens is told by its counts, which lose a fixed part each to what follows k - 1 tokens, down to every token alike. What
stood before in the same document counts as what was taught does, so the model has a cache of its own prompt. All of it
is arithmetic on columns: a position has a hash of the k tokens before it, and what was seen is counted by sorting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ORDER: Final = 5
"""Tokens of the longest context."""

DISCOUNT: Final = 0.75
"""What each count gives to shorter contexts."""

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(29)


def _mix(left: Hashes, right: npt.NDArray[np.generic]) -> Hashes:
    """A hash of both, in their order; arithmetic is modulo 2^64."""
    mix: Hashes = (left * _ODD) ^ (right.astype(np.uint64) + np.uint64(1))
    mix ^= mix >> _SHIFT
    mix *= np.uint64(0xBF58476D1CE4E5B9)
    return mix ^ (mix >> np.uint64(32))


@dataclass(frozen=True, slots=True)
class Stream:
    """Documents of tokens, one behind the other.

    Attributes:
        tokens: ids from 0 on.
        first: of each position the place at which its document begins.
        contexts: of each length of a context, from none, the hash of the tokens before each position.
    """

    tokens: Ints
    first: Ints
    contexts: tuple[Hashes, ...]

    @classmethod
    def of(cls, tokens: Ints, lengths: Ints) -> Self:
        """Documents of so many tokens each."""
        first = np.repeat(np.cumsum(lengths) - lengths, lengths)
        position = np.arange(len(tokens))
        contexts = [np.zeros(len(tokens), np.uint64)]
        for back in range(1, ORDER + 1):
            inside = position - back >= first
            before = np.where(inside, tokens[np.maximum(position - back, 0)], -1) + 1
            contexts.append(_mix(contexts[-1], before))
        return cls(tokens, first, tuple(contexts))

    def followed(self, order: int) -> Hashes:
        """Of each position the hash of its context of so many tokens and of the token itself."""
        return _mix(self.contexts[order], self.tokens)


def _count_keys(keys: Hashes) -> tuple[Hashes, Ints]:
    """The distinct keys in order, and how often each is there."""
    ordered = np.sort(keys)
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(keys) else np.zeros(0, np.int64)
    return ordered[first], np.diff(first, append=len(keys))


@dataclass(frozen=True, slots=True)
class _Asked:
    """Keys that are looked up in every model: each distinct one once and in order, which is many times faster."""

    keys: Hashes
    places: Ints

    @classmethod
    def of(cls, keys: Hashes) -> Self:
        """Keys in any order."""
        distinct, places = np.unique(keys, return_inverse=True)
        return cls(distinct, places)

    def found_in(self, keys: Hashes, *values: Ints) -> tuple[Ints, ...]:
        """Of each key the values that stand beside it among the sorted keys; 0 where it is not among them."""
        if not len(keys):
            return tuple(np.zeros(len(self.places), np.int64) for _ in values)
        index = np.minimum(np.searchsorted(keys, self.keys), len(keys) - 1)
        there = keys[index] == self.keys
        return tuple(np.where(there, column[index], 0)[self.places] for column in values)


@dataclass(frozen=True, slots=True)
class _Taught:
    """Of one length of contexts: how often each was seen, with how many followers, and each with its follower."""

    contexts: Hashes
    seen: Ints
    kinds: Ints
    pairs: Hashes
    counts: Ints


class Reading:
    """Documents that are scored, with what each position has seen of its own document: the same for every model.

    Args:
        stream: the documents.
        scored: the positions that are scored.
    """

    def __init__(self, stream: Stream, scored: Bools) -> None:
        self.stream, self.scored = stream, np.flatnonzero(scored)
        documents = stream.first.astype(np.uint64)
        self._own: list[tuple[tuple[Ints, Bools], Ints, Ints]] = []
        self.contexts: list[_Asked] = []
        self.pairs: list[_Asked] = []
        for order in range(ORDER + 1):
            followed = stream.followed(order)
            context = _group_places(_mix(stream.contexts[order], documents))
            pair = _group_places(_mix(followed, documents))
            ones = np.ones(len(documents), np.int64)
            self._own.append((context, _before(context, ones), _before(pair, ones)))
            self.contexts.append(_Asked.of(stream.contexts[order][self.scored]))
            self.pairs.append(_Asked.of(followed))

    def own(self, order: int, is_taught: Bools) -> tuple[Ints, Ints, Ints]:
        """Of each scored position: how often its document had shown the context, followed by this token, by how many.

        Args:
            order: tokens of the context.
            is_taught: of each position whether the pair of context and token was taught, and counts no more as a kind.
        """
        context, seen, counts = self._own[order]
        fresh = (counts == 0) & ~is_taught
        kinds = _before(context, fresh.astype(np.int64))
        return seen[self.scored], counts[self.scored], kinds[self.scored]


def _group_places(keys: Hashes) -> tuple[Ints, Bools]:
    """The places by their keys, in their order among equal ones, and which of these begin a key."""
    order = np.argsort(keys, kind="stable")
    begins = np.ones(len(keys), np.bool_)
    begins[1:] = keys[order][1:] != keys[order][:-1]
    return order, begins


def _before(keys: tuple[Ints, Bools], flags: Ints) -> Ints:
    """The sum of the flags of equal keys before each place."""
    order, begins = keys
    ordered = flags[order]
    total = np.cumsum(ordered) - ordered
    counts = np.zeros(len(order), np.int64)
    counts[order] = total - np.maximum.accumulate(np.where(begins, total, 0))
    return counts


class Ngrams:
    """N-gram counts of the tokens that were taught.

    Args:
        stream: the documents.
        borne: the positions that bear the loss: nothing is learnt from others, which only stand before these.
        vocabulary: how many tokens there are.
    """

    def __init__(self, stream: Stream, borne: Bools, vocabulary: int) -> None:
        self._vocabulary = vocabulary
        self._taught = []
        for order in range(ORDER + 1):
            context, pair = stream.contexts[order][borne], stream.followed(order)[borne]
            by_pair = np.argsort(pair)
            ordered = pair[by_pair]
            begins = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
            first = np.flatnonzero(begins)
            _, kinds = _count_keys(context[by_pair[first]])
            contexts, seen = _count_keys(context)
            assert len(kinds) == len(contexts)
            counts = np.diff(first, append=len(ordered))
            self._taught.append(_Taught(contexts, seen, kinds, ordered[first], counts))

    def bits(self, reading: Reading) -> Floats:
        """The bits that each scored position costs, given all of its document before it."""
        at = reading.scored
        chance = np.full(len(at), 1.0 / self._vocabulary)
        for order, taught in enumerate(self._taught):
            (known,) = reading.pairs[order].found_in(taught.pairs, taught.counts)
            before, followers = reading.contexts[order].found_in(taught.contexts, taught.seen, taught.kinds)
            seen, counts, kinds = reading.own(order, known > 0)
            seen, kinds, counts = seen + before, kinds + followers, counts + known[at]
            there = seen > 0
            own = np.maximum(counts - DISCOUNT, 0.0) + DISCOUNT * kinds * chance
            chance = np.where(there, own / np.maximum(seen, 1), chance)
        costs: Floats = -np.log2(chance)
        return costs
