"""Signal of actions after which nothing visible has changed.

A screen or state is compared with the one before in canonical form: without trailing blanks of lines and trailing empty
lines (`uitree/1` texts are canonical otherwise). Pictures are not compared. A stream or response holds only new
content, so it is compared with nothing; see `empty_answer`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.screens import canonical_hashes, screens
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.texts import Flags


def flag_unchanged(measured: Measured) -> Flags:
    """Flag the rows whose screen or state after the action equals the one before."""
    seen = measured.once(screens)
    hashes = np.append(canonical_hashes(seen.lines, seen.hashes), np.uint64(0))
    return seen.compared & (hashes[seen.before] == hashes[seen.after])


class NoOp(Signal):
    """1 if the screen or state after the action equals the one before, else 0."""

    name: ClassVar[str] = "no_op"
    measures: ClassVar[str] = "1: the screen or state is as before in canonical form"

    def measure(self, measured: Measured) -> Numbers:
        return measured.once(flag_unchanged).astype(np.float32)
