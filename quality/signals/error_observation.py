"""Answers that report an error of what the agent did: they teach the world too, but a corpus can hold too many.

What the log itself says goes first: its mark on the observation, or the exit code. Only where it says neither is the
text looked at, for what programs print as they die (tracebacks of Python, Java, JavaScript, Go, Rust, shells that find
no command), line by line; of a whole screen only if there is more of it than before the action.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quality.signal import Measured, Numbers, Signal
from quality.texts import Flags

PATTERN: Final = (
    r"(?m)(?:^Traceback \(most recent call last\):"
    r"|^(?:[A-Za-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception)(?:: |\r?$)"
    r"|^Exception in thread \"|^\s+at [\w$.<>]+ ?\([^()\n]*:\d+(?::\d+)?\)\r?$"
    r"|^panic: |^thread '[^'\n]*' panicked at |^Segmentation fault"
    r"|^(?:[\w./-]+: (?:line \d+: )?)+(?:command not found|No such file or directory|Permission denied)\r?$"
    r"|^zsh: command not found: |^make: \*\*\* |^fatal: |^npm ERR! |^error: |^ERROR: )"
)
"""What an error looks like (RE2 syntax)."""


def erroneous(measured: Measured) -> Flags:
    """Of each row whether its next observation reports an error."""
    batch = measured.batch
    marked = pc.struct_field(batch["next_observation"], "is_error")
    failed = pc.not_equal(batch["exit_code"], pa.scalar(0, pa.int32()))
    said = pc.coalesce(pc.or_kleene(marked, failed), marked, failed)
    silent = said.is_null().to_numpy(zero_copy_only=False)
    after = measured.texts("next_observation", "content").at(silent)
    counts = after.matches(PATTERN)
    screens = silent & (counts > 0) & measured.texts("next_observation", "form").matching("^screen$")
    before = measured.texts("observation", "content").at(screens).matches(PATTERN)
    return pc.fill_null(said, False).to_numpy(zero_copy_only=False) | (counts > before)


class ErrorObservation(Signal):
    """1 where the next observation reports an error, else 0."""

    name: ClassVar[str] = "error_observation"
    scope: ClassVar[str] = "transition"
    unit: ClassVar[str] = "0 or 1"

    def measure(self, measured: Measured) -> Numbers:
        return erroneous(measured).astype(np.float32)
