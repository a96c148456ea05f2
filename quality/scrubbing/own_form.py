"""Finders of secrets that their own form tells: keys and tokens of known issuers, JSON Web Tokens, private keys.

A finder goes over one region of a text and yields the finds that begin in it, from the left. What a find becomes is
decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from quality.scrubbing.kinds import Kind, Span
from quality.scrubbing.matching import closes, compiled, matches, opens
from quality.scrubbing.values import is_dummy

_ISSUED: Final[tuple[tuple[Kind, bytes, bytes], ...]] = (
    ("cloud_key", rb"(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)", rb"[A-Z0-9]{16}"),
    ("cloud_key", rb"AIza", rb"[A-Za-z0-9_-]{35}"),
    ("cloud_key", rb"GOCSPX-", rb"[A-Za-z0-9_-]{24,40}"),
    ("cloud_key", rb"(?:AccountKey|SharedAccessKey)=", rb"[A-Za-z0-9+/]{40,100}={0,2}"),
    ("cloud_key", rb"sig=", rb"(?:[A-Za-z0-9]|[+/]|%2[BbFf]){43}(?:=|%3[Dd])"),
    ("cloud_key", rb"dop_v1_", rb"[a-f0-9]{64}"),
    ("token", rb"ya29\.", rb"[A-Za-z0-9_-]{20,400}"),
    ("token", rb"gh[pousr]_", rb"[A-Za-z0-9]{30,255}"),
    ("token", rb"github_pat_", rb"[A-Za-z0-9_]{36,255}"),
    ("token", rb"gl(?:pat|dt|ptt|rt|cbt|soat)-", rb"[A-Za-z0-9_.-]{20,255}"),
    ("token", rb"xox[abeoprs]-", rb"[A-Za-z0-9-]{10,255}"),
    ("token", rb"xapp-\d-", rb"[A-Za-z0-9-]{20,255}"),
    ("token", rb"hooks\.slack\.com/services/", rb"T[A-Z0-9]{7,12}/B[A-Z0-9]{7,12}/[A-Za-z0-9]{20,28}"),
    ("token", rb"discord(?:app)?\.com/api/webhooks/\d{16,20}/", rb"[A-Za-z0-9_-]{50,90}"),
    ("token", rb"sk-ant-[a-z]{3,8}\d{2}-", rb"[A-Za-z0-9_-]{20,255}"),
    ("token", rb"sk-(?:proj|svcacct|admin|or-v1|lf)-", rb"[A-Za-z0-9_-]{20,255}"),
    ("token", rb"sk-", rb"[A-Za-z0-9]{20,100}"),
    ("token", rb"[sr]k_(?:live|test)_", rb"[A-Za-z0-9]{16,255}"),
    ("token", rb"whsec_", rb"[A-Za-z0-9+/]{24,64}"),
    ("token", rb"hf_", rb"[A-Za-z0-9]{30,40}"),
    ("token", rb"npm_", rb"[A-Za-z0-9]{36}"),
    ("token", rb"pypi-(?:AgEIcHlwaS5vcmc)?", rb"[A-Za-z0-9_-]{50,255}"),
    ("token", rb"SG\.", rb"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    ("token", rb"(?:SK|AC)", rb"[0-9a-f]{32}"),
    ("token", rb"\d{8,10}:AA", rb"[A-Za-z0-9_-]{33}"),
    ("token", rb"[MNO]", rb"[A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}"),
    ("token", rb"shp(?:at|ca|pa|ss)_", rb"[a-fA-F0-9]{32}"),
    ("token", rb"(?:gsk|glsa|lin_api|dckr_pat|sbp|xai|tvly|pplx|r8|nvapi)[_-]", rb"[A-Za-z0-9_-]{27,128}"),
    ("token", rb"hv[sbr]\.", rb"[A-Za-z0-9_-]{24,200}"),
    ("token", rb"ATATT3", rb"[A-Za-z0-9_=-]{50,250}"),
    ("token", rb"AGE-SECRET-KEY-1", rb"[A-Z0-9]{58}"),
)
"""(kind, the beginning that stays so that the type is visible, what is replaced), as the issuers document them.

