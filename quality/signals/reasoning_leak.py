"""Reasoning of the agent inside what the environment is said to have shown: a log read wrongly, or an echo of it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.leakage import shared
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.values import action_values


class ReasoningLeak(Signal):
    """The share of the runs of 8 words of the agent's reasoning that the next observation holds, without those that the
    observation before, the action or the instruction hold: what the agent read or wrote may be shown again, and words
    of the task are thought of and met alike.
    """

    name: ClassVar[str] = "reasoning_leak"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = (
        "share of the 8-word runs of the agent's reasoning that the next observation holds, but for those of "
        "the instruction"
    )

    def measure(self, measured: Measured) -> Numbers:
        reasoning = measured.texts("action", "reasoning")
        given = reasoning.index >= 0
        after, before = (measured.texts(s, "content").at(given) for s in ("next_observation", "observation"))
        done = measured.once(action_values).at(given)
        asked = measured.texts("task", "instruction").at(given)
        return shared(reasoning, [after], [before, done, asked]).astype(np.float32)
