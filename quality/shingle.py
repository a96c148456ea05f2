"""Shingles of texts: runs of words as 32-bit hashes, for many texts at once.

A word is a run of letters, digits and `_` (bytes from 0x80 count as letters, ASCII letters are folded to lower case);
each character of the scripts without spaces (kana, Han, Hangul) is a word. A shingle is a given number of words in a
row, `WORDS` by default; a shorter text has one shingle of all its words. Everything is column arithmetic over the Arrow
buffer: no text becomes a Python object. Words of more than 32 bytes are distinguished by their first and last 16 bytes
and their length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

WORDS: Final = 5
"""Words in a shingle; the default of datatrove, text-dedup and data-juicer."""

MOST_WORDS: Final = 16
"""Words in the longest supported shingle."""

Hashes = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]
Offsets = npt.NDArray[np.int64]

_PAD: Final = 16
_EIGHT: Final = 8
_ODD: Final = [
    np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
]
_PLACES: Final = [np.uint64(pow(0x5851F42D4C957F2D, place, 1 << 64)) for place in range(MOST_WORDS)]
_KEEP_FIRST: Final = np.array([(1 << (8 * size)) - 1 for size in range(9)], np.uint64)
_BLOCK: Final = 1 << 18
"""Bytes of text processed at once, so that the arrays fit the cache and memory stays flat."""


def shingles(texts: pa.StringArray, size: int = WORDS, *, parted: bool = False) -> tuple[Hashes, Offsets]:
    """Shingle each text, in order and with repetition.

    Args:
        texts: Texts to shingle.
        size: Words of a shingle, 1 to `MOST_WORDS`.
        parted: True if `_` separates words, as punctuation does.

    Returns:
        Hashes of all texts one after the other, and the beginning of each text's hashes, with the end of the last:
            shapes (shingles,) and (texts + 1,). A null or a text without a word has none.
    """
    blocks_of_hashes: list[Hashes] = []
    counts: list[Offsets] = []
    for _, data, starts in blocks(texts):
        hashes, number = _of_block(data, starts, size, parted)
        blocks_of_hashes.append(hashes)
        counts.append(number)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate([*counts, np.zeros(0, np.int64)]))])
    return np.concatenate([*blocks_of_hashes, np.zeros(0, np.uint32)]), offsets


def words(texts: pa.StringArray) -> tuple[npt.NDArray[np.uint64], Offsets]:
    """Hash each word of each text to 64 bits, in order and with repetition.

    Returns:
        Hashes of all texts one after the other, and the beginning of each text's hashes, with the end of the last:
            shapes (words,) and (texts + 1,). A null has none.
    """
    blocks_of_hashes = [np.zeros(0, np.uint64)]
    offsets = np.zeros(len(texts) + 1, np.int64)
    total = 0
    for first, block, begins in blocks(texts):
        begin, end = word_places(block, begins)
        blocks_of_hashes.append(word_hashes(block, begin, end))
        offsets[first : first + len(begins)] = total + np.searchsorted(begin, begins)
        total += len(begin)
    return np.concatenate(blocks_of_hashes), offsets


def blocks(texts: pa.StringArray) -> Iterator[tuple[int, npt.NDArray[np.uint8], Offsets]]:
    """Yield whole texts in blocks of about `_BLOCK` bytes: (number of the first text, bytes, beginning of each
    text).
    """
    data, starts = buffers(texts)
    first = 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[first] + _BLOCK, "right")) - 1
        last = min(max(last, first + 1), len(starts) - 1)
        yield first, data[starts[first] : starts[last]], starts[first : last + 1] - starts[first]
        first = last


def buffers(texts: pa.StringArray) -> tuple[npt.NDArray[np.uint8], Offsets]:
    """Return the bytes of all texts, and the beginning of each; nulls are empty."""
    if texts.null_count:
        texts = texts.fill_null("")
    _, offsets, values = texts.buffers()
    if not len(texts) or values is None:
        return np.zeros(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    starts = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return np.frombuffer(values, np.uint8), starts


def _of_block(data: npt.NDArray[np.uint8], starts: Offsets, size: int, parted: bool) -> tuple[Hashes, Offsets]:
    """Return the shingles of a block of texts, and their number for each text."""
    begin, end = word_places(data, starts, parted=parted)
    words = word_hashes(data, begin, end)
    first = np.searchsorted(begin, starts)
    count = np.diff(first)
    short = np.flatnonzero((count > 0) & (count < size))
    firsts = first[:-1][short]
    of_short = np.zeros(len(short), np.uint64)
    sums = np.zeros(len(words), np.uint64)
    for length, sums in runs(words, size):
        here = count[short] == length
        of_short[here] = sums[firsts[here]]
    sums[firsts] = of_short
    number = np.where(count >= size, count - size + 1, np.minimum(count, 1))
    chosen = np.ones(len(words), np.bool_)
    for back in range(1, size):  # no shingle begins at a text's last words, unless it is all that the text has
        at = (first[1:] - back)[count >= back + (back < size)]
        chosen[at] = False
    chosen[firsts] = True
    return _mixed32(sums[chosen]), number


def runs(words: npt.NDArray[np.uint64], most: int) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
    """Yield (length, a number for each word that identifies the run of that many words from it on), for lengths from 1
    to `most`.

    The numbers are not mixed yet, and those of runs beyond the last word are meaningless. Every length updates the same
    array.

    Args:
        words: Hashes of words, one after the other.
        most: Largest length, 1 to `MOST_WORDS`.
    """
    sums = np.zeros(len(words), np.uint64)
    padded = np.concatenate([words, np.zeros(most, np.uint64)])
    for position, odd in enumerate(_PLACES[:most]):
        sums += padded[position : position + len(words)] * odd
        yield position + 1, sums


def word_places(data: npt.NDArray[np.uint8], starts: Offsets, *, parted: bool = False) -> tuple[Offsets, Offsets]:
    """Return the begin and the end of each word; no word crosses texts. `parted` is that of `shingles`."""
    inside = (data | 32) - ord("a") < 26  # such sums of vectors take a third of the time of a table of 256 bytes
    inside |= data - ord("0") < 10
    inside |= data > 127
    if not parted:
        inside |= data == ord("_")
    edges = np.empty(len(data) + 1, np.bool_)
    edges[:-1], edges[-1] = inside, len(inside) > 0 and inside[-1]
    edges[1:-1] ^= inside[:-1]
    turns = np.flatnonzero(edges)
    begin, end = turns[::2], turns[1::2]
    cuts = _cuts(data, inside, starts)
    if len(cuts):
        begin, end = (np.sort(np.concatenate([edge_positions, cuts]), kind="stable") for edge_positions in (begin, end))
    return begin, end


def _cuts(data: npt.NDArray[np.uint8], inside: Flags, starts: Offsets) -> Offsets:
    """Return the positions where words meet without a byte between them: at characters that are words, and between
    texts.
    """
    alone = np.flatnonzero(data - 0xE3 < 11)  # the first of the three bytes of such a character
    positions = np.concatenate([starts, alone, alone + 3])
    positions = positions[(positions > 0) & (positions < len(data))]
    cuts = np.zeros(len(data), np.bool_)
    cuts[positions[inside[positions] & inside[positions - 1]]] = True
    return np.flatnonzero(cuts)


def word_hashes(data: npt.NDArray[np.uint8], begin: Offsets, end: Offsets) -> npt.NDArray[np.uint64]:
    """Hash each word to 64 bits, from its length and its first and last 16 bytes."""
    padded = np.zeros(len(data) + 2 * _PAD, np.uint8)
    np.add(data, (data - ord("A") < 26).view(np.uint8) * np.uint8(32), out=padded[_PAD:-_PAD])  # in lower case
    eights = np.ndarray((len(padded) - _EIGHT + 1,), "<u8", padded.data, strides=(1,))
    size = end - begin
    hashes = eights[_PAD:].take(begin)
    hashes &= _KEEP_FIRST.take(size, mode="clip")
    hashes ^= size.view(np.uint64) * _ODD[1]
    hashes *= _ODD[0]
    hashes ^= hashes >> np.uint64(29)
    long = np.flatnonzero(size > _EIGHT)
    if len(long):
        at, stop = begin[long] + _PAD, end[long] + _PAD
        more = eights[stop - 8] * _ODD[2]
        middle = np.minimum(np.maximum(size[long] - 16, 0), 8)
        more ^= (eights[at + 8] & _KEEP_FIRST[middle]) * _ODD[3]
        third = np.minimum(np.maximum(size[long] - 24, 0), 8)
        more ^= ((eights[stop - 16] & _KEEP_FIRST[third]) + third.astype(np.uint64)) * _ODD[1]
        more ^= more >> np.uint64(31)
        hashes[long] = (hashes[long] ^ more) * _ODD[2]
    return hashes


def translate_bytes(data: npt.NDArray[np.uint8], table: bytes) -> npt.NDArray[np.uint8]:
    """Map the bytes by a table of 256; `bytes.translate` is several times faster than indexing."""
    return np.frombuffer(data.tobytes().translate(table), np.uint8)


def _mixed32(values: npt.NDArray[np.uint64]) -> Hashes:
    mixed: Any = mixed64(values) >> np.uint64(32)
    return mixed.astype(np.uint32)


def mixed64(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the values with every bit spread over the upper half."""
    values = values ^ (values >> np.uint64(32))
    values *= _ODD[2]
    values ^= values >> np.uint64(29)
    values *= _ODD[3]
    return values
