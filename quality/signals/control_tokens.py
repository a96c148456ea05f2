"""Signal of control tokens of chat templates in texts that a model would see. A tokenizer would end a turn there.

`quality.control_strings` lists the tokens.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from trajmill.quality.control_strings import PATTERNS
from trajmill.quality.signal import Measured, Numbers, Signal

_SHOWN: Final = (("observation", "content"), ("action", "text"), ("next_observation", "content"))
_PROMPT: Final = ("action_space", "initial_state", "demonstrations", "simulation_instruction")


class ControlTokens(Signal):
    """1 if the observation, action, next observation, notes between turns or the system prompt contain one, else 0."""

    name: ClassVar[str] = "control_tokens"
    measures: ClassVar[str] = (
        "1: a chat template's token such as `<|im_start|>` or `[INST]` in what a sample would show"
    )

    def measure(self, measured: Measured) -> Numbers:
        paths = (*_SHOWN, *(("context", name) for name in _PROMPT), ("", "interleaved"))
        texts = [measured.texts(*path) for path in paths]
        return np.any([column.matching(pattern) for column in texts for pattern in PATTERNS], axis=0).astype(np.float32)
