"""Sets of words or runs of words of many texts, and which members of one text's set another text's set holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


def ranges(first: Places, count: Places) -> Places:
    """first[0] … first[0] + count[0] - 1, then the same of the next, and so on."""
    ends = np.cumsum(count)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - count), count)


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Each of the values once, ascending.

    numpy's own `unique` and `isin` go through a hash table, which is many times slower for keys that differ in their
    upper bits, as those made of a place and a hash do.
    """
    ordered = np.sort(values)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def holds(ordered: npt.NDArray[Any], keys: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Flag the keys that are among the ordered ones."""
    if not len(ordered):
        return np.zeros(len(keys), np.bool_)
    positions = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    flags: npt.NDArray[np.bool_] = ordered[positions] == keys
    return flags


def expand_lists(values: npt.NDArray[Any], offsets: Places, chosen: Places) -> tuple[Places, npt.NDArray[Any]]:
    """Return (position in `chosen`, value) of every value of the chosen lists, one after the other.

    Args:
        values: of all lists.
        offsets: where each list begins, and the last ends.
        chosen: numbers of lists, in any order, with repetition.
    """
    sizes = offsets[chosen + 1] - offsets[chosen]
    list_number = np.repeat(np.arange(len(chosen)), sizes)
    return list_number, values[ranges(offsets[chosen], sizes)]


def join_keys(number: Places, hashes: npt.NDArray[np.uint32]) -> Keys:
    """Join pairs of a place and a 32-bit hash to one number each, which sort as the pairs do."""
    return (number.astype(np.uint64) << np.uint64(32)) | hashes


def split(pairs: Keys) -> tuple[Places, npt.NDArray[np.uint32]]:
    """Split what `join_keys` put together."""
    return (pairs >> np.uint64(32)).astype(np.int64), pairs.astype(np.uint32)


def marks_before(marks: npt.NDArray[np.bool_], places: Places) -> Places:
    """Count the marks before each place, by eight, which is quicker than `np.add.reduceat`."""
    eights = np.zeros(len(marks) // 8 + 1, np.uint64)
    eights.view(np.bool_)[: len(marks)] = marks
    return _before(eights, places, np.bitwise_count)


def sums_before(eights: npt.NDArray[np.uint64], places: Places) -> Places:
    """Sum the bytes before each place, of which no eight may add up to over 255."""
    return _before(eights, places, _sums_of_eight)


def _before(
    eights: npt.NDArray[np.uint64],
    places: Places,
    counted: Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.unsignedinteger]],
) -> Places:
    """Sum what is counted of the bytes before each place, which stand by eight."""
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(counted(eights), dtype=np.int64)])
    whole, rest = np.divmod(places, 8)
    within = eights[whole] & ((np.uint64(1) << (rest.astype(np.uint64) * np.uint64(8))) - np.uint64(1))
    return before[whole] + counted(within).astype(np.int64)


def _sums_of_eight(eights: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Sum the eight bytes of each number, which a product adds up in its top byte."""
    sums: npt.NDArray[np.uint64] = (eights * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return sums


def common_bits(*texts: int) -> int:
    """Bits of hash that are left beside the place of a text, for sets of so many texts that are to be compared."""
    return 64 - (max(texts) + 1).bit_length()


@dataclass(frozen=True, slots=True)
class Sets:
    """A set of hashes for each text.

    Attributes:
        keys: in order: the text's place above `bits` bits of the hash, so that one sort makes all sets.
        at: where each text's keys begin, and where the last one's end.
        bits: of a hash.
    """

    keys: Keys
    at: Places
    bits: int

    @classmethod
    def of(cls, hashes: Keys, offsets: Places, bits: int) -> Sets:
        """The sets of hashes that stand text by text, with repetition.

        Args:
            hashes: of all texts, one after the other.
            offsets: where each text's begin, and where the last one's end.
            bits: see `common_bits`.
        """
        text = np.repeat(np.arange(len(offsets) - 1, dtype=np.uint64), np.diff(offsets))
        keys = np.sort((text << np.uint64(bits)) | (hashes >> np.uint64(64 - bits)))
        first = np.ones(len(keys), np.bool_)
        first[1:] = keys[1:] != keys[:-1]
        keys = keys[first]
        return cls(keys, np.searchsorted(keys, np.arange(len(offsets), dtype=np.uint64) << np.uint64(bits)), bits)

    @property
    def sizes(self) -> Places:
        """Members of each text's set."""
        return np.diff(self.at)

    def within(self, texts: Places, other_sets: Sets, other_texts: Places) -> tuple[Places, npt.NDArray[np.bool_]]:
        """Return for each pair (a text of these, a text of `other_sets`) the members of the first, and flags of those
        that the second has.

        Args:
            texts: places of texts of these sets.
            other_sets: sets with as many bits.
            other_texts: places of its texts, one for each of `texts`; -1 for one without a member.

        Returns:
            (number of the pair, whether it is held) for each member; members of a pair come in the order of the set.
        """
        number = self.sizes[texts]
        whose = np.repeat(other_texts, number)
        flags = np.zeros(len(whose), np.bool_)
        asked = np.flatnonzero(whose >= 0)
        if len(asked):
            member = self.keys[ranges(self.at[:-1][texts], number)[asked]] & np.uint64((1 << self.bits) - 1)
            flags[asked] = holds(other_sets.keys, (whose[asked].astype(np.uint64) << np.uint64(self.bits)) | member)
        return np.repeat(np.arange(len(texts)), number), flags
