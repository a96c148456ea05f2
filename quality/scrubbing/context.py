"""Finders of secrets that only their context tells: passwords of URLs, credential headers, cookies, assignments.

What they yield is `Loose`: other finds go first, and what these leave is judged by `values`. A value that is base64 of
text is taken apart, so that it still decodes to what it says elsewhere in the trajectory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from trajmill.quality.scrubbing.base64_bodies import Inner, decoded_body
from trajmill.quality.scrubbing.kinds import Encoded, Finds, Loose
from trajmill.quality.scrubbing.matching import SLACK, compiled, matches, opens, quoted_end
from trajmill.quality.scrubbing.placeholders import core_of, is_placeholder
from trajmill.quality.scrubbing.values import is_cookie, is_password, is_secret

URL_TRIGGER: Final = rb"://[^\s/@:\"'<>]*:[^\s/@\"'<>]+@|://[\w.~-]{20,}@"
_URL: Final = compiled(rb"://[^\s/@:\"'<>\\]{0,128}:([^\s/@\"'<>\\]{1,256}(?:@[^\s/@?#,;&=\"'<>\\]{1,128}){0,3})@")
_PORT: Final = re.compile(rb"\d{1,5}[?#]")
"""`http://localhost:8080?mail=a@b.c`, which names no user."""

_URL_TOKEN: Final = compiled(rb"://([A-Za-z0-9_.~-]{20,256})@")


def url_passwords(text: bytes, lo: int, hi: int) -> Iterator[Loose]:
    """The password in `scheme://user:password@` (RFC 3986, 3.2.1), and a token that stands there alone.

    An `@` of a password should be escaped and often is not: the last one before the path begins the host.
    """
    for match in matches(_URL, text, lo, hi):
        start, end = match.span(1)
        if not _PORT.match(text, start, end):
            yield Loose(start, end, "url_password", is_password)
    for match in matches(_URL_TOKEN, text, lo, hi):
        start, end = match.span(1)
        yield Loose(start, end, "url_password", is_credential)


HEADER_TRIGGER: Final = (
    rb"(?i)(?:authorization|cookie|x-[\w-]*(?:key|token|secret|auth)|api-key|(?:private|api)-token|subscription-key)"
    rb"2?[\"'`\\]*\s{0,4}[:=,]|bearer\s{1,3}[\w.~+/-]{12}|\s(?:-b|--cookie)[ =][\"'\\]*[\w.-]+="
)
_ANY_QUOTE: Final = rb"'\"'\"'|'\\''|\\{0,15}[\"'`]"
"""A quote, escaped or not; the first two are how a shell writes `'` within `'…'`."""

_QUOTE: Final = rb"(?:" + _ANY_QUOTE + rb")?"
_GAP: Final = rb"(?:\s|\\+[nrt])"
_HEADER: Final = compiled(
    rb"(?i)((?:proxy-)?authorization|set-cookie2?|cookie"
    rb"|x-[a-z0-9-]{0,24}(?:key|token|secret|auth)|api-key|(?:private|api)-token|ocp-apim-subscription-key)"
    + _QUOTE
    + rb"\s{0,4}[:=,]"
    + _GAP
    + rb"{0,12}(?:-\s{1,4})?\[?"
    + _GAP
    + rb"{0,12}(?:\\*[\"']value\\*[\"']\s{0,4}:\s{0,4})?("
    + _ANY_QUOTE
    + rb")?"
)
_BEARER: Final = compiled(rb"(?i)bearer\s{1,3}[A-Za-z0-9._~+/-]{16}")
_BEARER_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
_SCHEME: Final = re.compile(
    rb"(?i)(bearer|basic|(?:api-?)?token|digest|oauth|apikey|negotiate|aws4-hmac-sha256|key|ssws)\s+"
)
_PAIR: Final = re.compile(rb"(?<![^=;,\s\"'\\])([^=;,\s\"'\\]++)=(?:\\*\")?([^;,\s\"'\\]{8,})")
_ATTRIBUTE: Final = re.compile(rb"(?i)path|domain|expires|max-age|samesite|priority|version|comment")
_OPAQUE: Final = re.compile(rb"[^\s,;\"'\\`<>(){}]{8,}")
_UNQUOTED_END: Final = re.compile(rb"[\"'`\\\r\n]")
_PARAMETER: Final = re.compile(rb"(?<==)\\*\"[^\"\\\r\n]{0,1024}\\*\"")
_PARAMETER_NAME: Final = re.compile(rb"[A-Za-z][\w-]*(?:=|,?\s)")
_HEADER_BYTES: Final = 2048
"""Of an unquoted header: what stands further on is none of its parameters."""

_BY_CURL: Final = re.compile(rb"(?:\bcurl\b[^\n|;]*|--cookie[ =][\"'\\]*)\Z")
_WORD_END: Final = re.compile(rb"[\s\"'`\\]")
_SENT_COOKIES: Final = compiled(rb"\s(?:-b|--cookie)[ =](" + _ANY_QUOTE + rb")?([\w.-]+=)")

_MORE_COOKIES: Final = re.compile(rb"(?:\r?\n[ \t]{2,}(?:- )?[^:\r\n]{0,400}=[^\r\n]{0,4000}){1,50}")
"""Lines that go on with a cookie header in YAML, folded or as a list."""

is_credential: Final = partial(is_secret, quoted=True)


def headers(text: bytes, lo: int, hi: int, inner: Inner) -> Iterator[Loose | Encoded]:
    """What credential headers and cookies say, in HTTP, JSON, HAR, YAML, source code and `curl` commands."""
    after = lo
    for match in matches(_HEADER, text, lo, hi):
        before = text[max(0, match.start() - 1) : match.start()]
        if match.start() < after or (before.isalnum() and not opens(text, match.start())):
            continue
        start, quote, name = match.end(), match.group(2), match.group(1).lower()
        if name.endswith(b"authorization"):
            end = quoted_end(text, start, _plain(quote)) if quote else _end_of_parameters(text, start)
            credentials = _credentials(text, start, end, inner)
            after = credentials[-1].end if credentials else after
            yield from credentials
            continue
        end = quoted_end(text, start, _plain(quote or b'"'))
        if not quote:
            stop = _UNQUOTED_END.search(text, start, end)
            end = stop.start() if stop else end
        if name.endswith((b"cookie", b"cookie2")):
            more = None if quote else _MORE_COOKIES.match(text, end)
            end = after = more.end() if more else end
            yield from _pairs(text, start, end, is_cookie)
        elif value := _OPAQUE.match(text, start, end):
            after = value.end()
            yield Loose(value.start(), after, "header", is_credential)
    for match in matches(_SENT_COOKIES, text, lo, hi):
        start, quote = match.start(2), match.group(1)
        if not _BY_CURL.search(text, max(0, start - SLACK), start):
            continue
        end = quoted_end(text, start, _plain(quote)) if quote else _end_of_word(text, start)
        yield from _pairs(text, start, end, is_cookie)
    for match in matches(_BEARER, text, lo, hi):
        token = _BEARER_TOKEN.match(text, match.end() - 16)
        if token:
            yield Loose(token.start(), token.end(), "header", is_credential)


def _plain(quote: bytes) -> bytes:
    return b"'" if quote.startswith(b"'") else quote


def _end_of_parameters(text: bytes, start: int) -> int:
    """Where an unquoted header ends, with its quoted parameters: `Digest username="x", response="y"`."""
    at, limit = start, min(len(text), start + _HEADER_BYTES)
    while stop := _UNQUOTED_END.search(text, at, limit):
        parameter = _PARAMETER.match(text, stop.start(), limit)
        if not parameter:
            return stop.start()
        at = parameter.end()
    return limit


def _end_of_word(text: bytes, start: int) -> int:
    match = _WORD_END.search(text, start, start + SLACK)
    return match.start() if match else min(len(text), start + SLACK)


def _pairs(text: bytes, start: int, end: int, accepts: Callable[[bytes], bool]) -> Iterator[Loose]:
    for pair in _PAIR.finditer(text, start, end):
        if not _ATTRIBUTE.fullmatch(pair[1]):
            yield Loose(pair.start(2), pair.end(2), "header", accepts)


def _credentials(text: bytes, start: int, end: int, inner: Inner) -> list[Loose | Encoded]:
    scheme = _SCHEME.match(text, start, end)
    value = _OPAQUE.match(text, scheme.end() if scheme else start, end)
    if not value:
        return [*_pairs(text, scheme.end(), end, is_credential)] if scheme else []
    if scheme and scheme[1].lower() == b"basic":
        found = decoded_body(text, *value.span(), partial(user_and_password, inner))
        if found and b":" in found.data:
            return [found]
    if _PARAMETER_NAME.match(text, value.start()):
        pairs = _pairs(text, value.start(), end, is_credential)
        return [*pairs] or [Loose(value.start(), value.end(), "header", is_credential)]
    return [Loose(value.start(), value.end(), "header", is_credential)]


def user_and_password(inner: Inner, data: bytes) -> Finds:
    """What the text `user:password` of a body holds; all of it where no user is named."""
    found = inner(data)
    password = Loose(data.find(b":") + 1, len(data), "header", is_password)
    return Finds(found.spans, (*found.loose, password), found.encoded)


_PASSWORD: Final = rb"passw(?:or)?d|passphrase|passcode|passwd|pwd"
_SECRET: Final = (
    rb"secret|token|credentials?|creds|(?:api|access|auth|private|signing|encryption|account|master|service|license)[_-]?key"
    rb"|x-(?:amz|goog)-signature"
)
_NEITHER: Final = rb"[^ft\s\"'`\\][^\n]{7}|f(?:[^a\n][^\n]{6}|a[^l\n][^\n]{5})|t(?:[^r\n][^\n]{6}|r[^u\n][^\n]{5})"
"""Eight characters that are neither `false` nor `true`: every node of an Android screen says `password="false"`."""

_EQUALS: Final = rb"[:.?+|]{0,3}==?>?|:|%3d|\\u003d"
_TYPED: Final = rb"(?::[ \t]{0,2}|[ \t]{1,2})[a-z][a-z_.<>\[\]]{1,15}[ \t]{0,2}:?="
"""A type between name and value: `token string = "…"`, `token: str = "…"`."""

_VALUE: Final = rb",?\s{0,4}\\{0,15}[\"']?value\\{0,15}[\"']?\s{0,2}[:=]"
_LIST: Final = _GAP + rb"{1,16}-\s{1,4}"
ASSIGNMENT_TRIGGER: Final = (
    rb"(?i)(?:(?:" + _PASSWORD + rb"|" + _SECRET + rb")[\w-]*|[_-](?:auth|pass))(?:\\*[\"'`])?"
    rb"(?:[ \t]*(?:[:.?+|]{0,3}=|:|%3d|\\u003d|,?\s*\\*[\"']?value\\*[\"']?\s*[:=]"
    rb"|(?::[ \t]*)?[a-z][a-z_.<>\[\]]*[ \t]*:?=)"
    rb"(?:" + _GAP + rb"*-)?[ \t>=]*(?:(?:" + _ANY_QUOTE + rb")(?:" + _NEITHER + rb")|[^\s\"'`,;&<>(){}\[\]|\\]{8})"
    rb"|,[ \t]*\\*[\"'`][^\s\"'`,]{8}|>" + _GAP + rb"*[^\s\"'`,;&<>(){}\[\]|\\]{8})"
    rb"|-(?:[a-z0-9]+-){0,3}(?:" + _PASSWORD + rb"|" + _SECRET + rb")[\w-]*\s{1,2}[^\s]{8}"
)
"""What is counted in the pattern below is only looped over here, since one automaton runs the triggers of all kinds."""

_ASSIGNMENT: Final = compiled(
    rb"(?i)([A-Za-z0-9_.-]{0,40}?)(?:(" + _PASSWORD + rb"|[_-]pass)|" + _SECRET + rb"|[_-]auth)"
    rb"((?:[_-]?(?:key|value|hash|base|prod|dev|staging|test|live|main|old|new|current|confirm(?:ation)?|again|secret"
    rb"|encrypted|b64|base64|string|env|default|primary|secondary|token|id|[0-9]{1,3}))*)"
    rb"(" + _ANY_QUOTE + rb")?"
    rb"([ \t]{0,3}(?:" + _VALUE + rb"|" + _TYPED + rb"|" + _EQUALS + rb"|,)(?:[ \t]{0,4}|" + _LIST + rb")"
    rb"|>" + _GAP + rb"{0,24}|\s{1,2})(" + _ANY_QUOTE + rb")?"
)
_UNQUOTED: Final = re.compile(rb"[^\s\"'`,;&<>(){}\[\]|\\]{0,4096}")
_NO_SECRET: Final = frozenset(
    b"starting change lock max num min total prompt completion input output cached used per count eos bos pad "
    b"unk sep cls mask page continuation next cursor sync special first last stop end start public no reset "
    b"forgot".split()
)
"""Words before `token` or `key` that make it none of a secret."""
_ANOTHER_WORD: Final = re.compile(rb"[ \t]*(?::[ \t]*|[ \t])[A-Za-z][^=:]*:?=\Z")
"""A type before the value, which then stands in quotes; else the line is prose, or the value no type but a value."""

_NAME_WORD: Final = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_NESTED: Final = 512
"""Bytes of a value without quotes up to which another assignment is looked for in it."""


def assignments(text: bytes, lo: int, hi: int, inner: Inner) -> Iterator[Loose | Encoded]:
    """Values that a name announces: in shell, JSON, YAML, source, XML, query strings, forms and command options."""
    at = lo
    while match := next(matches(_ASSIGNMENT, text, at, hi), None):
        at = max(match.end(3), at + 1)
        value = _assigned(text, match)
        if value:
            if not match.group(6) and value[1] - value[0] > _NESTED:
                at = value[1]
            password = match.group(2) is not None
            name = text[match.start() : match.end(3)]
            strict = not match.group(6) and not (name == name.upper() and b"=" in match.group(5))
            accepts = partial(is_secret, password=password, quoted=not strict)
            yield _opened(text, value, accepts, inner)


def _assigned(text: bytes, match: Any) -> tuple[int, int] | None:
    """Where the value stands, or None if this is no assignment of a secret."""
    prefix, named_in, separator, quote = match.group(1), match.group(4), match.group(5), match.group(6)
    words = _NAME_WORD.findall(prefix)
    if text[max(0, match.start() - 2) : match.start()] == b"::":  # a type: `AWS::IAM::AccessKey`
        return None
    if (words and words[-1].lower() in _NO_SECRET) or (separator.isspace() and not prefix.startswith(b"-")):
        return None
    if separator.startswith(b">") and text[match.start() - 1 : match.start()] not in (b"<", b":"):
        return None
    if separator.strip() == b"," and not (quote == named_in and _is_argument(text, match.start(), named_in)):
        return None
    start = match.end()
    if not quote and _ANOTHER_WORD.match(separator):
        if not separator.lstrip().startswith(b":"):
            return None
        start -= len(separator.lstrip()[1:].lstrip())
    if quote:
        return start, quoted_end(text, start, _plain(quote))
    value = _UNQUOTED.match(text, start)
    end = value.end() if value else start
    if text[end : end + 1] in (b"(", b"[", b"{"):
        return None
    return start, start + len(text[start:end].rstrip(b".,:;!?#*"))


def _is_argument(text: bytes, start: int, quote: bytes | None) -> bool:
    """Whether a name in quotes is the first argument of a call: `setProperty("API_TOKEN", "…")`."""
    return quote is not None and text[max(0, start - 1 - len(quote)) : start] == b"(" + quote


def _opened(text: bytes, span: tuple[int, int], accepts: Callable[[bytes], bool], inner: Inner) -> Loose | Encoded:
    """The value itself, or what it says if it is base64 of text."""
    value = text[slice(*span)]
    if len(value) >= 12 and len(value) % 4 == 0 and not is_placeholder(core_of(value)):
        found = decoded_body(text, *span, partial(whole, inner))
        if found:
            return found
    return Loose(*span, "assignment", accepts)


def whole(inner: Inner, data: bytes) -> Finds:
    """What the text of a body that is a secret holds, or all of it; certificates are none."""
    found = inner(data)
    if found or b"CERTIFICATE-----" in data:
        return found
    return Finds(loose=(Loose(0, len(data), "assignment", is_password),))
