"""Answers that did not come from the environment: from the user, another agent or the harness."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow.compute as pc

from trajmill.quality.fingerprint import struct_text
from trajmill.quality.signal import Measured, Numbers, Signal


class ForeignAnswer(Signal):
    """1 where the next observation is not the environment's own, else 0: no world model should learn to say it."""

    name: ClassVar[str] = "foreign_answer"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = "1: the next observation is not the environment's own"

    def measure(self, measured: Measured) -> Numbers:
        origin = struct_text(measured.batch, "next_observation", "origin")
        foreign = pc.not_equal(origin.dictionary, "environment").take(origin.indices)
        return pc.fill_null(foreign, False).to_numpy(zero_copy_only=False).astype(np.float32)
