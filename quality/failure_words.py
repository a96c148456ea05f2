"""Words of texts about failures, errors and screens that load.

The patterns of these texts are too many to be searched in each text. All their words are sought in a single pass, and
few texts hold any.
"""

from __future__ import annotations

from typing import Final

from trajmill.quality.signal import Measured
from trajmill.quality.texts import Flags

WORDS: Final = (
    r"robot|are (?:a )?human|captcha|unusual traffic|checking your browser|attention required|bad gateway|unavailable"
    r"|gateway time|too many requests|be reached|err_|aw, snap|browser has been closed|page crashed"
    r"|has stopped|keeps stopping|t responding|null root node|idle state|adb: "
    r"|\[server exited|\[lost server|/tmp/tmux|allocate memory|exec failed|send disconnect|by remote host|is dead"
    r"|disconnected unexpectedly|closed before response"
    r"|error|exception|traceback|:[0-9]+\)|panic|segmentation fault|not found|no such file|permission denied"
    r"|make: \*|fatal: |npm err"
    r"|loading|please wait|busy"
    r"|[ſK]"  # what matches `s` and `k` whatever the case
)
"""Pattern of the words, in lower case (RE2 syntax): what `environment_failure`, `error_observation` and `unsettled`
search a text for holds one of them.
"""


def has_failure_words(measured: Measured) -> Flags:
    """Flag the rows whose next observation holds such a word. Call it through `Measured.once`."""
    return measured.texts("next_observation", "content").lower().matching(WORDS)
