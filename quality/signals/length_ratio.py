"""How long the answer is beside the action: see `quality.turns`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.turns import turns


class LengthRatio(Signal):
    """R: characters of what is new in the next observation over those of the action's values (at least one)."""

    name: ClassVar[str] = "length_ratio"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = "R: characters of what is new over those of the action's values"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(turns).ratio.astype(np.float32)
