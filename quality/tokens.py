"""Token counts, either exact under a tokenizer file that the recipe names, or estimated from the bytes of the text.

The estimate follows the way byte-pair encodings of current models split a text before they merge: a token for each
digit and for each run of punctuation, `0.6 + 0.1 n` for a word of n ASCII letters, 0.6 for a run of line breaks and
tabs, other characters by their script. docs/decisions/tokens.md gives its error. Token ids in outputs never come from
this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.sets import sums_before
from trajmill.quality.settings import ESTIMATE
from trajmill.quality.shingle import blocks
from trajmill.schemas import ConfigError

Counts: TypeAlias = npt.NDArray[np.int64]

_UNITS: Final = 20
"""Units of a token. All weights below are integers, whose sum does not depend on the order of rounding."""

_REMEMBERED: Final = 1 << 12
"""Texts whose token counts a counter caches."""

_DIGIT: Final = 20
_LETTER: Final = 0x40 | 14
_SIGN: Final = 0x80 | 20
_BREAK: Final = 0xC0 | 12
"""Codes of ASCII bytes: units of the first byte of a run, and in the upper bits the kind of run."""

_FIRST: Final = 0x3F
_GOES_ON: Final = 0x02
"""Masks for the units of a code: for the first byte of a run, and for those that follow (2 for letters, 0 for the
rest).
"""

_OTHERS: Final = (
    (0x80, 0xC0, 0),  # later bytes of a character
    (0xC0, 0xD0, 14),  # Latin letters with marks
    (0xD0, 0xE0, 7),  # Cyrillic, Hebrew, Arabic
    (0xE0, 0xE2, 22),  # scripts of India and others
    (0xE2, 0xE3, 24),  # typeset punctuation, arrows, boxes
    (0xE3, 0xEA, 12),  # kana and Chinese characters
    (0xEA, 0xEE, 14),  # Hangul
    (0xEE, 0x100, 40),  # private use, emoji
)
"""Ranges of non-ASCII bytes (from, to), and the units of each byte."""


def _codes() -> bytes:
    """Return the code of each byte."""
    codes = bytearray([_SIGN]) * 0x80 + bytearray(0x80)
    codes[0x20] = 0
    for byte in range(0x80):
        if chr(byte).isdigit():
            codes[byte] = _DIGIT
        elif chr(byte).isalpha():
            codes[byte] = _LETTER
        elif chr(byte) in "\t\n\r":
            codes[byte] = _BREAK
    for first, last, units in _OTHERS:
        codes[first:last] = bytes([units]) * (last - first)
    return bytes(codes)


_CODES: Final = _codes()


def _spread(count: Callable[[pa.Array], Counts], column: pa.Array) -> Counts:
    """Count each text of a column, plain or dictionary-encoded (then once a distinct text); 0 for null."""
    if not pa.types.is_dictionary(column.type):
        return count(column)
    counts = np.append(count(column.dictionary), 0)
    return counts[pc.fill_null(column.indices, len(counts) - 1).to_numpy(zero_copy_only=False)]


def _lengths(texts: pa.Array) -> Counts:
    return pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def _estimate(texts: pa.Array) -> Counts:
    units = np.zeros(len(texts), np.int64)
    for first, data, starts in blocks(texts):
        codes = np.frombuffer(data.tobytes().translate(_CODES), np.uint8)
        units[first : first + len(starts) - 1] = np.diff(sums_before(_units(codes, starts), starts))
    return -(-units // _UNITS)


def _units(codes: npt.NDArray[np.uint8], starts: Counts) -> npt.NDArray[np.uint64]:
    """Return the units of each byte, in groups of eight, of texts that begin at `starts` (the last of which is the
    end).

    No eight bytes add up to more than 180, as `sums_before` requires: a byte has at most 20 units, except for the first
    byte of a multi-byte character, whose other bytes have none.
    """
    eights = np.zeros(len(codes) // 8 + 1, np.uint64)
    mask = np.full(len(codes), _FIRST, np.uint8)
    begins = (codes[1:] != codes[:-1]) | (codes[1:] < _LETTER)
    np.multiply(begins.view(np.uint8), _FIRST & ~_GOES_ON, out=mask[1:])
    mask |= _GOES_ON
    mask[starts[:-1][np.diff(starts) > 0]] = _FIRST
    np.bitwise_and(codes, mask, out=eights.view(np.uint8)[: len(codes)])
    return eights


class TokenCounter:
    """Token counter for text columns.

    Args:
        tokenizer: `estimate`, or the path of a `tokenizer.json` file.

    Raises:
        ConfigError: There is no such file, or it is not a tokenizer.
    """

    def __init__(self, tokenizer: str = ESTIMATE) -> None:
        self.name = tokenizer
        self._exact: Any = None
        self._known: dict[str, int] = {}
        self._counted: dict[tuple[int, ...], tuple[pa.Array, Counts]] | None = None
        if tokenizer != ESTIMATE:
            if not Path(tokenizer).is_file():
                raise ConfigError(f"tokenizer: '{tokenizer}' is neither '{ESTIMATE}' nor a tokenizer.json file.")
            from tokenizers import Tokenizer

            try:
                self._exact = Tokenizer.from_file(tokenizer)
            except Exception as error:  # the library raises no narrower class
                raise ConfigError(f"tokenizer: '{tokenizer}' cannot be read: {error}") from error

    def count(self, column: pa.Array) -> Counts:
        """Count the tokens of each text of a column, plain or dictionary-encoded, without special tokens; 0 for
        null.
        """
        return _spread(self._once, column)

    @contextmanager
    def remember_columns(self) -> Iterator[None]:
        """Count the texts of each column or dictionary once within the block, which keeps them in memory."""
        self._counted = {}
        try:
            yield
        finally:
            self._counted = None

    def _once(self, texts: pa.Array) -> Counts:
        count = _estimate if self._exact is None else self._encoded
        if self._counted is None:
            return count(texts)
        key = texts.offset, len(texts), *(buffer.address for buffer in texts.buffers() if buffer is not None)
        if key not in self._counted:
            self._counted[key] = texts, count(texts)
        return self._counted[key][1]

    def of(self, text: str) -> int:
        """Count the tokens of a text and cache the result, for frequent texts such as headings."""
        if text not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[text] = int(self.count(pa.array([text], pa.string()))[0])
        return self._known[text]

    def _encoded(self, texts: pa.Array) -> Counts:
        words = [text or "" for text in texts.to_pylist()]
        return np.array([len(e) for e in self._exact.encode_batch_fast(words, add_special_tokens=False)], np.int64)


def text_bytes(column: pa.Array) -> Counts:
    """Return the UTF-8 bytes of each text of a column, plain or dictionary-encoded; 0 for null."""
    return _spread(_lengths, column)
