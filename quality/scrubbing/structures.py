"""Finders of secrets in structures: fields of markup, members of keys, columns of tables.

`sensitive_names` judges the names, which here do not directly precede the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from trajmill.quality.scrubbing.kinds import Loose
from trajmill.quality.scrubbing.matching import compile_pattern, matches
from trajmill.quality.scrubbing.sensitive_names import LONG_WORDS, Sensitivity, sensitivity
from trajmill.quality.scrubbing.values import is_password, is_secret

_QUOTE: Final = rb"\\{0,8}[\"']"
_END: Final = rb"(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n)"
_NEAR: Final = 1024
"""Bytes before and after an announcement in which its element or object begins and ends."""

_PASSWORD_FIELD: Final = compile_pattern(
    rb"(?i)type\s?=\s?"
    + _QUOTE
    + rb"?password|password\s?=\s?"
    + _QUOTE
    + rb"true|"
    + _QUOTE
    + rb"name"
    + _QUOTE
    + rb"\s{0,4}:\s{0,4}"
    + _QUOTE
    + rb"[\w.\[\]%-]{0,40}(?:"
    + LONG_WORDS
    + rb"|key|auth|pass|cred)"
)
_OPENS: Final = re.compile(rb"[<{]")
_CLOSES: Final = re.compile(rb"[>}]")
_SHOWN: Final = re.compile(rb"\b(?:value|text)(\\{0,8}[\"'])?\s{0,4}[=:]\s{0,4}\\{0,8}[\"']([^\"'\\<>]{3,256})")
_FIELD_NAME: Final = re.compile(rb"\bname\\{0,8}[\"']?\s{0,4}[=:]\s{0,4}\\{0,8}[\"']([^\"'\\<>]{1,80})")

_KEY_TYPE: Final = compile_pattern(rb"\"kty\\{0,8}\"\s{0,4}:")
_KEY_MEMBER: Final = re.compile(rb"\"(?:d|p|q|dp|dq|qi|k)\\{0,8}\"\s{0,4}:\s{0,4}\\{0,8}\"([A-Za-z0-9_-]{16,1024})")

_PART: Final = compile_pattern(
    rb"form-data; name="
    + _QUOTE
    + rb"([\w.\[\]%-]{1,64})"
    + _QUOTE
    + rb"[^\r\n\\]{0,80}"
    + _END
    + rb"{2}([^\r\n\\]{3,256})"
)
_CODES: Final = compile_pattern(rb"(?i)(?:recovery|backup|scratch) codes?[^\n\\]{0,80}" + _END + rb"{1,3}")
_CODE: Final = re.compile(
    rb"(?:\d{1,2}[.)] ?|[-*] )?([A-Za-z0-9]{4,10}(?:-[A-Za-z0-9]{4,10}){0,3})(?:\s{1,4}|" + _END + rb"|\Z)+"
)

_CELL: Final = rb"[\w \"-]{1,40}"
_HEADER: Final = compile_pattern(
    rb"(?i)((?:"
    + _CELL
    + rb",){0,16}[\w \"-]{0,24}(?:password|secret|token|access key)[\w \"-]{0,16}(?:,"
    + _CELL
    + rb"){0,16})"
    + _END
)
_LINE: Final = re.compile(rb"([^\r\n\\]{3,1024})(?:" + _END + rb"|\Z)")
_LINES: Final = 200

_COLUMN: Final = rb"(?:password|secret|token|access key)[\w \"-]*"
_END_OF_ANY: Final = rb"(?:\r?\n|(?:\\+r)?\\+n)"
TRIGGER: Final = (
    rb"(?i:type\s?=\s?[\"'\\]*password|password\s?=\s?\\*[\"']true"
    rb"|[\"']name\\*[\"']\s*:\s*\\*[\"'][\w.\[\]%-]*(?:" + LONG_WORDS + rb"|key|auth|pass|cred))"
    rb"|\"kty\\*\"|form-data; name=|(?i:(?:recovery|backup|scratch) codes?)"
    rb"|(?i:" + _COLUMN + rb",[\w \",-]*" + _END_OF_ANY + rb"|,[\w \"-]*" + _COLUMN + _END_OF_ANY + rb")[^\r\n\\,]*,"
)


def find_structured(text: bytes, lo: int, hi: int) -> Iterator[Loose]:
    """Find values of password fields, private members of JWK (RFC 7517), parts of forms, lists of codes and columns of
    CSV.
    """
    for match in matches(_PASSWORD_FIELD, text, lo, hi):
        yield from _field(text, match.start(), match.end())
    for match in matches(_KEY_TYPE, text, lo, hi):
        start, end = _around(text, match.start(), match.end())
        for member in _KEY_MEMBER.finditer(text, start, end):
            yield Loose(*member.span(1), "assignment", is_password)
    for match in matches(_PART, text, lo, hi):
        if kind := sensitivity(match.group(1)):
            start, end = match.span(2)
            yield Loose(start, end, "assignment", is_password if kind == "password" else _looks(kind))
    for match in matches(_CODES, text, lo, hi):
        at = match.end()
        while (code := _CODE.match(text, at)) and any(48 <= byte < 58 for byte in code[1]):
            yield Loose(*code.span(1), "assignment", is_password)
            at = code.end()
    yield from _columns(text, lo, hi)


def _looks(kind: Sensitivity) -> partial[bool]:
    return partial(is_secret, sensitivity=kind, quoted=True)


def _around(text: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the bounds of the element or object that contains the span."""
    opened = [match.end() for match in _OPENS.finditer(text, max(0, start - _NEAR), start)]
    closed = _CLOSES.search(text, end, end + _NEAR)
    return opened[-1] if opened else max(0, start - _NEAR), closed.start() if closed else min(len(text), end + _NEAR)


def _field(text: bytes, start: int, end: int) -> Iterator[Loose]:
    """Find the values shown in a password field, and those in an object whose member `name` announces a secret."""
    begin, stop = _around(text, start, end)
    is_object = text[start : start + 1] in b"\"'\\"
    name = _FIELD_NAME.search(text, begin, stop) if is_object else None
    kind = sensitivity(name[1]) if name else None
    if is_object and kind is None:
        return
    for shown in _SHOWN.finditer(text, begin, stop):
        yield Loose(*shown.span(2), "assignment", _looks(kind) if kind else is_password)


def _columns(text: bytes, lo: int, hi: int) -> Iterator[Loose]:
    """Yield the cells below the names of secrets in a table of comma-separated values."""
    for match in matches(_HEADER, text, lo, hi):
        kinds = [sensitivity(cell) for cell in match.group(1).split(b",")]
        at = match.end()
        for _ in range(_LINES if len(kinds) > 1 else 0):
            line = _LINE.match(text, at)
            cells = line[1].split(b",") if line else []
            if line is None or len(cells) != len(kinds):
                break
            for kind, cell in zip(kinds, cells, strict=True):
                start = at + len(cell) - len(cell.lstrip(b' "'))
                end = at + len(cell.rstrip(b' "'))
                if kind and start < end:
                    yield Loose(start, end, "assignment", _looks(kind))
                at += len(cell) + 1
            at = line.end()
