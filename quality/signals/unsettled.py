"""Signal of screens taken before they were complete, so that the captured moment cannot be known.

A screen counts if the next action only waits (or is empty) and the screen then changed by itself, or if the screen has
a line that is only "Loading…" or similar, or an element in the state `busy`.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from trajmill.quality.failure_words import has_failure_words
from trajmill.quality.screens import screens
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.signals.empty_action import empty_actions
from trajmill.quality.signals.no_op import flag_unchanged
from trajmill.quality.texts import Flags
from trajmill.schemas import WAIT

_WAITS: Final = (
    r'^\s*\[\s*\{"keystrokes": ""(, "duration": [0-9.]+)?\}(,\s*\{"keystrokes": ""(, "duration": [0-9.]+)?\})*\s*\]\s*$'
)
LOADING: Final = (
    r'(?im)^[ \t]*(?:#[0-9]+ [a-z0-9_.-]+ "(?:loading|please wait)(?:…|\.{3})?"[^\n]*'
    r"|(?:loading|please wait)(?:…|\.{3}))[ \t\r]*$"
    r'|^[ \t]*#[0-9]+ [a-z0-9_.-]+(?: (?:[a-z]+=)?"(?:[^"\\\n]|\\.)*")*(?: [a-z_]+)* busy(?: |$)'
)


def flag_unsettled(measured: Measured) -> Flags:
    """Flag the rows whose next observation is a screen that was still changing."""
    screen = measured.texts("next_observation", "form").matching("^screen$")
    waits = measured.texts("action", "name").matching(f"^{WAIT}$") | measured.texts("action", "text").matching(_WAITS)
    waits |= empty_actions(measured.batch).to_numpy(zero_copy_only=False)
    changed = waits & measured.once(screens).compared & ~measured.once(flag_unchanged)
    later = np.zeros_like(changed)
    later[:-1] = changed[1:] & (measured.trajectory[1:] == measured.trajectory[:-1])
    suspect = screen & measured.once(has_failure_words)
    loading = measured.texts("next_observation", "content").at(suspect).matching(LOADING)
    return screen & (later | loading)


class Unsettled(Signal):
    """1 if the next observation is a screen that was still changing, else 0."""

    name: ClassVar[str] = "unsettled"
    measures: ClassVar[str] = "1: a screen that changed while the agent then waited, or that says that it loads"

    def measure(self, measured: Measured) -> Numbers:
        return measured.around(flag_unsettled).astype(np.float32)
