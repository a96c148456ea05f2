"""Signal of next observations that are not text: bytes of an image, an archive or a program, shown as characters."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from trajmill.quality.shingle import buffers
from trajmill.quality.signal import Measured, Numbers, Signal

_BLOCK: Final = 1 << 18
_OF_TERMINALS: Final = b"\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x1b"
"""Control characters common in terminals and texts: bell, backspace, blanks, font changes, escape."""
_CONTROL: Final = np.array([(byte < 32 and byte not in _OF_TERMINALS) or byte == 127 for byte in range(256)])
_FIRST: Final = np.array([byte & 0xC0 != 0x80 for byte in range(256)])
"""Bytes that begin a character in UTF-8."""

_ANY: Final = r"[\x00-\x06\x10-\x1a\x1c-\x1f\x7f-\x{9f}\x{fffd}]"
"""Pattern of the counted characters. Few texts contain any, and only those are counted exactly."""


def _mark_binary(data: np.ndarray) -> np.ndarray:
    """Mark each byte that begins a non-text character. The input has two bytes more than the result."""
    byte, second, third = data[:-2], data[1:-1], data[2:]
    upper = (byte == 0xC2) & (second < 0xA0)  # the control characters U+0080 to U+009F
    replacement = (byte == 0xEF) & (second == 0xBF) & (third == 0xBD)  # U+FFFD
    return _CONTROL[byte] | upper | replacement


def binary_shares(texts: pa.StringArray) -> np.ndarray:
    """Return the share of each text's characters that are control characters or U+FFFD; 0 for an empty text."""
    data, starts = buffers(texts)
    counts = np.zeros((2, len(starts)), np.int64)  # of all texts up to each start
    total = np.zeros(2, np.int64)
    for begin in range(int(starts[0]), int(starts[-1]), _BLOCK):
        end = min(begin + _BLOCK, int(starts[-1]))
        block = np.zeros(end - begin + 2, np.uint8)
        block[: len(data[begin : end + 2])] = data[begin : end + 2]
        sums = np.stack([np.cumsum(_mark_binary(block)), np.cumsum(_FIRST[block[:-2]])])
        low, high = np.searchsorted(starts, (begin, end), "right")
        at = starts[low:high] - begin - 1
        counts[:, low:high] = total[:, None] + sums[:, at]
        total += sums[:, -1]
    marked, characters = np.diff(counts)
    return marked / np.maximum(characters, 1)


class BinaryContent(Signal):
    """Share of the next observation's characters that are control characters (except those of terminals) or U+FFFD."""

    name: ClassVar[str] = "binary_content"
    measures: ClassVar[str] = (
        "share of the next observation's characters that are control characters (not those of terminals) or U+FFFD"
    )

    def measure(self, measured: Measured) -> Numbers:
        texts = measured.texts("next_observation", "content")
        texts = texts.at(texts.matching(_ANY))
        return texts.spread(binary_shares(texts.texts)).astype(np.float32)
