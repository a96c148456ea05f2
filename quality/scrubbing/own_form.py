"""Finders of secrets with a form of their own: keys and tokens of known issuers, JSON Web Tokens, private keys.

A finder searches one region of a text and yields the finds that begin in it, from left to right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trajmill.quality.lazy_regex import Later
from trajmill.quality.scrubbing.issuers import BY_BEGINNING, BY_MIDDLE, trigger
from trajmill.quality.scrubbing.kinds import Kind, Span
from trajmill.quality.scrubbing.matching import compile_pattern, matches, opens
from trajmill.quality.scrubbing.values import is_dummy, is_wordy

ISSUED_TRIGGER: Final = b"|".join(
    [*(b"(?:" + trigger(form) + b")" for form in BY_BEGINNING), *(b"(?:" + middle + b")" for middle, _, _ in BY_MIDDLE)]
)
_SEED: Final = compile_pattern(ISSUED_TRIGGER, 64)
_FORMS: Final = (*BY_BEGINNING, *(form for _, _, form in BY_MIDDLE))
_ISSUED: Final = Later(
    lambda: re.compile(b"|".join(form.stays + b"((?>" + form.secret + b"))(?![A-Za-z0-9_])" for form in _FORMS))
)
"""One group per form; a longer run of the secret's alphabet does not match."""

_MIDDLES: Final = tuple((re.compile(middle), re.compile(before)) for middle, before, _ in BY_MIDDLE)
_BEFORE_MIDDLE: Final = 80
_SEPARATOR: Final = re.compile(rb"[_.-]")


def find_issued(text: bytes, lo: int, hi: int, wanted: frozenset[Kind]) -> Iterator[Span]:
    """Find keys and tokens of known issuers, without words that begin alike; documented examples stay."""
    after = lo
    for seed in matches(_SEED, text, lo, hi):
        start = seed.start()
        span = _find_at(text, start, after) or _find_around(text, start, after)
        if span:
            after = span.end
            if span.kind in wanted:
                yield span


def _find_around(text: bytes, middle: int, after: int) -> Span | None:
    """Find an issued secret with its fixed letters at `middle` that begins at `after` or later."""
    for pattern, before in _MIDDLES:
        if pattern.match(text, middle):
            back = before.search(text, max(after, middle - _BEFORE_MIDDLE), middle)
            return _find_at(text, back.start(), after) if back else None
    return None


def _find_at(text: bytes, start: int, after: int) -> Span | None:
    match = _ISSUED.match(text, start) if start >= after and opens(text, start) else None
    if match is None:
        return None
    body = match[match.lastindex or 1]
    if _SEPARATOR.search(body) and is_wordy(body):
        return None
    kind = _FORMS[(match.lastindex or 1) - 1].kind
    return Span(start, match.end(), kind, is_dummy(body), match.start(match.lastindex or 1) - start)


JWT_TRIGGER: Final = rb"eyJ[\w-]{8}"
_JWT_HEAD: Final = compile_pattern(JWT_TRIGGER)
_JWT_CLAIMS: Final = compile_pattern(rb"eyJ[A-Za-z0-9_-]+\.e[wy][A-Za-z0-9_-]+\.")
_JWT_PART: Final = compile_pattern(rb"[A-Za-z0-9_-]*")
_JWT_SHORTEST: Final = 16


def signatures(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Yield the signature of each JSON Web Token (RFC 7519); its header and claims are ordinary base64 bodies."""
    after = lo
    for head in matches(_JWT_HEAD, text, lo, hi):
        start = head.start()
        if start < after:
            continue
        claims = _JWT_CLAIMS.match(text, start)
        after = claims.end() if claims else _JWT_PART.match(text, start).end()
        match = _JWT_PART.match(text, after) if claims else None
        if match and match.end() - after >= _JWT_SHORTEST:
            yield Span(start, match.end(), "jwt", kept=after - start)


PEM_TRIGGER: Final = rb"PRIVATE KEY(?: BLOCK)?-----|Private-Lines: \d"
_PEM_BEGIN: Final = compile_pattern(rb"-----BEGIN [A-Z0-9 ]{0,20}PRIVATE KEY(?: BLOCK)?-----|Private-Lines: \d{1,3}")
_PEM_PART: Final = re.compile(
    rb"(?:\x1b|\\+(?:u001[bB]|x1[bB]|033|e))\[[0-9;?]*[A-Za-z]"  # a colour
    rb"|(?P<gap>\s|\\+[nrt])(?:[A-Za-z]+-?[A-Za-z]+: [^\n\\\"]{0,80})?"  # with a header of the key after it
    rb"|\\+u[0-9a-fA-F]{4}|[0-9]{1,6}+(?![A-Za-z0-9+/=])"  # a line's number
    rb"|(?P<body>=?+[A-Za-z0-9+/]++={0,2}+)"
)
_PEM_END: Final = re.compile(rb"-----END |Private-MAC")
_PEM_END_BYTES: Final = 11
_PEM_FIRST: Final = 16
"""Characters of the first line below which it is prose: `-----BEGIN PRIVATE KEY----- and so on`."""

_PEM_BYTES: Final = 32768
_PEM_FULL_LINE: Final = 40


def private_keys(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Find each line of each private key in PEM (RFC 7468) or PuTTY format, complete or not; frame and headers stay.

    Lines are separate finds, so that a part of a key shown elsewhere gets the same placeholder. The last run of base64
    in a line counts: a line number, the bar of a frame or the sign of a diff may precede it.
    """
    end = sought = 0
    for match in matches(_PEM_BEGIN, text, lo, hi):
        at, limit = match.end(), min(len(text), match.end() + _PEM_BYTES)
        if end < at:
            end_match = _PEM_END.search(text, max(at, sought), limit)
            end = end_match.start() if end_match else -1
            sought = end if end_match else limit - _PEM_END_BYTES
        shortest = _PEM_FIRST if end >= 0 else _PEM_FULL_LINE
        for start, stop in _pem_lines(text, at, end if end >= 0 else limit):
            if stop - start < shortest and stop < len(text):
                break
            shortest = 1 if end >= 0 else _PEM_FULL_LINE
            yield Span(start, stop, "private_key")


def _pem_lines(text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the last run of base64 before each gap."""
    last = None
    for part in _PEM_PART.finditer(text, start, end):
        if part["gap"] is not None and last:
            yield last
            last = None
        elif part["body"] is not None and part["body"].strip(b"+/="):
            stop = part.end("body")
            last = stop - len(part["body"].lstrip(b"+")), stop
    if last and (last[1] == end or not text.startswith(b"-----END ", end)):  # else it is no line, but names the end's
        yield last
