"""Signals of the number of turns that the environment answers, and of the length of turns in tokens."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from trajmill.quality.sets import distinct, join_keys, split
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.signals.empty_action import empty_actions
from trajmill.quality.signals.length import transition_tokens


class Turns(Signal):
    """Number of turns with at least one action that is not empty and has a next observation."""

    name: ClassVar[str] = "turns"
    scope: ClassVar[str] = "trajectory"
    measures: ClassVar[str] = "turns with an action that is not empty and a next observation"

    def measure(self, measured: Measured) -> Numbers:
        batch = measured.batch
        observed = batch["next_observation"].is_valid().to_numpy(zero_copy_only=False)
        counts = observed & ~empty_actions(batch).to_numpy(zero_copy_only=False)
        trajectory, turn = measured.trajectory[counts], batch["turn"].to_numpy()[counts]
        turns, _ = split(distinct(join_keys(trajectory, turn.astype(np.uint32))))
        return measured.spread(np.bincount(turns, minlength=len(measured.starts)).astype(np.float64))

    def joined(self, told: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]) -> float:
        return float(told.sum(dtype=np.float64))


class TurnTokens(Signal):
    """Tokens of the row's turn: all its actions and next observations, on each of its rows."""

    name: ClassVar[str] = "turn_tokens"
    measures: ClassVar[str] = "tokens of the turn that it belongs to: all its actions and next observations"

    def measure(self, measured: Measured) -> Numbers:
        tokens = measured.once(transition_tokens)
        turn, trajectory = measured.batch["turn"].to_numpy(), measured.trajectory
        begins = np.ones(len(turn), np.bool_)
        begins[1:] = (turn[1:] != turn[:-1]) | (trajectory[1:] != trajectory[:-1])
        starts = np.flatnonzero(begins)
        sums = np.add.reduceat(tokens, starts) if len(starts) else tokens
        return np.repeat(sums, np.diff(np.append(starts, len(turn)))).astype(np.float32)
