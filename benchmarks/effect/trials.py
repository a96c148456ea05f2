"""Trials: an arm's share of a domain is learnt, and what it does not hold is scored, fold by fold and seed by seed.

Groups are cut into folds, anew for each seed; each fold is held out once, so that of every group each arm is asked what
it never saw. All arms learn equally many tokens, drawn by hash, no trajectory twice; `raw, all of it` learns all that
is there. Two sets are scored, on bytes that are fixed whatever arm is asked: all answers as they were logged, and those
that the recipe keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import xxhash

from benchmarks.effect.arms import ALL_RAW, EVERYTHING, RAW
from benchmarks.effect.documents import CLASSES, Document
from benchmarks.effect.ngrams import Ngrams, Reading, Stream

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LOGGED: Final = "as logged"
CURATED: Final = "as kept"
SETS: Final = (LOGGED, CURATED)

FILLED: Final = 0.9
"""Of what the smallest arm has outside a fold, the share that each arm learns: so seeds differ in each of them."""

HELD: Final = 120_000
"""Tokens of a fold that are scored at most, of each set."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Documents of a domain, by arm, and the settings of their comparison.

    Attributes:
        arms: the documents of each arm, by its name.
        vocabulary: how many tokens there are.
        most_tokens: that an arm learns at most.
        folds: into how many its groups are cut.
    """

    name: str
    arms: Mapping[str, Sequence[Document]]
    vocabulary: int
    most_tokens: int
    folds: int

    def fold(self, group: str, seed: int) -> int:
        """The fold of a group."""
        return _draw_number(f"fold:{group}", seed) % self.folds

    def learnt(self, arm: str, seed: int, fold: int) -> list[Document]:
        """The documents of an arm outside a fold, in the order in which they are drawn."""
        documents = [document for document in self.arms[arm] if self.fold(document.group, seed) != fold]
        return sorted(documents, key=lambda document: _draw_number(document.key, seed))

    def budget(self, seed: int, fold: int) -> int:
        """The tokens that each arm learns, but for `raw, all of it`."""
        sizes = [sum(len(document.tokens) for document in self.learnt(arm, seed, fold)) for arm in self.arms]
        return min(int(FILLED * min(sizes)), self.most_tokens)

    def held(self, set_name: str, seed: int, fold: int) -> list[Document]:
        """The documents of a fold that are scored, of one of `SETS`."""
        documents: list[Document] = []
        total = 0
        of = self.arms[RAW if set_name == LOGGED else EVERYTHING]
        for document in sorted(of, key=lambda document: _draw_number(document.key, 0)):
            if self.fold(document.group, seed) == fold and total < HELD:
                documents.append(document)
                total += len(document.tokens)
        return documents


def _draw_number(key: str, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(f"effect:{key}".encode(), seed)


@dataclass(frozen=True, slots=True)
class Scored:
    """Cost of the answers of a set: bits and bytes by (group, class)."""

    bits: Mapping[tuple[str, str], float]
    size: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Trial:
    """One seed: of each arm and set what its answers cost, over all folds.

    Attributes:
        seed: of its draws.
        budgets: tokens that each arm learnt, fold by fold.
        found: by (arm, set).
    """

    seed: int
    budgets: tuple[int, ...]
    found: Mapping[tuple[str, str], Scored]


@dataclass(frozen=True, slots=True)
class Asked:
    """Documents that are scored, one behind the other.

    Attributes:
        reading: their tokens, and which are scored.
        groups: of each scored token the number of its group.
        kinds: of each the number of its class.
        names: of the groups.
    """

    reading: Reading
    groups: Ints
    kinds: Ints
    sizes: Ints
    names: tuple[str, ...]

    @classmethod
    def of(cls, documents: Sequence[Document], set_name: str) -> Asked:
        """Documents of a set."""
        names = sorted({document.group for document in documents})
        kinds = _concatenate([document.kinds for document in documents]).astype(np.int64)
        borne = _concatenate([document.borne for document in documents]).astype(np.bool_)
        scored = (kinds > 0) & (borne if set_name == CURATED else True)
        numbers = np.array([names.index(document.group) for document in documents], np.int64)
        groups = np.repeat(numbers, [len(document.tokens) for document in documents])
        sizes = _concatenate([document.sizes for document in documents])
        reading = Reading(stream_of(documents), scored)
        return cls(reading, groups[scored], kinds[scored], sizes[scored], tuple(names))

    def summed(self, bits: Floats) -> Scored:
        """Sum what was scored, by group and class."""
        key, count = self.groups * len(CLASSES) + self.kinds, len(self.names) * len(CLASSES)
        costs, sizes = np.bincount(key, bits, count), np.bincount(key, self.sizes, count)
        places = np.flatnonzero(np.bincount(key, minlength=count)).tolist()
        names = {at: (self.names[at // len(CLASSES)], CLASSES[at % len(CLASSES)]) for at in places}
        return Scored(
            {name: float(costs[at]) for at, name in names.items()},
            {name: int(sizes[at]) for at, name in names.items()},
        )


def _concatenate(columns: Sequence[npt.NDArray[np.generic]]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(0, np.int64), *columns])


def stream_of(documents: Sequence[Document]) -> Stream:
    """Documents one behind the other."""
    lengths = np.array([len(document.tokens) for document in documents], np.int64)
    return Stream.of(_concatenate([document.tokens for document in documents]), lengths)


def costs_of(vocabulary: int, taught: Sequence[Document], most: int, asked: Sequence[Asked]) -> list[Floats]:
    """The bits of each scored token of what is asked, after n-grams learnt so many tokens of some documents."""
    first = first_tokens(taught, most)
    borne = _concatenate([document.borne for document in first]).astype(np.bool_)
    model = Ngrams(stream_of(first), borne, vocabulary)
    return [model.bits(questions.reading) for questions in asked]


def first_tokens(documents: Sequence[Document], most: int) -> list[Document]:
    """The first documents that hold so many tokens, the last of them cut."""
    shortened, left = [], most
    for document in documents:
        if left <= 0:
            break
        shortened.append(document.first(left))
        left -= len(document.tokens)
    return shortened


def trial(domain: Domain, seed: int) -> Trial:
    """All arms on each fold of a domain."""
    budgets = []
    bits: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    sizes: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
    for fold in range(domain.folds):
        asked = [Asked.of(domain.held(set_name, seed, fold), set_name) for set_name in SETS]
        budget = domain.budget(seed, fold)
        budgets.append(budget)
        for arm in domain.arms:
            learnt = domain.learnt(arm, seed, fold)
            most = sum(len(document.tokens) for document in learnt) if arm == ALL_RAW else budget
            costs = costs_of(domain.vocabulary, learnt, most, asked)
            for set_name, questions, cost in zip(SETS, asked, costs, strict=True):
                scored = questions.summed(cost)
                bits.setdefault((arm, set_name), {}).update(scored.bits)
                sizes.setdefault((arm, set_name), {}).update(scored.size)
    return Trial(seed, tuple(budgets), {key: Scored(bits[key], sizes[key]) for key in bits})
