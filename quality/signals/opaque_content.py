"""Signal of next observations with content that no model can read: ciphertext, signatures, packed bytes, tokens in
addresses.

Connectors replace known opaque content by a short reference; this signal finds the rest. The entropy of the characters
separates base64 words from names, paths and slugs: over a hundred characters, random bytes reach 5.5 bits a character,
names joined by dashes less than 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import log2
from string import ascii_letters, digits
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.sets import ranges
from trajmill.quality.shingle import Offsets, buffers, translate_bytes
from trajmill.quality.signal import Measured, Numbers, Signal

LEAST: Final = 96
"""Fewest characters of a word that can be recognized as opaque."""

_BITS: Final = 5.2
_LEAST_DISTINCT: Final = 37
"""Fewest distinct characters that can reach `_BITS`."""

_HEXADECIMAL: Final = b"0123456789abcdef"
"""Characters of the most frequent long words, which are too few."""

_LOOKED_AT: Final = 4096
"""Characters of a word from which its entropy is computed."""

_BLOCK: Final = 1 << 20
_STRIDE: Final = 4
_BREAKS: Final = bytes(chr(byte) not in f"{ascii_letters}{digits}+/_-" for byte in range(256))
"""Table with 1 for bytes that no base64 word contains."""

_FEWEST: Final = LEAST - 2
"""Fewest characters of such a word before its padding."""


def _bits(word: bytes) -> float:
    if not word.strip(_HEXADECIMAL) or len(set(word[:_LOOKED_AT])) < _LEAST_DISTINCT:
        return 0.0
    counts = Counter(word[:_LOOKED_AT])
    whole = sum(counts.values())
    return -sum(count / whole * log2(count / whole) for count in counts.values())


def opaque_shares(texts: pa.StringArray) -> npt.NDArray[np.float64]:
    """Return the share of each text's characters in opaque words; 0 for an empty text."""
    shares = np.zeros(len(texts))
    for text, word in long_words(texts):
        if len(word) >= LEAST and _bits(word) >= _BITS:
            shares[text] += len(word)
    some = np.flatnonzero(shares)
    shares[some] /= pc.utf8_length(texts.take(pa.array(some))).to_numpy()
    return shares


def long_words(texts: pa.StringArray) -> Iterator[tuple[int, bytes]]:
    """Yield each word of `_FEWEST` or more characters with its padding, and the number of its text."""
    data, starts = buffers(texts)
    view = data.data
    for begins, ends in _long_runs(data, int(starts[0]), int(starts[-1])):
        low, high = (np.searchsorted(starts, positions, "right") - 1 for positions in (begins, ends - 1))
        run = np.repeat(np.arange(len(begins)), high - low + 1)  # a run goes on in the next text
        text = ranges(low, high - low + 1)
        begin, end = np.maximum(begins[run], starts[text]), np.minimum(ends[run], starts[text + 1])
        is_long = end - begin >= _FEWEST
        text, begin, end = text[is_long], begin[is_long], end[is_long]
        for _ in range(2):
            end += (end < starts[text + 1]) & (data[np.minimum(end, len(data) - 1)] == ord("="))
        for number, first, stop in zip(text.tolist(), begin.tolist(), end.tolist(), strict=True):
            yield number, view[first:stop].tobytes()


def _long_runs(data: npt.NDArray[np.uint8], first: int, end: int) -> Iterator[tuple[Offsets, Offsets]]:
    """Yield the begins and the ends of runs of `_FEWEST` or more bytes without a break in `data[first:end]`, in blocks.

    Such a run has no break among every fourth byte either, so that only stretches without one are read as a whole.
    """
    last = first - 1
    for begin in range(first, end, _BLOCK):
        stop = min(begin + _BLOCK, end)
        samples = begin + _STRIDE * np.flatnonzero(_is_break(data[begin:stop:_STRIDE]))
        edges = np.concatenate([[last], samples, [stop]])
        far = np.diff(edges) > _FEWEST
        far[-1] = True  # for the last break of the block
        at = np.maximum(edges[:-1][far] + 1, begin)
        positions = ranges(at, edges[1:][far] - at)
        others = positions[_is_break(data[positions])]
        breaks = np.concatenate([[last], np.sort(np.concatenate([samples, others]), kind="stable")])
        runs = np.flatnonzero(np.diff(breaks) > _FEWEST)
        yield breaks[runs] + 1, breaks[runs + 1]
        last = int(breaks[-1])
    if end - last > _FEWEST:
        yield np.array([last + 1]), np.array([end])


def _is_break(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    return translate_bytes(data, _BREAKS).view(np.bool_)


class OpaqueContent(Signal):
    """Share of the next observation's characters in long words with the entropy of random base64."""

    name: ClassVar[str] = "opaque_content"
    measures: ClassVar[str] = (
        "share of the next observation's characters in words of 96 or more of base64's characters "
        "with 5.2 bits or more each: ciphertext, signatures, packed bytes"
    )

    def measure(self, measured: Measured) -> Numbers:
        texts = measured.texts("next_observation", "content")
        return texts.spread(opaque_shares(texts.texts)).astype(np.float32)
