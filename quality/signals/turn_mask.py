"""Published measures of a turn, and the loss mask made of them: see `quality.turns`.

A turn that reports an error keeps its loss whatever its words: that the world refused, and why, is not in the action,
though an error message is mostly the action's words come back.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.signals.error_observation import flag_errors
from trajmill.quality.turns import keeps_loss, turns


class Overlap(Signal):
    """OL: the share of the words of the action's values that stand in what is new in the next observation."""

    name: ClassVar[str] = "overlap"
    measures: ClassVar[str] = "OL: share of the words of the action's values that what is new repeats"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(turns).overlap.astype(np.float32)


class Novelty(Signal):
    """Nov: the share of the words of what is new in the next observation that do not stand in the action's values."""

    name: ClassVar[str] = "novelty"
    measures: ClassVar[str] = "Nov: share of the words of what is new that the action does not hold"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(turns).novelty.astype(np.float32)


class LengthRatio(Signal):
    """R: characters of what is new in the next observation over those of the action's values (at least one)."""

    name: ClassVar[str] = "length_ratio"
    measures: ClassVar[str] = "R: characters of what is new over those of the action's values"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(turns).ratio.astype(np.float32)


class TurnCategory(Signal):
    """The category's number: 0 retrieval, 1 expansion, 2 action, 3 transform, 4 boilerplate, 5 echo, 6 other."""

    name: ClassVar[str] = "turn_category"
    measures: ClassVar[str] = "0 retrieval, 1 expansion, 2 action, 3 transform, 4 boilerplate, 5 echo, 6 other"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(turns).categories().astype(np.float32)


class TurnMask(Signal):
    """1 where the mask leaves the loss on the turn, or the turn reports an error, else 0."""

    name: ClassVar[str] = "turn_mask"
    measures: ClassVar[str] = "1: the published mask leaves the loss on the turn, or it reports an error"

    def measure(self, measured: Measured) -> Numbers:
        return (keeps_loss(measured) | measured.around(flag_errors)).astype(np.float32)
