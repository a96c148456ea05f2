"""Signals of next observations that the environment did not make, or that the log does not hold completely."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow.compute as pc

from trajmill.quality.fingerprint import struct_text
from trajmill.quality.signal import Measured, Numbers, Signal


class DanglingCall(Signal):
    """1 if there is no next observation, else 0."""

    name: ClassVar[str] = "dangling_call"
    measures: ClassVar[str] = "1: the log does not hold the next observation"

    def measure(self, measured: Measured) -> Numbers:
        return measured.batch["next_observation"].is_null().to_numpy(zero_copy_only=False).astype(np.float32)


class ForeignAnswer(Signal):
    """1 if the next observation is not the environment's own, so that no world model should learn it; else 0."""

    name: ClassVar[str] = "foreign_answer"
    measures: ClassVar[str] = "1: the next observation is not the environment's own"

    def measure(self, measured: Measured) -> Numbers:
        origin = struct_text(measured.batch, "next_observation", "origin")
        foreign = pc.not_equal(origin.dictionary, "environment").take(origin.indices)
        return pc.fill_null(foreign, False).to_numpy(zero_copy_only=False).astype(np.float32)


class HarnessAnswer(Signal):
    """1 if the harness made the next observation, else 0.

    Such a row tells nothing about the environment. Qwen-AgentWorld (arXiv 2606.24597, section 3.1.2) skips retries of
    this kind.
    """

    name: ClassVar[str] = "harness_answer"
    measures: ClassVar[str] = (
        "1: the harness made it: what it says to a last answer, or its request to write the action again"
    )

    def measure(self, measured: Measured) -> Numbers:
        return measured.texts("next_observation", "origin").matching("^harness$").astype(np.float32)


class RecorderCut(Signal):
    """1 if the log, not the harness, cut the next observation, else 0. A cut that the agent saw is learnable."""

    name: ClassVar[str] = "recorder_cut"
    measures: ClassVar[str] = "1: the log lost a part of the next observation"

    def measure(self, measured: Measured) -> Numbers:
        truncation = struct_text(measured.batch, "next_observation", "truncation")
        cut = pc.equal(truncation.dictionary, "recorder").take(truncation.indices)
        return pc.fill_null(cut, False).to_numpy(zero_copy_only=False).astype(np.float32)
