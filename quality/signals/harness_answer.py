"""Answers of the harness instead of the environment: to a last answer, to giving up, to a reply it cannot read."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.signal import Measured, Numbers, Signal


class HarnessAnswer(Signal):
    """1 where the harness made the next observation, else 0: such a row says nothing of the world (Qwen-AgentWorld,
    arXiv 2606.24597, section 3.1.2, skips retries of this kind).
    """

    name: ClassVar[str] = "harness_answer"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = (
        "1: the harness made it: what it says to a last answer, or its request to write the action again"
    )

    def measure(self, measured: Measured) -> Numbers:
        return measured.texts("next_observation", "origin").matching("^harness$").astype(np.float32)
