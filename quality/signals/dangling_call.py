"""Actions whose result the log does not hold: nothing can be learnt from them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.signal import Measured, Numbers, Signal


class DanglingCall(Signal):
    """1 where there is no next observation, else 0."""

    name: ClassVar[str] = "dangling_call"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = "1: the log does not hold the next observation"

    def measure(self, measured: Measured) -> Numbers:
        return measured.batch["next_observation"].is_null().to_numpy(zero_copy_only=False).astype(np.float32)
