"""The published turn-level loss mask: see `quality.turns`.

A turn that reports an error keeps its loss whatever its words: that the world refused, and why, is not in the action,
though an error message is mostly the action's words come back.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.signals.error_observation import erroneous
from trajmill.quality.turns import keeps_loss


class TurnMask(Signal):
    """1 where the mask leaves the loss on the turn, or the turn reports an error, else 0."""

    name: ClassVar[str] = "turn_mask"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = "1: the published mask leaves the loss on the turn, or it reports an error"

    def measure(self, measured: Measured) -> Numbers:
        return (keeps_loss(measured) | measured.around(erroneous)).astype(np.float32)
