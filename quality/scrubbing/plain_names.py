"""The commonest finds by far, told where the scan stands: `/home/carol/` and `carol@thinkpad:~` written plainly."""

from __future__ import annotations

import re
from typing import Final

from trajmill.quality.scrubbing.kinds import Kind, Span
from trajmill.quality.scrubbing.personal import USER_BYTES, is_common_account, line_prompts

_HOME: Final = re.compile(rb"/(home|Users)/([A-Za-z](?:[A-Za-z0-9_-]{0,30}[A-Za-z0-9_])?)(?=[/\s\"',;)\]])")
_BEFORE: Final = frozenset(b"\n\t\"'`=:(,")
_AFTER_SPACE: Final = frozenset(b"$#%:,;|&'\"=abcdfghijklmnopqrsuvwxyz-0123456789")
"""What may stand before a space before a path; not the `T` and `D` of an HTTP request's method."""

_HOST: Final = re.compile(rb"@[A-Za-z][A-Za-z0-9-]{0,62}:[~/]")
_SLASH: Final = ord("/")


def plain_names(data: bytes, start: int, begin: int, end: int, wanted: frozenset[Kind]) -> list[Span]:
    """The names in the home folder or prompt that a trigger at `start` marks; none where a finder has to look.

    Args:
        data: texts one after the other.
        start: of the trigger: a home folder's slash, or the last letter of a user's name.
        begin: where the text begins, from which the spans count.
        end: where it ends.
        wanted: the kinds that are looked for.
    """
    if data[start] == _SLASH:
        return _plain_home(data, start, begin, end)
    host = _HOST.match(data, start + 1, end)
    if host is None:
        return []
    shown = max(begin, start - USER_BYTES, data.rfind(b"\n", begin, start) + 1)
    at, moved = start + 1 - shown, shown - begin
    return [
        Span(moved + first, moved + last, kind, stays)
        for middle, first, last, kind, stays in line_prompts(data[shown : host.end()], wanted)
        if middle == at
    ]


def _plain_home(data: bytes, start: int, begin: int, end: int) -> list[Span]:
    if start == begin:
        return []
    before = data[start - 1]
    if before not in _BEFORE and not (before == 0x20 and start > begin + 1 and data[start - 2] in _AFTER_SPACE):
        return []
    match = _HOME.match(data, start, end)
    if match is None or is_common_account(match[2]):
        return []
    return [Span(start - begin, match.end() - begin, "home", kept=len(match[1]) + 2)]
