"""Finders of the names and devices of persons in fixed forms: commits, settings, address cards, listings.

Names in running prose are not looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trajmill.quality.scrubbing.kinds import Span
from trajmill.quality.scrubbing.matching import closes, compile_pattern, matches, past_escape
from trajmill.quality.scrubbing.personal import is_common_user
from trajmill.quality.scrubbing.placeholders import core_of, is_placeholder

_END: Final = rb"(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n|\\{0,8}[\"'<,]|$)"
_INITIAL: Final = rb"(?:[A-Z]|[\xc3-\xd0][\x80-\xbf])"
_PART: Final = _INITIAL + rb"(?:[a-z\x80-\xff.'-]|[a-z][A-Z][a-z]){0,24}"
_NAME: Final = _PART + rb"(?: (?:(?:van|von|de|der|den|da|di|du|la|le|bin|al|el|y) ){0,3}" + _PART + rb"){1,3}"
_ANY_NAME: Final = _PART + rb"(?: [A-Za-z\x80-\xff.'-]{1,24}){0,3}"
_QUOTE: Final = rb"\\{0,8}[\"']"

_NEXT: Final = rb"(?:\s|\\{1,8}[nrt]){1,8}"
_ROLE: Final = (
    rb"[Aa]uthors?|[Cc]ommit(?:ter)?|[Mm]aintainers?|[A-Z][a-z]+(?:-[a-z]+)?-by|Patch from|Reporter|Assignee|FN"
)
_FIELD: Final = rb"(?:full|first|last|display|real|given|family|author|owner)_?[nN]ame"

_PERSON: Final = (
    compile_pattern(
        rb"(" + _ANY_NAME + rb") {1,2}(?:<|&lt;|\\u003c)[\w.+\x80-\xff-]{1,64}@"
    ),  # RFC 5322, 3.4: name-addr
    compile_pattern(rb"(?:@author |(?:\b|\\[nrt])(?:" + _ROLE + rb"):) {0,8}(" + _NAME + rb")[ \t]{0,4}" + _END),
    compile_pattern(rb"(?:\b|\\[nrt])user\.name(?:=|\"? \\{0,8}[\"']?)(" + _ANY_NAME + rb")[ \t]{0,4}" + _END),
    compile_pattern(rb"(?:AUTHOR|COMMITTER|USER|REAL|FULL)_?NAME=" + _QUOTE + rb"?(" + _NAME + rb")[ \t]{0,4}" + _END),
    compile_pattern(
        rb"\[user\]"
        + _NEXT
        + rb"(?:email {0,4}= {0,4}[^\s\\]{1,80}"
        + _NEXT
        + rb")?name {0,4}= {0,4}("
        + _ANY_NAME
        + rb")"
        + _END
    ),
    compile_pattern(rb"\((" + _ANY_NAME + rb") {1,40}\d{4}-\d\d-\d\d \d\d:\d\d"),  # git blame
    compile_pattern(rb":[x*!]:[1-5]?\d{4}:\d{1,6}:(" + _NAME + rb")[,:]"),  # passwd(5)
    compile_pattern(
        _QUOTE + rb"(?:" + _FIELD + rb")" + _QUOTE + rb"\s{0,4}:\s{0,4}" + _QUOTE + rb"(" + _NAME + rb")" + _QUOTE
    ),
)
PERSON_TRIGGER: Final = (
    rb"[\w.'\x80-\xff-] {1,2}(?:<|&lt;|\\u003c)[\w.+\x80-\xff-]*@"
    rb"|(?:(?:" + _ROLE + rb"):|@author ) *[A-Z\xc3-\xd0][\w.'\x80-\xff-]* [\w\xc3-\xd0]"
    rb"|user\.name[=\" ]|(?:AUTHOR|COMMITTER|USER|REAL|FULL)_?NAME=[\"'\\]*[A-Z]|\[user\][\s\\]"
    rb"|\([A-Z][\w.' -]* \d{4}-\d\d-\d\d |:[x*!]:[1-5]?\d{4}:\d+:[A-Z]"
    rb"|[fltyrn]_?[nN]ame\\*[\"']\s*:\s*\\*[\"'][A-Z\xc3-\xd0][\w.'\x80-\xff-]* "
)
_NOBODY: Final = re.compile(
    rb"(?i).*\b(?:team|project|developers?|authors?|contributors?|foundation|inc|ltd|llc|gmbh|corp|corporation|company|bot"
    rb"|group|maintainers|community|software|labs?|university|the|list|support|admin|system|user|name|github|gitlab"
    rb"|rights|reserved|somebody|someone|janitor|google|microsoft|unknown|none|null|true|false|todo|date|reply|your|my|of|and|for|by|in|to|is)\b.*"
)
"""Words in names that are not of persons."""

_TO_NAME: Final = re.compile(rb"(?:(?i:from|copyright|by|cc|to|thanks|see|and|with|patch|reported|suggested|author) )*")
"""Words before a name that look like a part of it."""


def persons(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Find names before e-mail addresses, in commits and trailers, Git settings, address cards and lists of
    accounts.
    """
    for pattern in _PERSON:
        for match in matches(pattern, text, lo, hi):
            start, end = past_escape(text, match.start(1)), match.end(1)
            start = _TO_NAME.match(text, start, end).end()  # type: ignore[union-attr]
            name = text[start:end].rstrip(b" .")
            if name and not _NOBODY.fullmatch(name) and not is_common_user(name):
                yield Span(start, start + len(name), "person", is_placeholder(core_of(name)))


_IMEI: Final = compile_pattern(
    rb"(?i)(?:IMEI(?:SV)?|Device ID)[^\w\n]{0,4}(?:\(?(?:slot )?\d\)?)?[^\w\n]{0,8}(\d{15,16})"
)
_MAC: Final = compile_pattern(rb"[0-9a-fA-F]{2}(?:(?::[0-9a-fA-F]{2}){5}|(?:-[0-9a-fA-F]{2}){5})")
_NO_MAC: Final = re.compile(
    rb"(?i)00[:-]00[:-](?:00|5e)|00[:-]1[1a][:-]2[2b]|(?:(..)[:-])(?:\1[:-])+\1|.[2367abef]|.[13579bdf]"
)
"""MAC addresses that identify no maker's device: reserved, of examples, one byte repeated, locally administered, of a
group.
"""

DEVICE_TRIGGER: Final = (
    rb"(?i:IMEI|Device ID)[^\n]{0,16}\d{15}|[0-9a-fA-F](?:(?::[0-9a-fA-F]{2}){5}|(?:-[0-9a-fA-F]{2}){5})"
)
_RUNS_ON: Final = frozenset(b":-")


def devices(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Find IMEI numbers after a word for them, and MAC addresses of makers (IEEE 802)."""
    for match in matches(_IMEI, text, lo, hi):
        if closes(text, match.end()):
            start, end = match.span(1)
            yield Span(start, end, "device", is_placeholder(core_of(match.group(1))))
    for match in matches(_MAC, text, lo, hi):
        start, end = past_escape(text, match.start()), match.end()
        runs_on = end < len(text) and text[end] in _RUNS_ON and text[end + 1 : end + 2].isalnum()
        before = text[start - 1 : start]
        if (
            end - start == 17
            and closes(text, end)
            and not runs_on
            and not (before.isalnum() or before in (b":", b"-", b"_"))
        ):
            yield Span(start, end, "device", _NO_MAC.match(text, start, end) is not None)
