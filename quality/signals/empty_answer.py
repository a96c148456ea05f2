"""Signal of answers without a word: a stream or response that is empty, or blank except for escape sequences.

Most come from commands that print nothing on success (`cd`, `cp`): information about the environment, but always the
same. A command that failed or found nothing says so by its exit code, which is an answer. `no_op` covers unchanged
screens and states.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import pyarrow.compute as pc

from trajmill.quality.signal import Measured, Numbers, Signal

_BLANK: Final = r"\A(?:\s|\x1b\[[0-9;?]*[A-Za-z])*\z"


class EmptyAnswer(Signal):
    """1 if the next observation is a stream or response without a word, else 0.

    A missing next observation gives 0. So does a timeout or an exit code other than 0, since both are answers.
    """

    name: ClassVar[str] = "empty_answer"
    measures: ClassVar[str] = "1: the stream or response is blank, and no exit code but 0 stands beside it"

    def measure(self, measured: Measured) -> Numbers:
        put_out = measured.texts("next_observation", "form").matching("^(?:stream|response)$")
        ended = ~pc.fill_null(measured.batch["timed_out"], False).to_numpy(zero_copy_only=False)
        ended &= pc.fill_null(measured.batch["exit_code"], 0).to_numpy(zero_copy_only=False) == 0
        return (ended & put_out & measured.texts("next_observation", "content").matching(_BLANK)).astype(np.float32)
