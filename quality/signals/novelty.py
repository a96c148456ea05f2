"""How much of the answer the action did not hold: see `quality.turns`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.turns import turns


class Novelty(Signal):
    """Nov: the share of the words of what is new in the next observation that do not stand in the action's values."""

    name: ClassVar[str] = "novelty"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = "Nov: share of the words of what is new that the action does not hold"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(turns).novelty.astype(np.float32)
