"""Answers that the prompt already gives, and reasoning that an observation repeats: a log read wrongly, or an echo."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from trajmill.quality.leakage import shared
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.turns import new_text
from trajmill.quality.values import action_values

_PROMPT: Final = (
    ("task", "instruction"),
    ("context", "initial_state"),
    ("context", "demonstrations"),
    ("context", "simulation_instruction"),
)


class ContextLeak(Signal):
    """The share of the runs of 8 words of what is new in the next observation that instruction, initial state,
    demonstrations or simulation instruction hold. Runs that the observation before or the action holds do not count:
    an answer may repeat them, whatever the prompt says.
    """

    name: ClassVar[str] = "context_leak"
    scope: ClassVar[str] = "transition"
    measures: ClassVar[str] = (
        "share of the 8-word runs of what is new that the instruction, initial state or demonstrations hold"
    )

    def measure(self, measured: Measured) -> Numbers:
        prompt = [measured.texts(*path) for path in _PROMPT]
        given = np.any([texts.index >= 0 for texts in prompt], axis=0)
        seen = measured.texts("observation", "content").at(given)
        done = measured.once(action_values).at(given)
        return shared(measured.once(new_text).at(given), prompt, [seen, done]).astype(np.float32)


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
