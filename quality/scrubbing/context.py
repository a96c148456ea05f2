"""Finders of secrets that only their context reveals: passwords in URLs, credential headers, cookies, assignments.

They yield `Loose` finds: other finds take precedence, and `values` judges the remaining bytes. A value that is base64
of text is decoded and patched inside, so that it still decodes to the text as replaced elsewhere in the trajectory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from trajmill.quality.scrubbing.base64_bodies import Inner, decode_body
from trajmill.quality.scrubbing.kinds import Encoded, Finds, Loose
from trajmill.quality.scrubbing.matching import SLACK, compile_pattern, matches, opens, past_escape, quoted_end
from trajmill.quality.scrubbing.placeholders import core_of, is_placeholder
from trajmill.quality.scrubbing.sensitive_names import LONG_WORDS, SHORT_WORDS, Sensitivity, sensitivity
from trajmill.quality.scrubbing.values import is_cookie, is_password, is_secret

URL_TRIGGER: Final = rb"://[^\s/@:\"'<>]*:[^\s/@\"'<>]+@|://[\w.~-]{20,}@"
_URL: Final = compile_pattern(
    rb"://[^\s/@:\"'<>\\]{0,128}:([^\s/@\"'<>\\]{1,256}(?:@[^\s/@?#,;&=\"'<>\\]{1,128}){0,3})@"
)
_PORT: Final = re.compile(rb"\d{1,5}[?#]")
"""Port before a query, as in `http://localhost:8080?mail=a@b.c`, which names no user."""

_URL_TOKEN: Final = compile_pattern(rb"://([A-Za-z0-9_.~-]{20,256})@")


def url_passwords(text: bytes, lo: int, hi: int) -> Iterator[Loose]:
    """Yield the password in `scheme://user:password@` (RFC 3986, 3.2.1), or a token that stands alone before the `@`.

    An `@` in a password should be escaped but often is not, so the host begins at the last `@` before the path.
    """
    for match in matches(_URL, text, lo, hi):
        start, end = match.span(1)
        if not _PORT.match(text, start, end):
            yield Loose(start, end, "url_password", is_password)
    for match in matches(_URL_TOKEN, text, lo, hi):
        start, end = match.span(1)
        yield Loose(start, end, "url_password", is_credential)


HEADER_TRIGGER: Final = (
    rb"(?i)(?:authorization|cookie)2?[\"'`\\]*\s{0,4}[:=,]|bearer\s{1,3}[\w.~+/-]{12}"
    rb"|\s(?:-b|--cookie)[ =][\"'\\]*[\w.-]+="
    rb"|(?:TRUE|FALSE)(?:\t|\\+t)\d"
)
_ANY_QUOTE: Final = rb"'\"'\"'|'\\''|\\{0,15}[\"'`]"
"""Quote, escaped or not; the first two alternatives are shell spellings of `'` within `'…'`."""

_QUOTE: Final = rb"(?:" + _ANY_QUOTE + rb")?"
_GAP: Final = rb"(?:\s|\\+[nrt])"
_HEADER: Final = compile_pattern(
    rb"(?i)((?:proxy-)?authorization|set-cookie2?|cookie)"
    + _QUOTE
    + rb"\s{0,4}[:=,]"
    + _GAP
    + rb"{0,12}(?:-\s{1,4})?\[?"
    + _GAP
    + rb"{0,12}(?:\\*[\"']value\\*[\"']\s{0,4}:\s{0,4})?("
    + _ANY_QUOTE
    + rb")?"
)
_TAB: Final = rb"(?:\t|\\{1,8}t)"
_JAR: Final = compile_pattern(
    _TAB
    + rb"(?:TRUE|FALSE)"
    + _TAB
    + rb"/[^\t\n\\]{0,128}"
    + _TAB
    + rb"(?:TRUE|FALSE)"
    + _TAB
    + rb"\d{1,16}"
    + _TAB
    + rb"[^\t\n\\]{1,128}"
    + _TAB
    + rb"([^\s\"\\]{8,1000})"
)
"""Line of a Netscape cookie file, as written by curl and yt-dlp."""

_BEARER: Final = compile_pattern(rb"(?i)bearer\s{1,3}[A-Za-z0-9._~+/-]{16}")
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
"""Bytes of an unquoted header in which parameters are looked for."""

_BY_CURL: Final = re.compile(rb"(?:\bcurl\b[^\n|;]*|--cookie[ =][\"'\\]*)\Z")
_WORD_END: Final = re.compile(rb"[\s\"'`\\]")
_SENT_COOKIES: Final = compile_pattern(rb"\s(?:-b|--cookie)[ =](" + _ANY_QUOTE + rb")?([\w.-]+=)")

_MORE_COOKIES: Final = re.compile(rb"(?:\r?\n[ \t]{2,}(?:- )?[^:\r\n]{0,400}=[^\r\n]{0,4000}){1,50}")
"""Lines that continue a cookie header in YAML, folded or as a list."""

is_credential: Final = partial(is_secret, quoted=True)


def headers(text: bytes, lo: int, hi: int, inner: Inner) -> Iterator[Loose | Encoded]:
    """Find secrets in authorization headers and cookies, in HTTP, JSON, HAR, YAML, source code, `curl` commands and
    cookie files.
    """
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
        more = None if quote else _MORE_COOKIES.match(text, end)
        end = after = more.end() if more else end
        yield from _pairs(text, start, end, is_cookie)
    for match in matches(_JAR, text, lo, hi):
        start, end = match.span(1)
        yield Loose(start, end, "header", is_cookie)
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
    """Return the end of an unquoted header, including quoted parameters: `Digest username="x", response="y"`."""
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
    if value and not scheme and text[value.end() : value.end() + 1] == b"(":  # a call in source code
        return []
    if not value:
        return [*_pairs(text, scheme.end(), end, is_credential)] if scheme else []
    if scheme and scheme[1].lower() == b"basic":
        body = decode_body(text, *value.span(), partial(user_and_password, inner))
        if body and b":" in body.data:
            return [body]
    if _PARAMETER_NAME.match(text, value.start()):
        pairs = _pairs(text, value.start(), end, is_credential)
        return [*pairs] or [Loose(value.start(), value.end(), "header", is_credential)]
    return [Loose(value.start(), value.end(), "header", is_credential)]


def user_and_password(inner: Inner, data: bytes) -> Finds:
    """Find the secrets in a body's text `user:password`; without a user, the whole text is the password."""
    finds = inner(data)
    password = Loose(data.find(b":") + 1, len(data), "header", is_password)
    return Finds(finds.spans, (*finds.loose, password), finds.encoded)


