"""The commonest find by far, told where the scan stands: a home folder written plainly, `/home/carol/`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from quality.scrubbing.kinds import Span
from quality.scrubbing.personal import is_common_user

_HOME: Final = re.compile(rb"/(home|Users)/([A-Za-z](?:[A-Za-z0-9_-]{0,30}[A-Za-z0-9_])?)(?=[/\s\"',;)\]])")
_BEFORE: Final = frozenset(b"\n\t\"'`=:(,")
_AFTER_SPACE: Final = frozenset(b"$#%:,;|&'\"=abcdfghijklmnopqrsuvwxyz-0123456789")
"""What may stand before a space before a path; not the `T` and `D` of an HTTP request's method."""


def plain_home(data: Any, start: int) -> Span | None:
    """The user's name in the home folder that begins at `start`; None where more has to be looked at to tell it."""
    if data[start] != 0x2F or not start:
        return None
    before = data[start - 1]
    if before not in _BEFORE and not (before == 0x20 and start > 1 and data[start - 2] in _AFTER_SPACE):
        return None
    match = _HOME.match(data, start)
    if match is None or _is_common(match[2]):
        return None
    return Span(start, match.end(), "home", kept=len(match[1]) + 2)


@lru_cache(maxsize=4096)
def _is_common(name: bytes) -> bool:
    return is_common_user(name)
