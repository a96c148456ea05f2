"""Signal of commands that were killed at a time limit that nothing before them announced."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow.compute as pc

from trajmill.quality.lookback import earliest_rows
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.texts import Flags


def _flag_announced(measured: Measured) -> Flags:
    """Flag the rows whose time limit appears in the action itself, or in a row before it."""
    limited = pc.is_valid(measured.batch["time_limit_s"]).to_numpy(zero_copy_only=False)
    total = np.concatenate([[0], np.cumsum(limited)])
    before: Flags = total[:-1] > total[measured.once(earliest_rows)]
    return limited & (before | measured.texts("action", "arguments").matching('"timeout'))


class UnannouncedTimeout(Signal):
    """1 if the harness killed the action's command and its time limit was not known before, else 0.

    A model that knows the limit can learn when a command exceeds it; without the limit, the command seems to end at
    random. A log that names the limit only for killed commands would give the kill away.
    """

    name: ClassVar[str] = "unannounced_timeout"
    measures: ClassVar[str] = "1: killed when its time was up, of which nothing before it says how much it was"

    def measure(self, measured: Measured) -> Numbers:
        killed = pc.fill_null(measured.batch["timed_out"], False).to_numpy(zero_copy_only=False)
        return (killed & ~measured.around(_flag_announced)).astype(np.float32)
