"""Share of an answer that compression cannot tell from what stood before it: a cheap measure of what a model could
know.

The size of the next observation compressed by zstd with the text before it as a dictionary, over its size in bytes.
Near 0: it repeats what was there. Near the share of a text compressed alone: nothing before it helps. Slower than most
signals, since each row has a dictionary of its own: 30 to 50 MB of text a CPU-second each.
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
"""Bytes of the answer that are measured, the first: what a longer one costs is told by these."""

_LEVEL: Final = 1
_FRAME: Final = 9
"""Bytes of a frame that hold no content: magic number, header, and the header of a block."""


def compress_share(answer: bytes, before: bytes) -> float:
    """Return the bytes of `answer` compressed with `before` known, over its own bytes, at most 1; 0 of an empty answer.

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
    """Of each row what was shown before this trajectory's step, the observation, the action and the answer."""
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
    """Compressed share of the next observation where all that its trajectory showed and did before is known."""

    name: ClassVar[str] = "history_predictability"
    measures: ClassVar[str] = (
        "zstd size of the next observation, with the trajectory so far known, over its size: low is predictable"
    )

    def measure(self, measured: Measured) -> Numbers:
        shares = [compress_share(after, past + action + b"\n") for past, _, action, after in _rows(measured)]
        return np.array(shares, np.float32)


class StepPredictability(Signal):
    """Compressed share of the next observation where only the observation before and the action are known."""

    name: ClassVar[str] = "step_predictability"
    measures: ClassVar[str] = "the same with only the observation before and the action known"

    def measure(self, measured: Measured) -> Numbers:
        shares = [
            compress_share(after, before + b"\n" + action + b"\n") for _, before, action, after in _rows(measured)
        ]
        return np.array(shares, np.float32)
