"""Signal of next observations that are not text: bytes of an image, an archive or a program, shown as characters."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.shingle import buffers
from trajmill.quality.signal import Measured, Numbers, Signal

_BLOCK: Final = 1 << 18
_OF_TERMINALS: Final = b"\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x1b"
"""Control characters common in terminals and texts: bell, backspace, blanks, font changes, escape."""
_CONTROL: Final = np.array([(byte < 32 and byte not in _OF_TERMINALS) or byte == 127 for byte in range(256)])


def _binary_places(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return the positions of bytes, but for the last two, that begin a character that is not text."""
    suspect = (data < 32) & ((data < 7) | (data > 15)) & (data != 27)
    suspect |= (data == 127) | (data == 0xC2) | (data == 0xEF)
    at = np.flatnonzero(suspect[:-2])
    byte, second, third = (data[at + behind] for behind in range(3))
    upper = (byte == 0xC2) & (second < 0xA0)  # the control characters U+0080 to U+009F
    replacement = (byte == 0xEF) & (second == 0xBF) & (third == 0xBD)  # U+FFFD
    return at[_CONTROL[byte] | upper | replacement]


def binary_shares(texts: pa.StringArray) -> npt.NDArray[np.float64]:
    """Return the share of each text's characters that are control characters or U+FFFD; 0 for an empty text."""
    data, starts = buffers(texts)
    data = np.append(data, np.zeros(2, np.uint8))
    places = [
        begin + _binary_places(data[begin : min(begin + _BLOCK, int(starts[-1])) + 2])
        for begin in range(int(starts[0]), int(starts[-1]), _BLOCK)
    ]
    text = np.searchsorted(starts, np.concatenate([*places, np.zeros(0, np.int64)]), "right") - 1
    shares = np.bincount(text, minlength=len(texts)).astype(np.float64)
    some = np.flatnonzero(shares)
    shares[some] /= pc.utf8_length(texts.take(pa.array(some))).to_numpy()
    return shares


class BinaryContent(Signal):
    """Share of the next observation's characters that are control characters (except those of terminals) or U+FFFD."""

    name: ClassVar[str] = "binary_content"
    measures: ClassVar[str] = (
        "share of the next observation's characters that are control characters (not those of terminals) or U+FFFD"
    )

    def measure(self, measured: Measured) -> Numbers:
        texts = measured.texts("next_observation", "content")
        return texts.spread(binary_shares(texts.texts)).astype(np.float32)
