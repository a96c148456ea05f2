"""Finders of numbers that identify persons: phones, payment cards, bank accounts, social security.

They yield `Span`s also for harmless numbers (`stays`), so that these are claimed in the same way before and after
scrubbing.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from trajmill.quality.scrubbing.kinds import Span
from trajmill.quality.scrubbing.matching import closes, compile_pattern, matches, opens
from trajmill.quality.scrubbing.placeholders import (
    core_of,
    country_code,
    is_card_placeholder,
    is_fictional,
    is_placeholder,
    luhn,
)

_NAMED: Final = (
    rb"(?i)(?:phone|mobile|whatsapp|(?:\b|_)tel|(?:\b|_)fax)(?:[ _-]?(?:number|no))?"
    rb"[\"'\\]{0,6}\s{0,3}[:=]\s{0,3}[\"'\\]{0,6}"
)
"""Field name of a phone number."""

_WORDS: Final = (
    "tel telephone telefone telefon telefono teléfono téléphone tél phone mobile mobil handy cell cellphone cellulare "
    "celular móvil portable gsm fax whatsapp call sms 電話 电话 手机 携帯"
)
_WRITTEN: Final = {form for word in _WORDS.split() for form in (word.encode(), json.dumps(word)[1:-1].encode())}
"""Words for a phone, plain and in JSON escapes."""

_SAID_PHONE: Final = (
    rb"(?i)(?:" + b"|".join(map(re.escape, sorted(_WRITTEN, reverse=True))) + rb")\.?(?: ?(?:number|no\.?|nr\.?))?"
)
_NATIONAL: Final = compile_pattern(
    _SAID_PHONE
    + rb"[\"'\\]{0,6}\s{0,2}[:=#]?\s{0,2}[\"'\\]{0,6}"
    + rb"((?:\(\d{2,5}\)|\(?(?:0|[6-9]|1[3-9]\d)\d{0,4}\)?)(?:[ ./-]{0,2}\d{1,8}){1,5})"
)
"""Number in a national form after a word for a phone: `Tel. 030 1234567`, `Tél : 06 12 34 56 78`."""

PHONE_TRIGGER: Final = (
    rb"\+\d[\d .()-]{7}|\d{3}\)?[ .-]\d{3}[ .-]\d{4}|" + _NAMED.replace(rb"(?:\b|_)", b"") + rb"\d{10}"
    rb"|" + _SAID_PHONE + rb"[ :=#\"'\\]*(?:\([1-9]|[016-9])\d[\d ()./-]{6}"
)
_OPEN: Final = ord("(")
_MOBILE: Final = {"1": (11,), "6": (9, 10), "7": (9, 10), "8": (10,), "9": (9, 10)}
"""First digit of a number without a leading zero → possible numbers of digits: of China, Spain, Poland, India."""

_NAMED_PHONE: Final = compile_pattern(_NAMED + rb"(1?[2-9]\d\d[2-9]\d{6})")
_PHONE: Final = compile_pattern(
    rb"\+\d{1,3}(?:[ .-]?\(?\d{1,4}\)?){1,5}[ .-]?\d{2,4}|(?:1[ .-])?\(?[2-9]\d\d\)?[ .-][2-9]\d\d[ .-]\d{4}"
)
_SAID: Final = re.compile(rb"(?i)(?:phone|tel|mobile|cell|call|sms|whatsapp|fax|contact|number)[^\n\d]{0,16}\Z")
_NUMBER_LEFT: Final = frozenset(b" \t\r\n\"'`([:>=,;<|*")
_NUMBER_RIGHT: Final = re.compile(rb"[.,-]\d|%")


def _stands_alone(text: bytes, start: int, end: int) -> bool:
    """Check that a number is not part of a longer word, number, path or identifier."""
    left = start == 0 or text[start - 1] in _NUMBER_LEFT or (text[start - 1 : start].isalnum() and opens(text, start))
    return left and closes(text, end) and not _NUMBER_RIGHT.match(text, end)


def _numerals(raw: bytes) -> str:
    return bytes(byte for byte in raw if 48 <= byte < 58).decode()


def phones(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Find phone numbers in international (ITU-T E.164), North American and national form; fictional numbers stay.

    Only clear cases count: digits grouped as people write them, a number after a word for a phone, a lone number with
    `+`, or the value of a phone field.
    """
    for match in matches(_PHONE, text, lo, hi):
        start, end = match.span()
        if _stands_alone(text, start, end):
            fictional = _is_fictional(text, start, end)
            if fictional is not None:
                yield Span(start, end, "phone", fictional)
    for match in matches(_NATIONAL, text, lo, hi):
        start, end = match.span(1)
        national = _numerals(text[start:end])
        if not opens(text, match.start()) and text[match.start() : match.start() + 1].islower():
            continue  # the end of another word, such as Fairfax
        begun = national[:1] == "0" or text[start] == _OPEN or (len(national) in _MOBILE.get(national[:1], ()))
        if begun and 8 <= len(national) <= 12 and closes(text, end) and not _NUMBER_RIGHT.match(text, end):
            yield Span(start, end, "phone", is_fictional("", national) or len(set(national)) < 3)
    for match in matches(_NAMED_PHONE, text, lo, hi):
        start, end = match.span(1)
        national = text[end - 10 : end].decode()
        if closes(text, end) and not _NUMBER_RIGHT.match(text, end) and len(set(national)) > 2:
            yield Span(start, end, "phone", is_fictional("", national))