Lengths are taken a little wider than today's.
"""

ISSUED_TRIGGER: Final = (
    rb"A(?:KIA|SIA|ROA|IDA|BIA|CCA)[A-Z0-9]{16}|AIza[\w-]{35}|GOCSPX-|ya29\.|(?:Account|SharedAccess)Key=|dop_v1_"
    rb"|gh[pousr]_\w{30}|github_pat_|gl(?:pat|dt|ptt|rt|cbt|soat)-\w|xox[abeoprs]-|xapp-\d|hooks\.slack\.com/s"
    rb"|\.com/api/webhooks/|sk-(?:ant|proj|svcacct|admin|or|lf)-|sk-[A-Za-z0-9]{20}|[sr]k_(?:live|test)_|whsec_"
    rb"|hf_[A-Za-z0-9]{30}|npm_[A-Za-z0-9]{36}|pypi-[\w-]{50}|SG\.[\w-]{16}|(?:SK|AC)[0-9a-f]{32}|:AA[\w-]{33}"
    rb"|\.[\w-]{6}\.[\w-]{27}|shp(?:at|ca|pa|ss)_|(?:gsk|glsa|lin_api|dckr_pat|sbp|xai|tvly|pplx|r8|nvapi)[_-][\w-]{27}"
    rb"|hv[sbr]\.[\w-]{24}|sig=[\w%+/]{43}|ATATT3|AGE-SECRET"
)

_SEED: Final = compiled(ISSUED_TRIGGER)
_BACK: Final = re.compile(rb"(?:[MNO][A-Za-z0-9_-]{23,25}|\d{1,10})\Z")
_EACH_ISSUED: Final = tuple((kind, re.compile(stays + b"(" + secret + b")")) for kind, stays, secret in _ISSUED)


def issued(text: bytes, lo: int, hi: int, wanted: frozenset[Kind]) -> Iterator[Span]:
    """Keys and tokens of known issuers. What is documented as an example stays; words that begin alike are none."""
    after = lo
    for seed in matches(_SEED, text, lo, hi):
        start = seed.start()
        if text[start : start + 1] in b".:":  # a bot's token, which no fixed letters begin
            back = _BACK.search(text, max(0, start - 26), start)
            start = back.start() if back else start
        found = _issued_at(text, start) if start >= after and opens(text, start) else None
        if found:
            after = found.end
            if found.kind in wanted:
                yield found


def _issued_at(text: bytes, start: int) -> Span | None:
    for kind, pattern in _EACH_ISSUED:
        match = pattern.match(text, start)
        if match and closes(text, match.end()):
            body = match[1]
            told = len(body) >= 40 or any(48 <= byte < 58 for byte in body)
            return Span(start, match.end(), kind, is_dummy(body), match.start(1) - start) if told else None
    return None


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
_PEM_PART: Final = re.compile(
    rb"(?:\x1b|\\+(?:u001[bB]|x1[bB]|033|e))\[[0-9;?]*[A-Za-z]"  # a colour
    rb"|(?P<gap>\s|\\+[nrt])(?:[A-Za-z]+-?[A-Za-z]+: [^\n\\\"]{0,80})?"  # with a header of the key after it
    rb"|\\+u[0-9a-fA-F]{4}|[0-9]{1,6}+(?![A-Za-z0-9+/=])"  # a line's number
    rb"|(?P<body>=?+[A-Za-z0-9+/]++={0,2}+)"
)
_PEM_FIRST: Final = 16
"""Characters of the first line below which it is a word: `-----BEGIN PRIVATE KEY----- and so on`."""

_PEM_BYTES: Final = 32768
_PEM_FULL_LINE: Final = 40


def private_keys(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Each line of each PEM private key (RFC 7468), with or without its end; the frame and its headers stay.

    Lines are found one by one, so that a part of a key that is shown elsewhere becomes the same; and as the last that
    stands there, behind a number, the bar of a frame or the sign of a diff.
    """
    for match in matches(_PEM_BEGIN, text, lo, hi):
        at, limit = match.end(), min(len(text), match.end() + _PEM_BYTES)
        end = text.find(b"-----END ", at, limit)
        shortest = _PEM_FIRST if end >= 0 else _PEM_FULL_LINE
        for start, stop in _pem_lines(text, at, end if end >= 0 else limit):
            if stop - start < shortest and stop < len(text):
                break
            shortest = 1 if end >= 0 else _PEM_FULL_LINE
            yield Span(start, stop, "private_key")


def _pem_lines(text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The last run of base64 before each gap."""
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
