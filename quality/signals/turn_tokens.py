"""How long a turn is for a model that reads it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.signals.length import transition_tokens


class TurnTokens(Signal):
    """Tokens of the turn that a row belongs to: of all its actions and next observations, on each of its rows."""

    name: ClassVar[str] = "turn_tokens"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = "tokens of the turn that it belongs to: all its actions and next observations"

    def measure(self, measured: Measured) -> Numbers:
        tokens = measured.once(transition_tokens)
        turn, trajectory = measured.batch["turn"].to_numpy(), measured.trajectory
        begins = np.ones(len(turn), np.bool_)
        begins[1:] = (turn[1:] != turn[:-1]) | (trajectory[1:] != trajectory[:-1])
        starts = np.flatnonzero(begins)
        sums = np.add.reduceat(tokens, starts) if len(starts) else tokens
        return np.repeat(sums, np.diff(np.append(starts, len(turn)))).astype(np.float32)
