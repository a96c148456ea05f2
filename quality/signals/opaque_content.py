"""Next observations that hold what no model can read: ciphertext, signatures, packed bytes, tokens in addresses.

What connectors know for opaque stands as a short reference; this tells what slips through. Words of base64 characters
are told from names, paths and slugs by how evenly their characters are spread: random bytes come to 5.5 bits a
character over a hundred of them, names joined by dashes to less than 5.
"""

from __future__ import annotations

import re
from collections import Counter
from math import log2
from typing import ClassVar, Final

import numpy as np

from quality.signal import Measured, Numbers, Signal

LEAST: Final = 96
"""Characters from which a word can be told to be opaque."""

_BITS: Final = 5.2
_LOOKED_AT: Final = 4096
"""Characters of a word that tell its entropy."""

_CANDIDATE: Final = rf"[A-Za-z0-9+/_-]{{{LEAST}}}"
_WORD: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


def _bits(word: str) -> float:
    counts = Counter(word[:_LOOKED_AT])
    whole = sum(counts.values())
    return -sum(count / whole * log2(count / whole) for count in counts.values())


def opaque_share(text: str) -> float:
    """The share of a text's characters that stand in opaque words; 0 of an empty text."""
    words = (found[0] for found in _WORD.finditer(text))
    return sum(len(word) for word in words if len(word) >= LEAST and _bits(word) >= _BITS) / max(len(text), 1)


class OpaqueContent(Signal):
    """Share of the next observation's characters that stand in long words as evenly spread as random base64."""

    name: ClassVar[str] = "opaque_content"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = (
        "share of the next observation's characters in words of 96 or more of base64's characters "
        "with 5.2 bits or more each: ciphertext, signatures, packed bytes"
    )

    def measure(self, measured: Measured) -> Numbers:
        texts = measured.texts("next_observation", "content")
        texts = texts.at(texts.matching(_CANDIDATE))
        shares = np.array([opaque_share(text) for text in texts.texts.to_pylist()], np.float64)
        return texts.spread(shares).astype(np.float32)
