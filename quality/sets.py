"""Sets of hashes for many texts, kept as sorted numpy arrays, and the array functions that they are built from.

An element is a word or a run of words, known by its hash. All sets together are one sorted array, so that membership of
millions of elements is tested by binary search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Keys = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


def ranges(first: Places, count: Places) -> Places:
    """Concatenate ranges of numbers: first[0] to first[0] + count[0] - 1, then first[1] onward, and so on."""
    ends = np.cumsum(count)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - count), count)


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct values in ascending order.

    numpy's own `unique` and `isin` use a hash table, which is many times slower for keys that differ in their upper
    bits, as the keys of `join_keys` do.
    """
    ordered = np.sort(values)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def holds(ordered: npt.NDArray[Any], keys: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Flag the keys that occur in a sorted array."""
    if not len(ordered):
        return np.zeros(len(keys), np.bool_)
    positions = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    flags: npt.NDArray[np.bool_] = ordered[positions] == keys
    return flags


def expand_lists(values: npt.NDArray[Any], offsets: Places, chosen: Places) -> tuple[Places, npt.NDArray[Any]]:
    """Return the values of the chosen lists, one list after the other, each with its list's position in `chosen`.

    Args:
        values: of all lists.
        offsets: where each list begins, and the last ends.
        chosen: numbers of lists, in any order, with repetition.
    """
    taken, ends = take_lists(values, offsets, chosen)
    return np.repeat(np.arange(len(chosen)), np.diff(ends)), taken


def take_lists(
    values: npt.NDArray[Any], offsets: Places, chosen: Places
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the values of the chosen lists, one list after the other, and where each begins and the last ends.

    Arrow copies each list as a whole; numpy would need the position of each value. Arguments are those of
    `expand_lists`.
    """
    first = int(chosen.min()) if len(chosen) else 0
    near = offsets[first : (int(chosen.max()) if len(chosen) else -1) + 2]
    return of_lists(as_lists(values, near).take(pa.array(chosen - first)), values.dtype)


def as_lists(values: npt.NDArray[Any], offsets: Places) -> pa.LargeBinaryArray:
    """Return each list as one binary value, without a copy."""
    ends = pa.py_buffer(np.ascontiguousarray(offsets, np.int64) * values.itemsize)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, [None, ends, data])


def of_lists(lists: pa.LargeBinaryArray, kind: np.dtype[Any]) -> tuple[npt.NDArray[Any], Places]:
    """Return the values that `as_lists` made binary, and where each list begins and the last ends; no slices."""
    _, ends, data = lists.buffers()
    offsets = np.frombuffer(ends, np.int64, len(lists) + 1) // kind.itemsize
    return np.frombuffer(data, kind, int(offsets[-1])), offsets


def join_keys(number: Places, hashes: npt.NDArray[np.uint32]) -> Keys:
    """Pack each pair of a number and a 32-bit hash into one key; keys sort as the pairs do."""
    return (number.astype(np.uint64) << np.uint64(32)) | hashes


def split(pairs: Keys) -> tuple[Places, npt.NDArray[np.uint32]]:
    """Unpack the keys of `join_keys` into numbers and hashes."""
    return (pairs >> np.uint64(32)).astype(np.int64), pairs.astype(np.uint32)


def marks_before(marks: npt.NDArray[np.bool_], places: Places) -> Places:
    """Count the marks before each position.

    Eight marks are counted at once as the bytes of one number, which is faster than `np.add.reduceat`.
    """
    eights = np.zeros(len(marks) // 8 + 1, np.uint64)
    eights.view(np.bool_)[: len(marks)] = marks
    return _before(eights, places, np.bitwise_count)


def sums_before(eights: npt.NDArray[np.uint64], places: Places) -> Places:
    """Sum the bytes before each position.

    Args:
        eights: the bytes, eight in each number; the eight bytes of a number may not sum to more than 255.
        places: positions of bytes.
    """
    return _before(eights, places, _sums_of_eight)


def _before(
    eights: npt.NDArray[np.uint64],
    places: Places,
    count: Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.unsignedinteger]],
) -> Places:
    """Sum the result of `count` over all bytes before each position; `eights` holds eight bytes in each number."""
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(count(eights), dtype=np.int64)])
    whole, rest = np.divmod(places, 8)
    within = eights[whole] & ((np.uint64(1) << (rest.astype(np.uint64) * np.uint64(8))) - np.uint64(1))
    return before[whole] + count(within).astype(np.int64)