_NEITHER: Final = rb"(?:[^ft\s\"'`\\]|f(?:[^a]|a(?:[^l]|l[^s]))|t(?:[^r]|r(?:[^u]|u[^e])))"
"""Beginning of a value that is neither `false` nor `true`: every node of an Android screen has `password="false"`."""

_BLANK: Final = rb"(?:[ \t]|(?:\x1b|\\+(?:u001[bB]|x1[bB]|033|e))\[[0-9;]*m)"
"""Blank between a name and its value, including color codes."""

_OF_NAME: Final = rb"[\w.$\[\]%-]"
_EQUALS: Final = rb"[:.?+|]{0,3}==?>?|:|%3d|\\u003d"
_OF_TYPE: Final = rb"(?::[ \t]*|[ \t]+)[a-z][a-z_.<>\[\]]+[ \t]*:?="
"""Type between a name and its value: `token string = "…"`, `token: str = "…"`."""

_VALUE: Final = rb",?" + _GAP + rb"*\\*[\"']?value\\*[\"']?\s*[:=]"
_LIST: Final = _GAP + rb"+-\s+"
_BLOCK: Final = rb":[ \t]*[|>][+-]?" + _GAP + rb"+"
_BARE: Final = rb"[^\s\"'`,;&<>(){}\[\]|\\]{8}"
_TO_VALUE: Final = rb"(?:" + _GAP + rb"|[=>*|\[+-]|" + _BLANK + rb")*"
ASSIGNMENT_TRIGGER: Final = (
    rb"(?i)(?:(?:" + LONG_WORDS + rb")" + _OF_NAME + rb"*|pass|creds?)(?:[\"'`\\]|" + _BLANK + rb")*"
    rb"(?:(?:[:=|,>]|%3d|\\u003d|[:.?+]{1,3}=|,?"
    + _GAP
    + rb"*\\*[\"']?value\\*[\"']?\s*[:=]|(?::[ \t]*)?[a-z][a-z_.<>\[\]]*[ \t]*:?=)"
    + _TO_VALUE
    + rb"(?:\\*[\"'`]+"
    + _NEITHER
    + rb"|"
    + _BARE
    + rb")|[ \t]{2}[ \t]*"
    + _BARE
    + rb")"
    rb"|set(?:x| -[a-z]+)\s+(?:-[a-z]+\s+)*\w*(?:" + LONG_WORDS + rb"|" + SHORT_WORDS + rb")\w*\s"
    rb"|(?:"
    + SHORT_WORDS
    + rb")[\"'`\\\]]*"
    + _BLANK
    + rb"*(?:[:=|]|,?"
    + _GAP
    + rb"*\\*[\"']?value\\*[\"']?\s*[:=])"
    + _TO_VALUE
    + rb"\\*[\"'`]*[\w+/.~%-]{8}"
    rb"|(?:pin|otp|cvv|cvc|puk)[\"'\\\]]*\s*[:=]\s*[\"'\\]+\d{4}"
    rb"|-[a-z0-9-]*(?:" + LONG_WORDS + rb"|key|auth|pass)[\w-]*\s{1,2}[^\s]{8}"
)
"""Trigger of assignments.

Parts that the pattern below counts are plain loops here, since one automaton runs the triggers of all kinds.
"""

