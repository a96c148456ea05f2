"""Near pairs among samples, found by comparing each with each: no bands that a pair may slip through.

Sets of shingles are compared by one bit of each of 256 minima (b-bit MinHash, Li and König, WWW 2010), which is an
exclusive or of four words a pair; of pairs that agree on enough bits, the 1,024 smallest shingles tell how alike they
are (bottom-k sketches, Cohen and Kaplan, 2007).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.quality.fingerprint import mixed
from trajmill.quality.near import signatures
from trajmill.quality.sets import distinct
from trajmill.quality.shingle import shingles

_BITS: Final = 256
_HIGH: Final = np.uint64(40)
"""The bit of a minimum that is taken; by the lowest ones it was put into its bin."""
_HELD: Final = 1_024
"""Smallest shingles that are held of a sample."""
_ROWS: Final = 256
"""Samples that are compared with all others at once."""
_DEVIATIONS: Final = 5
"""Standard deviations by which the bits of a near pair may agree less than is expected of it."""


class NearPair(NamedTuple):
    """Two samples of different pools, by number, and the share of all shingles of both that both have."""

    one: int
    other: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Sketch:
    """What is held of a sample's text: the bits, its smallest shingles, ascending, and how many it has."""

    bits: npt.NDArray[np.uint64]
    smallest: npt.NDArray[np.uint32]
    shingles: int


def sketches(texts: Sequence[str]) -> list[Sketch]:
    """The sketch of each text."""
    hashes, offsets = shingles(pa.array(texts, pa.string()))
    sets = [distinct(hashes[begin:end]) for begin, end in pairwise(offsets)]
    place = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
    minima = signatures(place, np.concatenate([*sets, np.zeros(0, np.uint32)]), len(sets), _BITS)
    ones = (mixed(minima.astype(np.uint64)) >> _HIGH & np.uint64(1)).astype(np.bool_)
    bits = np.packbits(ones, axis=1).view(np.uint64)
    return [Sketch(own, one[:_HELD], len(one)) for own, one in zip(bits, sets, strict=True)]


def similarity(one: Sketch, other: Sketch) -> float:
    """The share of all shingles of two texts that both have; of more than 1,024 as the smallest of them tell it."""
    ends = [int(of.smallest[-1]) for of in (one, other) if of.shingles > len(of.smallest)]
    some, more = one.smallest, other.smallest
    if ends:
        some, more = (of[: np.searchsorted(of, min(ends), "right")] for of in (some, more))
    if not len(some) or not len(more):
        return 0.0
    places = np.minimum(np.searchsorted(more, some), len(more) - 1)
    shared = int(np.count_nonzero(more[places] == some))
    return shared / (len(some) + len(more) - shared)


def near_pairs(some: Sequence[Sketch], pools: Sequence[int], least: float, few: int) -> Iterator[NearPair]:
    """Every pair of samples of two pools that are alike, by number, that of the smaller pool first.

    Args:
        some: sketches of the samples.
        pools: the number of each sample's pool.
        least: similarity from which a pair is near.
        few: shingles below which a sample is too short to tell; a pair of two such is left out.
    """
    if not some:
        return
    order = np.argsort(np.asarray(pools), kind="stable")
    bits = np.stack([some[number].bits for number in order])
    sizes, pool = np.array([some[number].shingles for number in order]), np.asarray(pools)[order]
    most = _unlike(least)
    for begin in range(0, len(some), _ROWS):
        rows = slice(begin, begin + _ROWS)
        beyond = int(np.searchsorted(pool, pool[begin], "right"))  # pools of smaller numbers have been compared
        unlike = np.zeros((len(bits[rows]), len(some) - beyond), np.uint16)
        for word in range(bits.shape[1]):
            unlike += np.bitwise_count(bits[rows, word][:, None] ^ bits[None, beyond:, word])
        ones, others = np.nonzero(unlike <= most)
        ones, others = ones + begin, others + beyond
        larger, smaller = np.maximum(sizes[ones], sizes[others]), np.minimum(sizes[ones], sizes[others])
        chosen = (pool[ones] < pool[others]) & (larger >= few) & (smaller >= least * larger)
        for one, other in zip(order[ones[chosen]].tolist(), order[others[chosen]].tolist(), strict=True):
            if (alike := similarity(some[one], some[other])) >= least:
                yield NearPair(one, other, alike)


def _unlike(least: float) -> int:
    """Bits on which a near pair differs at most: half of those of minima that are not shared agree by chance."""
    agreeing = (1 + least) / 2
    return int(_BITS * (1 - agreeing) + _DEVIATIONS * math.sqrt(_BITS * agreeing * (1 - agreeing)))
