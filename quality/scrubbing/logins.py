"""Finders of passwords without a name and `=`: typed at a prompt, or stored in a file of logins.

The place alone makes a password, whatever its letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from trajmill.quality.scrubbing.base64_bodies import Inner, decode_body
from trajmill.quality.scrubbing.context import is_credential, user_and_password, whole
from trajmill.quality.scrubbing.kinds import Encoded, Loose
from trajmill.quality.scrubbing.matching import compile_pattern, matches
from trajmill.quality.scrubbing.values import is_password, is_typed

_AT_WORD: Final = rb"(?:\b|\\[nrt])"
"""Pattern of the beginning of a word, also after a line feed in JSON escapes."""

_QUOTED: Final = rb"[\"'\\]{0,8}"
_OF_WHOM: Final = (
    rb"\[sudo\] password for [\w.@\\$-]{1,64}"
    rb"|[\w.-]{1,64}@[\w.:-]{1,64}[\"'\\]{1,8}s password"
    rb"|passphrase for (?:key )?" + _QUOTED + rb"[^'\"\n:]{1,200}" + _QUOTED + rb"|\(current\) unix password"
    rb"|password for (?:user |role )?"
    + _QUOTED
    + rb"[a-z]{0,5}(?:://)?[\w.@\\-]{1,100}"
    + _QUOTED
    + rb"|(?:enter|retype|repeat|confirm|verify|type) (?:[a-z]{2,10} ){0,3}(?:password|pass ?phrase)"
    rb"(?: again| \([a-z ]{1,40}\))?"
)
_LINE: Final = rb"(?:^|[\r\n]|\\[rn])[ \t]{0,8}"
_BARE: Final = rb"(?:(?:New|Old|Current|Root|UNIX|Login|Vault|MySQL|Admin) )?(?:Password|Passphrase)"
_END: Final = rb"[ \t]*(?:\r|\n|\x1b|\\{1,8}[rn]|\\{1,8}u00(?:0[aAdD]|1[bB])|[\"'`]|$)"
_PROMPTED: Final = (
    compile_pattern(rb"(?i)(?:" + _OF_WHOM + rb"): {0,2}([^\s\"'`\\\x1b]{3,128})" + _END),
    compile_pattern(_LINE + _BARE + rb": {0,2}([^\s\"'`\\\x1b]{3,127}[^\s\"'`\\\x1b,;(){}\[\]])" + _END),
)
"""Prompts with a typed password; the second pattern excludes source code such as `Password: password,`."""

PROMPT_TRIGGER: Final = rb"(?i:(?:password|pass ?phrase)(?:: {0,2}[^\s\"'`\\]{3}| for ['\"\\a-z0-9/]| again:| \([a-z]))"

_GAP: Final = rb"(?:\s|\\{1,8}[nrt]){1,16}"
_NAMED: Final = (
    _AT_WORD
    + rb"(?:machine"
    + _GAP
    + rb"[^\s\\\"']{1,128}|default)"
    + _GAP
    + rb"login"
    + _GAP
    + rb"[^\s\\\"']{1,64}"
    + _GAP
    + rb"(?:account"
    + _GAP
    + rb"[^\s\\\"']{1,64}"
    + _GAP
    + rb")?"
)
_DATABASE: Final = rb":(?:\*|54\d\d|643\d|26257|5\d{4}):[\w.*-]{1,64}:[\w.*@-]{1,64}:"
_FILES: Final = (
    compile_pattern(_NAMED + rb"password" + _GAP + rb"([^\s\\\"']{1,256})"),
    compile_pattern(
        rb"(?:^|\n|\\n|[\"'])[\w.*/-]{1,128}" + _DATABASE + rb"([^\s:\"'\\]{3,128})(?:\r?\n|\\{1,8}[rn]|[\"'`]|$)"
    ),
)
FILE_TRIGGER: Final = (
    rb"login(?:\s|\\+[nrt])+[^\s\\\"']{1,64}(?:\s|\\+[nrt])+(?:password|account)"
    rb"|:(?:\*|54\d\d|643\d|26257|5\d{4}):[\w.*-]"
)

_AUTH: Final = rb"(?:[\"']auth" + _QUOTED + rb"\s{0,4}:\s{0,4}|" + _AT_WORD + rb"_auth ?= ?)" + _QUOTED
_BASIC: Final = compile_pattern(_AUTH + rb"([A-Za-z0-9+/_-]{6,400}={0,2})")
_SECRET: Final = compile_pattern(rb"(?i)" + _AT_WORD + rb"kind" + _QUOTED + rb":\s{0,4}" + _QUOTED + rb"secret\b")
_DATA: Final = compile_pattern(_AT_WORD + rb"(?:data|stringData)" + _QUOTED + rb":[ \t]{0,4}(?:\{|\r?\n|(?:\\+r)?\\+n)")
_ENTRY: Final = re.compile(
    rb"(?:\s|\\[nt]|,|#[^\n\\]*)*+[\"'\\]{0,8}[\w.-]{1,253}[\"'\\]{0,8}:[ \t]*(?:[|>]-?\s+)?[\"'\\]{0,8}"
    rb"([A-Za-z0-9+/]{4,4096}={0,2})(?![\w:])[\"'\\]{0,8}"
)
_NEAR: Final = 2048
"""Bytes before and after `kind: Secret` in which its data begin."""

ENCODED_TRIGGER: Final = (
    rb"[\"']auth[\"'\\]*\s*:\s*[\"'\\]*[A-Za-z0-9+/_-]{6}|_auth ?= ?[\"'\\]*[A-Za-z0-9+/_-]{6}"
    rb"|(?i:kind[\"'\\]*:\s*[\"'\\]*secret\b)"
)
TRIGGER: Final = b"|".join(b"(?:" + one + b")" for one in (PROMPT_TRIGGER, FILE_TRIGGER, ENCODED_TRIGGER))


def passwords(text: bytes, lo: int, hi: int, inner: Inner) -> Iterator[Loose | Encoded]:
    """Find the text after a prompt, to the end of its line, and the passwords in login files.

    Files are `.netrc`, `.pgpass`, the settings of Docker and npm, and Kubernetes secrets, the last three in base64.
    """
    for pattern in _PROMPTED:
        for match in matches(pattern, text, lo, hi):
            yield Loose(match.start(1), match.end(1), "assignment", is_typed)
    for pattern in _FILES:
        for match in matches(pattern, text, lo, hi):
            start, end = match.span(1)
            yield Loose(start, end, "assignment", is_password)
    for match in matches(_BASIC, text, lo, hi):
        start, end = match.span(1)
        body = decode_body(text, start, end, partial(user_and_password, inner))
        yield body if body and b":" in body.data else Loose(start, end, "assignment", is_credential)
    yield from _kubernetes(text, lo, hi, inner)


def _kubernetes(text: bytes, lo: int, hi: int, inner: Inner) -> Iterator[Loose | Encoded]:
    """Yield the data of Kubernetes secrets, as printed by `kubectl get secret -o yaml` and `-o json`."""
    done = 0
    for secret in matches(_SECRET, text, lo, hi):
        begin, end = max(done, secret.start() - _NEAR), min(len(text), secret.end() + _NEAR)
        for data in _DATA.finditer(text, begin, end):
            if data.end() <= done:
                continue
            at = done = data.end()
            while entry := _ENTRY.match(text, at):
                at = done = entry.end()
                start, end = entry.span(1)
                body = decode_body(text, start, end, partial(whole, inner))
                yield body or Loose(start, end, "assignment", is_password)
