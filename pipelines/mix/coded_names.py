"""Dictionary-encoded strings: a byte or two for each of millions of names with few distinct values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Codes = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of names.

    Attributes:
        names: the distinct names; None stands for an unknown name.
    """

    codes: Codes
    names: tuple[str | None, ...]

    @classmethod
    def of(cls, texts: Iterable[str | None] | pa.Array) -> Coded:
        """Build the column of these texts."""
        plain = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
        encoded = plain.cast(pa.string()).dictionary_encode()
        names = encoded.dictionary.to_pylist()
        codes = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
        return cls(fitting(codes, len(names)), (*names, None) if encoded.null_count else tuple(names))

    @classmethod
    def alike(cls, name: str, count: int) -> Coded:
        """Build a column of `count` equal names."""
        return cls(np.zeros(count, np.uint8), (name,))

    @classmethod
    def joined(cls, columns: Sequence[Coded]) -> Coded:
        """Concatenate columns."""
        numbers: dict[str | None, int] = {}
        new_codes = [
            np.array([numbers.setdefault(name, len(numbers)) for name in column.names], np.int64) for column in columns
        ]
        codes = np.empty(sum(map(len, columns)), np.min_scalar_type(len(numbers)))
        begin = 0
        for column, new_code in zip(columns, new_codes, strict=True):
            codes[begin : begin + len(column)] = new_code[column.codes]
            begin += len(column)
        return cls(codes, tuple(numbers))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Coded:
        return Coded(self.codes[rows], self.names)

    def tolist(self) -> list[str | None]:
        """Return the name of each row."""
        return [self.names[code] for code in self.codes.tolist()]

    def is_in(self, names: Collection[str | None]) -> npt.NDArray[np.bool_]:
        """Flag the rows whose name is among these."""
        is_member: npt.NDArray[np.bool_] = np.array([name in names for name in self.names], np.bool_)[self.codes]
        return is_member

    def held(self) -> list[str | None]:
        """Return the names that occur in the rows."""
        counts = np.bincount(self.codes, minlength=len(self.names))
        return [name for name, count in zip(self.names, counts.tolist(), strict=True) if count]

    def texts(self) -> pa.Array:
        """Return the names as an array of texts."""
        return pa.array(self.names, pa.string()).take(pa.array(self.codes))


def as_coded(values: Coded | npt.NDArray[Any]) -> Coded:
    """Return the column of names, which may be given as objects."""
    return values if isinstance(values, Coded) else Coded.of(values.tolist())


def fitting(values: npt.NDArray[Any], most: int) -> Codes:
    """Convert numbers of at most `most` to the smallest unsigned type that holds it."""
    return values.astype(np.min_scalar_type(most), copy=False)


_DIGITS: Final = np.array([f"{number:02x}" for number in range(256)], "S2").view(np.uint16)


def hex_texts(values: npt.NDArray[np.uint64]) -> pa.Array:
    """Format each number as 16 hex digits."""
    digits = _DIGITS[values.astype(">u8").view(np.uint8)]
    ends = np.arange(len(values) + 1, dtype=np.int32) * 16
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends), pa.py_buffer(digits))


def numbers_of(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """Parse texts of hex digits."""
    return np.array([int(text, 16) for text in texts.to_pylist()], np.uint64)