_SEED: Final = compile_pattern(ASSIGNMENT_TRIGGER)
_ASSIGNMENT: Final = compile_pattern(
    rb"(?i)((?:" + LONG_WORDS + rb"|" + SHORT_WORDS + rb")" + _OF_NAME + rb"*)"
    rb"(" + _ANY_QUOTE + rb")?"
    rb"((?:"
    + _BLANK
    + rb"*(?:"
    + rb"|".join((_VALUE, _OF_TYPE, _BLOCK, _EQUALS, rb","))
    + rb")\**(?:"
    + _BLANK
    + rb"*|"
    + _LIST
    + rb")\[?)"
    rb"|[ \t]*\|" + _BLANK + rb"*|>" + _GAP + rb"*|\s+)(" + _ANY_QUOTE + rb")?"
)
_NAME_BYTES: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$[]%-")
_LONGEST_NAME: Final = 64
_UNQUOTED: Final = re.compile(rb"[^\s\x1b\"'`,;&<>(){}\[\]|\\]{0,4096}")
_ANOTHER_WORD: Final = re.compile(rb"[ \t]*(?::[ \t]*|[ \t])[A-Za-z][^=:]*:?=\Z")
"""Type before a quoted value.

Without quotes, the line is prose, or the word is the value itself.
"""

_NESTED: Final = 512
"""Bytes of an unquoted value within which nested assignments are looked for."""

_BEFORE: Final = 64
_SET: Final = re.compile(rb"(?:\b|\\n)set(?:x| -[a-zA-Z]{1,8})\s+(?:-[a-zA-Z]{1,8}\s+)*\Z")
"""Command before a variable and its value: `setx` of Windows and `set -gx` of fish."""

_LINE_BEGINS: Final = re.compile(rb"(?:\A|\n|\\n)[ \t#+-]*\Z")


