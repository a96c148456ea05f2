"""Signals of published measures of a turn, and of the loss mask derived from them: see `quality.turns`.

A turn that reports an error keeps its loss whatever its words. The refusal and its cause are not in the action,
although an error message mostly repeats the action's words.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.signals.error_observation import flag_errors
from trajmill.quality.turns import keeps_loss, turns


class Overlap(Signal):
    """OL: share of the words of the action's values that occur in the new text of the next observation."""

    name: ClassVar[str] = "overlap"
    measures: ClassVar[str] = "OL: share of the words of the action's values that what is new repeats"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(turns).overlap.astype(np.float32)


class Novelty(Signal):
    """Nov: share of the words of the new text in the next observation that do not occur in the action's values."""

    name: ClassVar[str] = "novelty"
    measures: ClassVar[str] = "Nov: share of the words of what is new that the action does not hold"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(turns).novelty.astype(np.float32)


class LengthRatio(Signal):
    """R: characters of the new text in the next observation over those of the action's values (at least one)."""

    name: ClassVar[str] = "length_ratio"
    measures: ClassVar[str] = "R: characters of what is new over those of the action's values"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(turns).ratio.astype(np.float32)


class TurnCategory(Signal):
    """Number of the category: 0 retrieval, 1 expansion, 2 action, 3 transform, 4 boilerplate, 5 echo, 6 other."""

    name: ClassVar[str] = "turn_category"
    measures: ClassVar[str] = "0 retrieval, 1 expansion, 2 action, 3 transform, 4 boilerplate, 5 echo, 6 other"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(turns).categories().astype(np.float32)


class TurnMask(Signal):
    """1 if the mask leaves the loss on the turn, or the turn reports an error, else 0."""

    name: ClassVar[str] = "turn_mask"
    measures: ClassVar[str] = "1: the published mask leaves the loss on the turn, or it reports an error"

    def measure(self, measured: Measured) -> Numbers:
        return (keeps_loss(measured) | measured.around(flag_errors)).astype(np.float32)