def _is_fictional(text: bytes, start: int, end: int) -> bool | None:
    """Check whether the number is fictional; None if it is no phone number."""
    raw, numerals = text[start:end], _numerals(text[start:end])
    is_announced = _SAID.search(text, max(0, start - 40), start) is not None
    if not raw.startswith(b"+"):
        written = (b"(" in raw) == (b")" in raw) and (b"(" in raw or raw.count(b"-") >= 2 or is_announced)
        national = numerals[-10:]
        return is_fictional("", national) if written and len(set(national)) > 2 else None
    code = country_code(numerals)
    separated = len(raw) > len(numerals) + 1
    after_line_end = text[start - 1 : start] == b"\n" or text[start - 2 : start] == b"\\n"
    if not code or not 8 <= len(numerals) <= 15 or (after_line_end and not separated and not is_announced):
        return None
    if (code == "1" and len(numerals) != 11) or (not separated and not is_announced and len(numerals) < 10):
        return None
    return is_fictional(code, numerals[len(code) :])


CARD_TRIGGER: Final = (
    rb"[a-zA-Z \t\r\n\"'`([:>=,;<|*](?:(?:4\d|5[1-5]|2[2-7]|60|65|35|62)\d\d[ -]?\d{4}[ -]?\d{4}[ -]?\d\d"
    rb"|3\d{3}[ -]?\d{6}[ -]?\d{4})"
)
_CARD: Final = compile_pattern(
    rb"(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6011|65\d\d|35\d\d|62\d\d)(?:\d{12}|(?: \d{4}){3}|(?:-\d{4}){3})"
    rb"|3[47]\d\d(?:\d{11}| \d{6} \d{5}|-\d{6}-\d{5})|3(?:0[0-5]|[689]\d)\d(?: \d{6} \d{4}|-\d{6}-\d{4})"
)
_TEST_CARDS: Final = re.compile(
    "4111111111111111|4242424242424242|4012888888881881|4000056655665556|5555555555554444|5105105105105100"
    "|2223003122003222|378282246310005|371449635398431|6011111111111117|6011000990139424|3530111333300000"
    "|30569309025904|38520000023237"
)
"""Card numbers that payment gateways publish for tests."""


