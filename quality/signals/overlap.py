"""How much of the action the world says back: see `quality.turns`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.turns import turns


class Overlap(Signal):
    """OL: the share of the words of the action's values that stand in what is new in the next observation."""

    name: ClassVar[str] = "overlap"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = "OL: share of the words of the action's values that what is new repeats"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(turns).overlap.astype(np.float32)
