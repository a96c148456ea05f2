"""Distinct texts of a column. Expensive work is done once for each of them, and spread over the rows by number.

Only column operations of Arrow (RE2, so time is linear in the text) and NumPy are used; no text becomes a Python
object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.sets import Keys, Places, ranges
from trajmill.quality.shingle import words

Flags = npt.NDArray[np.bool_]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Texts:
    """Text column as its distinct texts and their numbers.

    Attributes:
        texts: Texts without nulls. Some may be unused, and plain columns may repeat some.
        index: Number of each row's text, -1 for null.
        known: Cached result of `words`.
    """

    texts: pa.StringArray
    index: Offsets
    known: list[tuple[Keys, Places]] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(cls, column: pa.Array) -> Texts:
        """Return the texts of a column, plain or dictionary-encoded."""
        if not pa.types.is_dictionary(column.type) or len(column.dictionary) > len(column):
            column = column.cast(pa.string()).dictionary_encode()
        texts = column.dictionary.cast(pa.string())
        return cls(texts, pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64))

    def at(self, rows: Flags) -> Texts:
        """Return the same rows, null where not chosen, with only the texts of the chosen rows."""
        index = np.where(rows, self.index, -1)
        used = np.flatnonzero(np.bincount(index[index >= 0], minlength=len(self.texts)))
        new_numbers = np.full(len(self.texts) + 1, -1, np.int64)
        new_numbers[used] = np.arange(len(used))
        chosen = Texts(self.texts.take(pa.array(used)), new_numbers[index])
        for hashes, offsets in self.known:
            number = np.diff(offsets)[used]
            chosen.known.append((hashes[ranges(offsets[used], number)], np.concatenate([[0], np.cumsum(number)])))
        return chosen

    def words(self) -> tuple[Keys, Places]:
        """Return a 64-bit hash of each word of each text, as `shingle.words`; computed on first use."""
        if not self.known:
            self.known.append(words(self.texts))
        return self.known[0]

    def over(self, fallback: Texts) -> Texts:
        """Return these texts, with those of `fallback` in null rows; both have the same number of rows."""
        texts = pa.concat_arrays([self.texts, fallback.texts])
        shifted = np.where(fallback.index >= 0, fallback.index + len(self.texts), -1)
        return Texts(texts, np.where(self.index >= 0, self.index, shifted))

    def mapped(self, texts: pa.StringArray) -> Texts:
        """Return the same rows with each text replaced by another one."""
        return Texts(texts, self.index)

    def spread(self, values: npt.NDArray[Any], absent: Any = 0) -> npt.NDArray[Any]:
        """Return the value of each row's text; `absent` for null."""
        return np.append(values, np.asarray(absent, values.dtype))[self.index]

    def matching(self, pattern: str) -> Flags:
        """Flag the rows whose text matches the pattern anywhere (RE2 syntax); null does not match."""
        return self.spread(pc.match_substring_regex(self.texts, pattern).to_numpy(zero_copy_only=False), False)

    def matches(self, pattern: str) -> Offsets:
        """Count the matches of the pattern (RE2 syntax) in each row's text."""
        counts = pc.count_substring_regex(self.texts, pattern)
        return self.spread(counts.to_numpy(zero_copy_only=False).astype(np.int64))

    def sizes(self) -> Offsets:
        """Return the UTF-8 bytes of each row's text."""
        return self.spread(pc.binary_length(self.texts).to_numpy(zero_copy_only=False).astype(np.int64))
