"""Signal of next observations with content that no model can read: ciphertext, signatures, packed bytes, tokens in
addresses.

Connectors replace known opaque content by a short reference; this signal finds the rest. The entropy of the characters
separates base64 words from names, paths and slugs: over a hundred characters, random bytes reach 5.5 bits a character,
names joined by dashes less than 5.
"""

from __future__ import annotations

import re
from collections import Counter
from math import log2
from string import ascii_letters, digits
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from trajmill.quality.shingle import buffers
from trajmill.quality.signal import Measured, Numbers, Signal

LEAST: Final = 96
"""Fewest characters of a word that can be recognized as opaque."""

_BITS: Final = 5.2
_LEAST_DISTINCT: Final = 37
"""Fewest distinct characters that can reach `_BITS`. Hexadecimal words, for instance, have fewer."""

_LOOKED_AT: Final = 4096
"""Characters of a word from which its entropy is computed."""

_BLOCK: Final = 1 << 20
_BREAKS: Final = np.array([chr(byte) not in f"{ascii_letters}{digits}+/_-" for byte in range(256)])
"""Bytes that no base64 word contains."""

_WORD: Final = re.compile(rf"[A-Za-z0-9+/_-]{{{LEAST - 2},}}={{0,2}}")


def _bits(word: str) -> float:
    if len(set(word[:_LOOKED_AT])) < _LEAST_DISTINCT:
        return 0.0
    counts = Counter(word[:_LOOKED_AT])
    whole = sum(counts.values())
    return -sum(count / whole * log2(count / whole) for count in counts.values())


def opaque_share(text: str) -> float:
    """Return the share of a text's characters in opaque words; 0 for an empty text."""
    words = (match[0] for match in _WORD.finditer(text))
    return sum(len(word) for word in words if len(word) >= LEAST and _bits(word) >= _BITS) / max(len(text), 1)


def with_long_words(texts: pa.StringArray) -> np.ndarray:
    """Flag the texts that may hold a word of `LEAST` characters: all that do, and few others."""
    data, starts = buffers(texts)
    flags = np.zeros(len(texts), np.bool_)
    last = int(starts[0]) - 1
    for begin in range(int(starts[0]), int(starts[-1]), _BLOCK):
        end = min(begin + _BLOCK, int(starts[-1]))
        breaks = np.flatnonzero(_BREAKS[data[begin:end]]) + begin
        first, after = np.append(last, breaks) + 1, np.append(breaks, end)
        long = after - first >= LEAST
        for low, high in zip(*(np.searchsorted(starts, at[long], "right") for at in (first, after - 1)), strict=True):
            flags[low - 1 : high] = True
        last = int(breaks[-1]) if len(breaks) else last
    return flags


class OpaqueContent(Signal):
    """Share of the next observation's characters in long words with the entropy of random base64."""

    name: ClassVar[str] = "opaque_content"
    measures: ClassVar[str] = (
        "share of the next observation's characters in words of 96 or more of base64's characters "
        "with 5.2 bits or more each: ciphertext, signatures, packed bytes"
    )

    def measure(self, measured: Measured) -> Numbers:
        texts = measured.texts("next_observation", "content")
        texts = texts.at(texts.spread(with_long_words(texts.texts), False))
        shares = np.array([opaque_share(text) for text in texts.texts.to_pylist()], np.float64)
        return texts.spread(shares).astype(np.float32)
