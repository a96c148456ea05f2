"""Finders of secrets that their own form tells: keys and tokens of known issuers, JSON Web Tokens, private keys.

A finder goes over one region of a text and yields the finds that begin in it, from the left. What a find becomes is
decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from quality.scrubbing.issuers import BY_BEGINNING, BY_MIDDLE, least
from quality.scrubbing.kinds import Kind, Span
from quality.scrubbing.matching import compiled, matches, opens
from quality.scrubbing.values import is_dummy, is_wordy

ISSUED_TRIGGER: Final = b"|".join(
    [*(b"(?:" + least(form) + b")" for form in BY_BEGINNING), *(b"(?:" + middle + b")" for middle, _, _ in BY_MIDDLE)]
)
_SEED: Final = compiled(ISSUED_TRIGGER, 64)
_FORMS: Final = (*BY_BEGINNING, *(form for _, _, form in BY_MIDDLE))
_ISSUED: Final = re.compile(b"|".join(form.stays + b"((?>" + form.secret + b"))(?![A-Za-z0-9_])" for form in _FORMS))
"""One group a form; a secret that runs on into more of its alphabet is none of that form."""

_MIDDLES: Final = tuple((re.compile(middle), re.compile(before)) for middle, before, _ in BY_MIDDLE)
_BEFORE_MIDDLE: Final = 32
_SEPARATOR: Final = re.compile(rb"[_.-]")


def issued(text: bytes, lo: int, hi: int, wanted: frozenset[Kind]) -> Iterator[Span]:
    """Keys and tokens of known issuers. What is documented as an example stays; words that begin alike are none."""
    after = lo
    for seed in matches(_SEED, text, lo, hi):
        start = seed.start()
        found = _issued_at(text, start, after) or _issued_around(text, start, after)
        if found:
            after = found.end
            if found.kind in wanted:
                yield found


def _issued_around(text: bytes, middle: int, after: int) -> Span | None:
    """What is issued and has its fixed letters at `middle`, and begins at `after` or later."""
    for pattern, before in _MIDDLES:
        if pattern.match(text, middle):
            back = before.search(text, max(after, middle - _BEFORE_MIDDLE), middle)
            return _issued_at(text, back.start(), after) if back else None
    return None


def _issued_at(text: bytes, start: int, after: int) -> Span | None:
    match = _ISSUED.match(text, start) if start >= after and opens(text, start) else None
    if match is None:
        return None
    body = match[match.lastindex or 1]
    if _SEPARATOR.search(body) and is_wordy(body):
        return None
    kind = _FORMS[(match.lastindex or 1) - 1].kind
    return Span(start, match.end(), kind, is_dummy(body), match.start(match.lastindex or 1) - start)


JWT_TRIGGER: Final = rb"eyJ[\w-]{8}"
_JWT_HEAD: Final = compiled(JWT_TRIGGER)
_JWT_CLAIMS: Final = compiled(rb"eyJ[A-Za-z0-9_-]+\.e[wy][A-Za-z0-9_-]+\.")
_JWT_PART: Final = compiled(rb"[A-Za-z0-9_-]*")
_JWT_SHORTEST: Final = 16


def signatures(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """The signature of each JSON Web Token (RFC 7519); its header and claims are base64 bodies like any other."""
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


PEM_TRIGGER: Final = rb"PRIVATE KEY(?: BLOCK)?-----"
_PEM_BEGIN: Final = compiled(rb"-----BEGIN [A-Z0-9 ]{0,20}PRIVATE KEY(?: BLOCK)?-----")
_PEM_LINE: Final = re.compile(rb"(?:\\+[nrt]|[\s>|+\"',])*(?:[A-Za-z-]+: [^\n\\\"]{0,80}|(=?[A-Za-z0-9+/]+={0,2}))")
_PEM_BYTES: Final = 32768
_PEM_FULL_LINE: Final = 40


def private_keys(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Each line of each PEM private key (RFC 7468), with or without its end; the frame and its headers stay.

    Lines are found one by one, so that a part of a key that is shown elsewhere becomes the same.
    """
    for match in matches(_PEM_BEGIN, text, lo, hi):
        at, limit = match.end(), min(len(text), match.end() + _PEM_BYTES)
        end = text.find(b"-----END ", at, limit)
        shortest = 1 if end >= 0 else _PEM_FULL_LINE
        while (line := _PEM_LINE.match(text, at, end if end >= 0 else limit)) and line.end() > at:
            start, at = line.start(1), line.end()
            if start >= 0:
                if at - start < shortest and at < len(text):
                    break
                yield Span(start, at, "private_key")
