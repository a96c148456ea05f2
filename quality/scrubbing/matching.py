"""Pattern search in bytes with a linear-time engine, and checks that a find is a word of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import re2

from trajmill.quality.lazy_regex import Later

SLACK: Final = 512
"""Largest distance, in bytes, that a match may extend past the region in which it begins.

The patterns of finders are bounded by it.
"""


def compile_pattern(pattern: bytes, megabytes: int = 16, *, groups: bool = True) -> Any:
    """Compile the RE2 pattern over single bytes (Latin-1: a byte is a character).

    `megabytes` is the memory of its automaton. Without `groups`, matches have none, and each is found much faster.
    """
    return Later(lambda: re2.compile(pattern, _options(megabytes, groups)))


def _options(megabytes: int, groups: bool) -> Any:
    options = re2.Options()
    options.never_capture = not groups
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = megabytes << 20
    return options


def matches(pattern: Any, text: bytes, lo: int, hi: int) -> Iterator[re.Match[bytes]]:
    """Yield the disjoint matches that begin between `lo` and `hi`, from left to right."""
    for match in pattern.finditer(text, lo, min(hi + SLACK, len(text))):
        if match.start() >= hi:
            return
        yield match


_BACKSLASH: Final = 0x5C
_WORD: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_ESCAPE: Final = (
    rb"(?:\x1b|\\(?:u001[bB]|x1[bB]|033|e))\[[0-9;?]*[A-Za-z]"  # of a terminal: colours, modes
    rb"|\\(?:[abefnrtv0]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|%[0-9A-Fa-f]{2}"
)
_ESCAPED: Final = re.compile(rb"(?:" + _ESCAPE + rb")\Z")
_ESCAPES: Final = re.compile(_ESCAPE)
_ESCAPE_BYTES: Final = 24
_BEGINS_ESCAPE: Final = re.compile(rb"[\x1b\\%]")


def opens(text: bytes, start: int) -> bool:
    r"""Return True if a word may begin at `start`: after no letter, digit or `_`, or after an escape (`\n`, `%20`)."""
    if start == 0 or text[start - 1] not in _WORD:
        return True
    return _ESCAPED.search(text, max(0, start - _ESCAPE_BYTES), start) is not None


def past_escape(text: bytes, start: int) -> int:
    r"""`start`, or the end of the escape that it stands in: `n` in `\nbob` and `m` in `ESC[32mbob` are no name's."""
    if _BEGINS_ESCAPE.search(text, max(0, start - _ESCAPE_BYTES), start) is None:
        return start
    for match in _ESCAPES.finditer(text, max(0, start - _ESCAPE_BYTES), start + _ESCAPE_BYTES):
        if match.start() >= start:
            break
        if match.end() > start:
            return match.end()
    return start


def closes(text: bytes, end: int) -> bool:
    """Check whether a word may end at `end`, where no letter, digit or `_` follows."""
    return end >= len(text) or text[end] not in _WORD


def quoted_end(text: bytes, start: int, quote: bytes) -> int:
    r"""Return the end of a value that `quote` opened: `"`, `'` or a backtick, after the backslashes of its level of
    nesting.

    A quote after more backslashes belongs to the value, one after fewer ends it too (it closes what is around), and so
    does a line end.
    """
    mark, depth = quote[-1:], len(quote) - 1
    limit = _line_end(text, start)
    quote_at = text.find(mark, start, limit)
    while quote_at >= 0:
        first = quote_at
        while first > start and text[first - 1] == _BACKSLASH:
            first -= 1
        if quote_at - first <= depth:
            return first
        quote_at = text.find(mark, quote_at + 1, limit)
    return limit


def _line_end(text: bytes, start: int) -> int:
    limit = min(len(text), start + 8192)
    line_feed = text.find(b"\n", start, limit)
    return line_feed if line_feed >= 0 else limit
