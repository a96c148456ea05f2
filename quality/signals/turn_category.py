"""What kind of turn it is by the published measures: see `quality.turns`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.turns import turns


class TurnCategory(Signal):
    """The category's number: 0 retrieval, 1 expansion, 2 action, 3 transform, 4 boilerplate, 5 echo, 6 other."""

    name: ClassVar[str] = "turn_category"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = "0 retrieval, 1 expansion, 2 action, 3 transform, 4 boilerplate, 5 echo, 6 other"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(turns).categories().astype(np.float32)
