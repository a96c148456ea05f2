"""Outcome of trajectories, by the log's own judgement of the task: a test suite, a verifier, the agent itself."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow.compute as pc

from trajmill.quality.signal import Measured, Numbers, Signal


class Outcome(Signal):
    """1 of a trajectory that solved its task, -1 of one that did not, 0 where the log does not say.

    A score without `resolved` does not say, since it is in the verifier's own range.
    """

    name: ClassVar[str] = "outcome"
    scope: ClassVar[str] = "trajectory"
    measures: ClassVar[str] = "1: the log says that the task was solved; -1: that it was not; 0: it does not say"

    def measure(self, measured: Measured) -> Numbers:
        solved = pc.struct_field(measured.batch["outcome"], "resolved")
        return pc.if_else(solved, 1, -1).fill_null(0).to_numpy(zero_copy_only=False).astype(np.float32)
