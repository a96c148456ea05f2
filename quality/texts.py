"""Distinct texts of a column. Expensive work is done once for each of them, and spread over the rows by number.

Only column operations of Arrow (RE2, so time is linear in the text) and NumPy are used; no text becomes a Python
object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        known: Cached results of `words` and, by pattern, of `matching`, for all `Texts` with these texts.
    """

    texts: pa.StringArray
    index: Offsets
    known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, column: pa.Array) -> Texts:
        """Return the texts of a column, plain or dictionary-encoded."""
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.string()).dictionary_encode()
        index = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        texts = cls(column.dictionary.cast(pa.string()), index)
        return texts.at(index >= 0) if len(texts.texts) > 2 * len(index) else texts

    @classmethod
    def shared(cls, columns: Sequence[pa.Array]) -> list[Texts]:
        """Return the texts of several columns as numbers of the same texts. Columns of a file that hold the same texts,
        as observations do, mostly have equal dictionaries.
        """
        first, *others = several = [cls.of(column) for column in columns]
        if all(texts.texts.equals(first.texts) for texts in others):
            return [cls(first.texts, texts.index, first.known) for texts in several]
        encoded = pa.concat_arrays([texts.texts for texts in several]).dictionary_encode()
        known: dict[Any, Any] = {}
        ends = np.cumsum([len(texts.texts) for texts in several])[:-1]
        numbers = np.split(encoded.indices.to_numpy().astype(np.int64), ends)
        return [
            cls(encoded.dictionary, texts.spread(number, -1), known)
            for texts, number in zip(several, numbers, strict=True)
        ]

    def at(self, rows: Flags) -> Texts:
        """Return the same rows, null where not chosen, with only the texts of the chosen rows, unless these are nearly
        all.
        """
        index = np.where(rows, self.index, -1)
        used = np.flatnonzero(np.bincount(index[index >= 0], minlength=len(self.texts)))
        if len(used) > 0.9 * len(self.texts):
            return Texts(self.texts, index, self.known)
        new_numbers = np.full(len(self.texts) + 1, -1, np.int64)
        new_numbers[used] = np.arange(len(used))
        chosen = Texts(self.texts.take(pa.array(used)), new_numbers[index])
        if words in self.known:
            hashes, offsets = self.known[words]
            number = np.diff(offsets)[used]
            chosen.known[words] = hashes[ranges(offsets[used], number)], np.concatenate([[0], np.cumsum(number)])
        return chosen

    def words(self) -> tuple[Keys, Places]:
        """Return a 64-bit hash of each word of each text, as `shingle.words`; computed on first use."""
        if words not in self.known:
            self.known[words] = words(self.texts)
        known: tuple[Keys, Places] = self.known[words]
        return known

    def over(self, fallback: Texts) -> Texts:
        """Return these texts, with those of `fallback` in null rows; both have the same number of rows."""
        texts = pa.concat_arrays([self.texts, fallback.texts])
        shifted = np.where(fallback.index >= 0, fallback.index + len(self.texts), -1)
        return Texts(texts, np.where(self.index >= 0, self.index, shifted))

    def mapped(self, texts: pa.StringArray) -> Texts:
        """Return the same rows with each text replaced by another one."""
        return Texts(texts, self.index)

    def text(self, row: int) -> str:
        """Return the text of a row; an empty one for null."""
        number = int(self.index[row])
        return str(self.texts[number]) if number >= 0 else ""

    def to_pylist(self) -> list[str]:
        """Return the text of each row; an empty one for null."""
        texts = [*self.texts.to_pylist(), ""]
        return [texts[number] for number in self.index.tolist()]

    def lower(self) -> Texts:
        """Return the texts with ASCII letters in lower case."""
        return self.mapped(pc.ascii_lower(self.texts))

    def spread(self, values: npt.NDArray[Any], absent: Any = 0) -> npt.NDArray[Any]:
        """Return the value of each row's text; `absent` for null."""
        return np.append(values, np.asarray(absent, values.dtype))[self.index]

    def matching(self, pattern: str) -> Flags:
        """Flag the rows whose text matches the pattern anywhere (RE2 syntax); null does not match."""
        if pattern not in self.known:
            self.known[pattern] = self._each(pc.match_substring_regex, pattern).astype(np.bool_)
        return self.spread(self.known[pattern], False)

    def matches(self, pattern: str) -> Offsets:
        """Count the matches of the pattern (RE2 syntax) in each row's text."""
        return self.spread(self._each(pc.count_substring_regex, pattern).astype(np.int64))

    def _each(self, find: Callable[[pa.StringArray, str], pa.Array], pattern: str) -> npt.NDArray[Any]:
        """Call the function on the texts, unless there are none: compiling a pattern takes long."""
        found: npt.NDArray[Any] = (
            find(self.texts, pattern).to_numpy(zero_copy_only=False) if len(self.texts) else np.zeros(0)
        )
        return found

    def sizes(self) -> Offsets:
        """Return the UTF-8 bytes of each row's text."""
        return self.spread(pc.binary_length(self.texts).to_numpy(zero_copy_only=False).astype(np.int64))
