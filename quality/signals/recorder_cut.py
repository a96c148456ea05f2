"""Next observations of which the recorder lost a part, so that nobody could have predicted what is left."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow.compute as pc

from trajmill.quality.fingerprint import struct_text
from trajmill.quality.signal import Measured, Numbers, Signal


class RecorderCut(Signal):
    """1 where the log, not the harness, cut the next observation, else 0. A cut that the agent saw is learnable."""

    name: ClassVar[str] = "recorder_cut"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = "1: the log lost a part of the next observation"

    def measure(self, measured: Measured) -> Numbers:
        truncation = struct_text(measured.batch, "next_observation", "truncation")
        cut = pc.equal(truncation.dictionary, "recorder").take(truncation.indices)
        return pc.fill_null(cut, False).to_numpy(zero_copy_only=False).astype(np.float32)