def cards(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Find payment card numbers of the large networks that pass the Luhn check; published test numbers stay."""
    for match in matches(_CARD, text, lo, hi):
        start, end = match.span()
        numerals = _numerals(text[start:end])
        stays = _TEST_CARDS.fullmatch(numerals) is not None or is_card_placeholder(numerals)
        if _stands_alone(text, start, end) and (stays or (luhn(numerals) and len(set(numerals)) > 3)):
            yield Span(start, end, "card", stays)


_IBAN_BYTES: Final = dict(
    pair.split(b":")
    for pair in (
        b"NO:15 BE:16 DK:18 FI:18 FO:18 GL:18 NL:18 FK:18 MK:19 SI:19 AT:20 BA:20 EE:20 KZ:20 LT:20 LU:20 XK:20 MN:20 "
        b"CH:21 HR:21 LI:21 LV:21 BG:22 BH:22 CR:22 DE:22 GB:22 GE:22 IE:22 ME:22 RS:22 VA:22 AE:23 GI:23 IL:23 IQ:23 "
        b"OM:23 TL:23 SO:23 AD:24 CZ:24 ES:24 MD:24 PK:24 RO:24 SA:24 SE:24 SK:24 TN:24 VG:24 LY:25 PT:25 ST:25 IS:26 "
        b"TR:26 FR:27 GR:27 IT:27 MC:27 MR:27 SM:27 BI:27 DJ:27 AL:28 AZ:28 BY:28 CY:28 DO:28 GT:28 HU:28 LB:28 NI:28 "
        b"PL:28 SV:28 BR:29 EG:29 PS:29 QA:29 UA:29 JO:30 KW:30 MU:30 YE:30 MT:31 SC:31 LC:32 RU:33"
    ).split()
)
"""Country → length of its account numbers, in characters (ISO 13616 registry)."""

_COUNTRY: Final = b"(?:" + b"|".join(sorted(_IBAN_BYTES)) + b")"
IBAN_TRIGGER: Final = _COUNTRY + rb"\d\d(?: [A-Z0-9]{4} [A-Z0-9]{4} |[A-Z0-9]{11})"
_IBAN: Final = compile_pattern(_COUNTRY + rb"\d\d(?:(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?|[A-Z0-9]{11,30})")

_SAMPLE_IBANS: Final = frozenset(
    b"GB82WEST12345698765432 DE89370400440532013000 FR1420041010050500013M02606 GB29NWBK60161331926819 "
    b"NL91ABNA0417164300 BE68539007547034 CH9300762011623852957 ES9121000418450200051332 IT60X0542811101000000123456 "
    b"AT611904300234573201 SE4550000000058398257466 NO9386011117947 DK5000400440116243 FI2112345600000785 "
    b"PL61109010140000071219812874 PT50000201231234567890154 IE29AIBK93115212345678 LU280019400644750000".split()
)
"""Account numbers that standards and banks publish as examples."""


def ibans(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Find international bank account numbers (ISO 13616) with a valid length and valid check digits (mod 97)."""
    for match in matches(_IBAN, text, lo, hi):
        start, end = match.span()
        size = int(_IBAN_BYTES.get(text[start : start + 2], b"0"))
        end = _end_of(text, start, end, size)
        if end and opens(text, start) and closes(text, end):
            plain = text[start:end].replace(b" ", b"")
            stays = plain in _SAMPLE_IBANS or is_placeholder(core_of(plain[2:]))
            if stays or _is_checked(plain):
                yield Span(start, end, "iban", stays, kept=2)


def _end_of(text: bytes, start: int, end: int, size: int) -> int:
    """Return the end of the first `size` characters other than spaces; 0 if there are fewer."""
    for position in range(start + size, end + 1):
        if position - start - text.count(b" ", start, position) == size:
            return position if size else 0
    return 0


def _is_checked(plain: bytes) -> bool:
    """Check that the number, with its first four characters at the end and letters as 10 to 35, is 1 modulo 97."""
    return int("".join(str(int(chr(byte), 36)) for byte in plain[4:] + plain[:4])) % 97 == 1


_SSN_SAID: Final = rb"(?i)(?:(?:\b|_|\\[nrt])ssn|social.?security|(?:\b|\\[nrt])soc\.? sec)"
SSN_TRIGGER: Final = rb"(?i)ssns?[^a-z]|social.?security|soc\.? sec"
"""Trigger without a condition on the preceding bytes, since the scan covers adjacent texts and may see the end of
another text there.
"""

_NUMBERED: Final = re.compile(rb"(?<![\w-])(\d{3})([- ]?)(\d\d)\2(\d{4})(?![\w-])")
_SSN_NAMED: Final = compile_pattern(_SSN_SAID)
_SSN_NEAR: Final = 256
"""Bytes after the words in which numbers are looked for, as in a table with the words as heading."""

_SSN_DIRECTLY: Final = 12
"""Bytes after the words in which nine digits without hyphens count."""

_SAMPLE_SSNS: Final = frozenset({b"078051120", b"219099999", b"123456789"})


def social_security(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Find US social security numbers near the words; areas 000, 666 and 9xx and zero groups are never issued."""
    after = lo
    ends = [announcement.end() for announcement in matches(_SSN_NAMED, text, lo, hi)]
    for end in ends:
        at = max(after, end)
        after = max(after, end + _SSN_NEAR)
        for match in _NUMBERED.finditer(text, at, min(len(text), after)):
            area, gap, group, serial = match.groups()
            issued = area not in (b"000", b"666") and area[:1] != b"9" and group != b"00" and serial != b"0000"
            announced_at = ends[bisect_right(ends, match.start()) - 1]
            if issued and (gap or match.start() - announced_at <= _SSN_DIRECTLY):
                yield Span(*match.span(), "ssn", area + group + serial in _SAMPLE_SSNS)
