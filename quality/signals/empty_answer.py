"""Answers without a word: a stream or response that is empty, or blank but for escape sequences.

Most are those of commands that say nothing when they succeed (`cd`, `cp`), so they tell something of the world, but
the same thing every time. One that failed or found nothing says so by its exit code, which is an answer. Whether a
screen or state has changed is the matter of `no_op`.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import pyarrow.compute as pc

from trajmill.quality.signal import Measured, Numbers, Signal

_BLANK: Final = r"\A(?:\s|\x1b\[[0-9;?]*[A-Za-z])*\z"


class EmptyAnswer(Signal):
    """1 where the next observation is a stream or response without a word, else 0; none at all is no answer.

    Where the time of what ran was up, or its exit code is not 0, that is an answer.
    """

    name: ClassVar[str] = "empty_answer"
    measures: ClassVar[str] = "1: the stream or response is blank, and no exit code but 0 stands beside it"

    def measure(self, measured: Measured) -> Numbers:
        put_out = measured.texts("next_observation", "form").matching("^(?:stream|response)$")
        ended = ~pc.fill_null(measured.batch["timed_out"], False).to_numpy(zero_copy_only=False)
        ended &= pc.fill_null(measured.batch["exit_code"], 0).to_numpy(zero_copy_only=False) == 0
        return (ended & put_out & measured.texts("next_observation", "content").matching(_BLANK)).astype(np.float32)
