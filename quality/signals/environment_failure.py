"""Signal of broken environments, whose output is no answer to the action.

The text of the screen or stream decides, by domain: crashed systems and apps, CAPTCHA pages, error pages of gateways
and of the browser itself, lost shells and devices, empty screens. Pages about errors use the words of error pages, so
those words count only on short pages. An error that answers the action (a failed command, a refusing tool, a page that
is not found) is no failure of the environment.

In a network recording, where some request among hundreds always fails, only its first document counts, and it decides
for all rows: if the page itself did not load, nothing after it comes from the site.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from trajmill.quality.failure_words import has_failure_words
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.texts import Flags

SHORT: Final = 4000
"""Largest size of a short page, in UTF-8 bytes."""

_STOPPED: Final = (
    r"(?i)(unfortunately, [^\n]{1,60} has stopped|[^\n] (?:keeps stopping|isn[’']t responding)"
    r"|process system isn[’']t responding|null root node returned by uitestautomationbridge|could not get idle state"
    r"|adb: (?:error: )?(?:device offline|no devices/emulators found|device '[^'\n]+' not found))"
)
_PAGE: Final = (
    r"(?i)(are you a robot|i[’']m not a robot|verify(?:ing)? (?:that )?you are (?:a )?human|complete the captcha"
    r"|unusual traffic from your computer network|checking your browser before accessing"
    r"|attention required! \| cloudflare"
    r"|\b(?:502 bad gateway|503 service (?:temporarily )?unavailable|504 gateway time-?out|429 too many requests)\b"
    r"|\b500 internal server error\b|error 5[0-2][0-9]: [^\n]{0,60}(?:timed out|web server)"
    r"|this site can[’']t be reached"
    r"|\berr_(?:name_not_resolved|connection_\w+|internet_disconnected|timed_out|tunnel_connection_failed|ssl_\w+)\b"
    r"|aw, snap!|target page, context or browser has been closed|page crashed)"
)
_TERMINAL: Final = (
    r"(?i)(\[server exited unexpectedly\]|\[lost server\]|no server running on /tmp/tmux|error connecting to /tmp/tmux"
    r"|cannot allocate memory\s*$|fork: (?:retry: )?resource temporarily unavailable|input/output error\s*$"
    r"|oci runtime exec failed|error response from daemon: container [^\n]{1,80} is not running"
    r"|client_loop: send disconnect: |connection to [^\s]{1,80} closed by remote host|\bpane is dead\b)"
)
PATTERNS: Final = {
    "android": (_STOPPED, _PAGE),
    "web": (_STOPPED, _PAGE),
    "os": (_STOPPED, _PAGE),
    "terminal": (_TERMINAL, None),
    "swe": (_TERMINAL, None),
    "search": (None, _PAGE),
    "mcp": (r"(?i)(server (?:transport )?disconnected unexpectedly|connection closed before response)", None),
}
"""Patterns of each domain's failures: on any page, and on short pages (RE2 syntax)."""

_SCREENS: Final = "^(?:android|web|os)$"


def flag_failures(measured: Measured) -> Flags:
    """Flag the rows whose next observation shows a broken environment."""
    domain = measured.texts("", "domain")
    recorded = measured.texts("next_observation", "media_type").matching("^message/http$")
    first = measured.batch["step"].to_numpy(zero_copy_only=False) == 0
    document = recorded & first & measured.texts("action", "arguments").matching('"resource_type": ?"document"')
    content = measured.texts("next_observation", "content")
    empty = domain.matching(_SCREENS) & measured.texts("next_observation", "form").matching("^screen$")
    broken = empty & content.matching(r"\A\s*\z")
    suspect = measured.once(has_failure_words)
    short: npt.NDArray[np.bool_] = content.sizes() <= SHORT
    for domain_number, name in enumerate(domain.texts.to_pylist()):
        here = suspect & (domain.index == domain_number)
        for pattern, rows in zip(PATTERNS[name], (here, here & short), strict=True):
            if pattern is not None and rows.any():
                broken |= content.at(rows).matching(pattern)
    unloaded = (measured.summed((broken & document).astype(np.float64)) > 0)[measured.trajectory]
    return np.where(recorded, unloaded, broken)


class EnvironmentFailure(Signal):
    """Share of a trajectory's next observations that show a broken environment."""

    name: ClassVar[str] = "environment_failure"
    scope: ClassVar[str] = "trajectory"
    measures: ClassVar[str] = (
        "share of next observations that show a broken environment: CAPTCHA, error page, lost shell, no screen; of a "
        "network recording the document that it begins with counts for all"
    )

    def measure(self, measured: Measured) -> Numbers:
        return measured.share(flag_failures(measured))
