"""The published turn-level loss mask: see `quality.turns`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from quality.signal import Measured, Numbers, Signal
from quality.turns import keeps_loss


class TurnMask(Signal):
    """1 where the mask leaves the loss on the turn, else 0."""

    name: ClassVar[str] = "turn_mask"
    scope: ClassVar[str] = "transition"
    unit: ClassVar[str] = "0 or 1"

    def measure(self, measured: Measured) -> Numbers:
        return keeps_loss(measured).astype(np.float32)
