"""Signals of predictability: the size of an answer compressed with the text before it, a cheap measure of a model's
prior knowledge.

The next observation is compressed by zstd with the text before it as a dictionary; the signal is the compressed size
over its size in bytes. Near 0, the answer repeats earlier text. Near the ratio of the answer compressed alone, the
earlier text does not help. The signals are slower than most, since each row has a dictionary of its own: 30 to 50 MB of
text a CPU-second each.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import zstandard

from trajmill.quality.lookback import HISTORY
from trajmill.quality.signal import Measured, Numbers, Signal

ANSWER: Final = 64 << 10
"""First bytes of the answer that are measured; they stand for the whole of a longer answer."""

_LEVEL: Final = 1
_FRAME: Final = 9
"""Bytes of a frame without content: magic number, header, and the header of a block."""


def compress_share(answer: bytes, before: bytes) -> float:
    """Return the size of `answer` compressed with `before` as a dictionary, over its own size, at most 1; 0 for an
    empty answer.

    Both are cut: see `ANSWER` and `HISTORY`.
    """
    answer, before = answer[:ANSWER], before[-HISTORY:]
    if not answer:
        return 0.0
    known = (
        zstandard.ZstdCompressionDict(before, dict_type=zstandard.DICT_TYPE_RAWCONTENT) if len(before) >= 8 else None
    )
    plain = zstandard.ZstdCompressor(level=_LEVEL, dict_data=known, write_content_size=False)
    return float(min(max(len(plain.compress(answer)) - _FRAME, 0) / len(answer), 1.0))


_TEXTS: Final = (("observation", "content"), ("action", "text"), ("next_observation", "content"))


def _bytes(measured: Measured, struct: str, name: str) -> list[bytes | None]:
    texts = measured.texts(struct, name)
    data_of_texts = [*texts.texts.cast(pa.binary()).to_pylist(), None]
    return [data_of_texts[text_number] for text_number in texts.index.tolist()]


def _texts(measured: Measured) -> Iterator[tuple[bytes | None, bytes | None, bytes | None]]:
    return zip(*(_bytes(measured, *path) for path in _TEXTS), strict=True)


def _rows(measured: Measured) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """Yield, for each row, the trajectory's text before the step, the observation, the action and the answer."""
    begins, rows, first = set(measured.starts.tolist()), _texts(measured), 0
    if measured.before is not None:
        begins.discard(0)
        rows = chain(_texts(Measured.of(measured.before, measured.counter)), rows)
        first = -measured.before.num_rows
    history = bytearray()
    shown: bytes | None = None
    for row, (before, action, after) in enumerate(rows, first):
        if row in begins:
            history.clear()
            shown = None
        if before is not None and before != shown:
            history += before + b"\n"
        if row >= 0:
            yield bytes(history[-HISTORY:]), before or b"", action or b"", after or b""
        history += (action or b"") + b"\n" + (after or b"") + b"\n"
        del history[:-HISTORY]
        shown = after


class HistoryPredictability(Signal):
    """Compressed share of the next observation, given everything in the trajectory before it."""

    name: ClassVar[str] = "history_predictability"
    measures: ClassVar[str] = (
        "zstd size of the next observation, with the trajectory so far known, over its size: low is predictable"
    )

    def measure(self, measured: Measured) -> Numbers:
        shares = [compress_share(after, past + action + b"\n") for past, _, action, after in _rows(measured)]
        return np.array(shares, np.float32)


class StepPredictability(Signal):
    """Compressed share of the next observation, given only the observation before and the action."""

    name: ClassVar[str] = "step_predictability"
    measures: ClassVar[str] = "the same with only the observation before and the action known"

    def measure(self, measured: Measured) -> Numbers:
        shares = [
            compress_share(after, before + b"\n" + action + b"\n") for _, before, action, after in _rows(measured)
        ]
        return np.array(shares, np.float32)
