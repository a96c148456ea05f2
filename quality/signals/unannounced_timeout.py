"""Commands that were killed when their time was up, though nothing before them said how much time they had."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow.compute as pc

from trajmill.quality.lookback import earliest_rows
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.texts import Flags


def _flag_announced(measured: Measured) -> Flags:
    """Flag the rows whose limit stands in the action itself, or on a row before it."""
    limited = pc.is_valid(measured.batch["time_limit_s"]).to_numpy(zero_copy_only=False)
    total = np.concatenate([[0], np.cumsum(limited)])
    before: Flags = total[:-1] > total[measured.once(earliest_rows)]
    return limited & (before | measured.texts("action", "arguments").matching('"timeout'))


class UnannouncedTimeout(Signal):
    """1 where the harness killed what the action started and its limit was not known before, else 0.

    Whoever knows the limit can learn when a command does not end in time; whoever does not sees it end at random. A
    limit that a log names only where it killed would give away that it did.
    """

    name: ClassVar[str] = "unannounced_timeout"
    measures: ClassVar[str] = "1: killed when its time was up, of which nothing before it says how much it was"

    def measure(self, measured: Measured) -> Numbers:
        killed = pc.fill_null(measured.batch["timed_out"], False).to_numpy(zero_copy_only=False)
        return (killed & ~measured.around(_flag_announced)).astype(np.float32)
