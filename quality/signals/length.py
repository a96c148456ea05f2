"""Signal of the length of a trajectory in tokens."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.quality.fingerprint import struct_text
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.texts import Texts


def transition_tokens(measured: Measured) -> npt.NDArray[np.int64]:
    """Return the tokens of each row's action and next observation. Call it through `Measured.once`, since it is
    expensive.
    """
    action = measured.counter.count(struct_text(measured.batch, "action", "text"))
    return action + measured.counter.count(struct_text(measured.batch, "next_observation", "content"))


class Length(Signal):
    """Tokens of a trajectory: instruction, first observation, actions and next observations."""

    name: ClassVar[str] = "length"
    scope: ClassVar[str] = "trajectory"
    measures: ClassVar[str] = "tokens of instruction, first observation, actions and next observations"

    def measure(self, measured: Measured) -> Numbers:
        batch, starts = measured.batch, measured.starts
        total = measured.summed(measured.once(transition_tokens).astype(np.float64))
        begun = batch["step"].to_numpy()[starts] == 0
        first = pa.array(starts[begun])
        for struct, name in (("task", "instruction"), ("observation", "content")):
            texts = Texts.of(struct_text(batch, struct, name).take(first))
            total[begun] += texts.spread(measured.counter.count(texts.texts))
        return measured.spread(total)

    def joined(self, told: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]) -> float:
        return float(told.sum(dtype=np.float64))