def assignments(text: bytes, lo: int, hi: int, inner: Inner) -> Iterator[Loose | Encoded]:
    """Yield the values that a name announces, in shell, JSON, YAML, source code, XML, query strings, forms, headers and
    options.
    """
    at = lo
    while seed := next(matches(_SEED, text, at, hi), None):
        match = _ASSIGNMENT.search(text, seed.start(), min(seed.end() + SLACK, len(text)))
        if match is None:
            at = seed.end()
            continue
        at = max(match.end(1), at + 1)
        begin = match.start()
        while begin > max(0, match.start() - _LONGEST_NAME) and text[begin - 1] in _NAME_BYTES:
            begin -= 1
        begin = min(past_escape(text, begin), match.start())
        name = text[begin : match.end(1)]
        kind = sensitivity(name)
        value = _value_span(text, match, begin) if kind else None
        if kind and value:
            if not match.group(4) and value[1] - value[0] > _NESTED:
                at = value[1]
            environment = (name == name.upper() and b"=" in match.group(3)) or _is_setting(text, begin, match, kind)
            if kind == "key" and environment and b"_" in name:
                kind = "secret"
            accepts = partial(is_secret, sensitivity=kind, quoted=environment or match.group(4) is not None)
            yield _decode_value(text, value, accepts, inner)


def _value_span(text: bytes, match: Any, begin: int) -> tuple[int, int] | None:
    """Return the span of the value, or None if the match assigns no secret."""
    named_in, separator, quote = match.group(2), match.group(3), match.group(4)
    if text[max(0, begin - 2) : begin] == b"::":  # a type: `AWS::IAM::AccessKey`
        return None
    if not quote and b"=" not in separator and text[begin : match.end(1)].lower() == b"pass":  # what a test did
        return None
    if separator.isspace() and not _is_apart(text, begin, match):
        return None
    if separator.startswith(b">") and text[begin - 1 : begin] not in (b"<", b":"):
        return None
    if separator.strip() == b"," and not (quote == named_in and _is_argument(text, begin, named_in)):
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


def _is_setting(text: bytes, begin: int, match: Any, kind: Sensitivity) -> bool:
    """Check whether an assignment is a setting rather than source code.

    Settings are options, and `password=x` among the arguments of a command or the fields of a form.
    """
    if text[begin : begin + 1] == b"-":
        return kind == "password"
    value = _UNQUOTED.match(text, match.end())
    after = text[value.end() : value.end() + 1] if value else b""
    return match.group(3) == b"=" and (after not in _IN_CALL or text[begin - 1 : begin] in _JOINS)


_IN_CALL: Final = frozenset((b",", b")", b"]", b"}"))
_JOINS: Final = frozenset((b",", b"&", b"?"))


def _is_apart(text: bytes, begin: int, match: Any) -> bool:
    """Check whether a name and a value separated by blanks are an option, or two columns of a line."""
    separator = match.group(3)
    if text[begin : begin + 1] == b"-":
        return len(separator) <= 2
    before = _LINE_BEGINS if len(separator) > 1 else _SET
    return b"\n" not in separator and before.search(text, max(0, begin - _BEFORE), begin) is not None


def _is_argument(text: bytes, start: int, quote: bytes | None) -> bool:
    """Check whether a quoted name is the first argument of a call: `setProperty("API_TOKEN", "…")`."""
    return quote is not None and text[max(0, start - 1 - len(quote)) : start] == b"(" + quote


def _decode_value(
    text: bytes, span: tuple[int, int], accepts: Callable[[bytes], bool], inner: Inner
) -> Loose | Encoded:
    """Return the value as a find, or its decoded body if it is base64 of text."""
    value = text[slice(*span)]
    if len(value) >= 12 and len(value) % 4 == 0 and not is_placeholder(core_of(value)):
        body = decode_body(text, *span, partial(whole, inner))
        if body:
            return body
    return Loose(*span, "assignment", accepts)


def whole(inner: Inner, data: bytes) -> Finds:
    """Find the secrets in the text of a secret body; without finds, the whole text is a secret unless it is a
    certificate.
    """
    finds = inner(data)
    if finds or b"CERTIFICATE-----" in data:
        return finds
    return Finds(loose=(Loose(0, len(data), "assignment", is_password),))