def _sums_of_eight(eights: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Sum the eight bytes of each number: the multiplication leaves the sum in the top byte."""
    sums: npt.NDArray[np.uint64] = (eights * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return sums


def common_bits(*texts: int) -> int:
    """Return how many bits of a key are left for the hash, beside the number of a text.

    Sets can be compared only if they keep the same bits of a hash.

    Args:
        texts: the number of texts of each collection of sets that is to be compared.
    """
    return 64 - (max(texts) + 1).bit_length()


@dataclass(frozen=True, slots=True)
class Sets:
    """A set of hashes for each text.

    Attributes:
        keys: one for each element, sorted: the number of the text in the upper bits, the hash in the lower `bits` bits.
        at: position of each text's first key, and at the end the number of keys.
        bits: number of bits that are kept of a hash.
    """

    keys: Keys
    at: Places
    bits: int

    @classmethod
    def of(cls, hashes: Keys, offsets: Places, bits: int) -> Sets:
        """Build one set for each text from its hashes, in which a hash may be repeated.

        Args:
            hashes: those of all texts, one text after the other.
            offsets: position of each text's first hash, and at the end the number of hashes.
            bits: see `common_bits`.
        """
        keys = hashes >> np.uint64(64 - bits)
        keys |= np.repeat(np.arange(len(offsets) - 1, dtype=np.uint64) << np.uint64(bits), np.diff(offsets))
        keys.sort(kind="stable")  # text by text, of which a merging sort takes half the time
        first = np.ones(len(keys), np.bool_)
        first[1:] = keys[1:] != keys[:-1]
        keys = keys[first]
        return cls(keys, np.searchsorted(keys, np.arange(len(offsets), dtype=np.uint64) << np.uint64(bits)), bits)

    @property
    def sizes(self) -> Places:
        """Number of elements of each text's set."""
        return np.diff(self.at)

    def hold(self, texts: Places, hashes: Keys) -> npt.NDArray[np.bool_]:
        """Flag the pairs of a text and a hash of which the text's set contains the hash."""
        keys = (texts.astype(np.uint64) << np.uint64(self.bits)) | (hashes >> np.uint64(64 - self.bits))
        return holds(self.keys, keys)

    def within(self, texts: Places, other_sets: Sets, other_texts: Places) -> tuple[Places, npt.NDArray[np.bool_]]:
        """Compare pairs of sets: for each element of the first set of a pair, flag whether the second contains it.

        Args:
            texts: numbers of texts of these sets, the first of each pair.
            other_sets: sets with the same number of bits.
            other_texts: numbers of texts of `other_sets`, the second of each pair; -1 stands for an empty set.

        Returns:
            Two arrays with an entry for each element of the first sets: the number of its pair, and whether the second
            set of the pair contains it. Elements of a pair have the order of their set.
        """
        sizes = self.sizes[texts]
        other_text = np.repeat(other_texts, sizes)
        flags = np.zeros(len(other_text), np.bool_)
        compared = np.flatnonzero(other_text >= 0)
        if len(compared):
            hashes = self.keys[ranges(self.at[:-1][texts], sizes)[compared]] & np.uint64((1 << self.bits) - 1)
            keys = (other_text[compared].astype(np.uint64) << np.uint64(self.bits)) | hashes
            flags[compared] = holds(other_sets.keys, keys)
        return np.repeat(np.arange(len(texts)), sizes), flags
