"""Placeholders of secrets: of the same length and form, derived from a keyed hash, and recognizable.

A placeholder either is a value that cannot be real (reserved addresses, fictional phone numbers, `user1234`) or
certifies itself: its first characters are a keyed hash of the secret, the others an unkeyed hash of the first ones. It
is thus recognized without the key, and a second scrubbing changes nothing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Final

from trajmill.quality.scrubbing.kinds import Kind

MASKED_UNDER: Final = 8
"""Letters and digits of a secret below which it becomes `x`, `X` and `0`.

Such secrets are too short to be distinguished and to certify themselves.
"""

_UNITS: Final = re.compile(
    rb"\\+u(?P<hex>[0-9a-fA-F]{4})"
    rb"|\\+(?:x[0-9a-fA-F]{2}|[^\x80-\xff])|%[0-9a-fA-F]{2}|\x1b\[[0-9;?]*[A-Za-z]"
    rb"|&(?:#[0-9]{1,9}|#[xX][0-9a-fA-F]{1,8}|[a-z]{2,8});"
    rb"|(?P<char>[A-Za-z0-9]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})"
)
_ESCAPES: Final = re.compile(rb"[\\%&\x1b]")
_NO_CORE: Final = re.compile(rb"[^A-Za-z0-9]+")
_HEX: Final = re.compile(r"[0-9a-f]{16,}|[0-9A-F]{16,}")
_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"


_SEED_BYTES: Final = 4096
"""Largest seed, in bytes, that is hashed whole for each block of its stream; a longer one is replaced by a digest."""


def _stream(seed: bytes, key: bytes = b"") -> Iterator[int]:
    """Yield endless bytes, a function of the seed and the key, in time linear in both."""
    if len(seed) > _SEED_BYTES:
        seed = blake2b(seed, key=key, person=b"trajmill long").digest()
    block = 0
    while True:
        yield from blake2b(seed, key=key, salt=block.to_bytes(8, "little"), person=b"trajmill").digest()
        block += 1


def _alphabets(core: str) -> list[str]:
    """Return the possible replacements of each character of `core`; a placeholder has the alphabets of its secret."""
    letters = _letters(core)
    return [_alphabet(char, letters, first=position == 0) for position, char in enumerate(core)]


def _letters(core: str) -> str:
    return _LOWER[:6] if _HEX.fullmatch(core) else _LOWER


def _alphabet(char: str, letters: str, *, first: bool) -> str:
    if "0" <= char <= "9":
        if first:  # a number keeps no zero in front, or JSON would break
            return "0" if char == "0" else "123456789"
        return "0123456789"
    if char < "\x80":
        return letters if char >= "a" else letters.upper()
    return _WIDE[len(char.encode("utf-8", "surrogatepass"))]


_WIDE: Final = {
    2: "".join(chr(0x430 + n) for n in range(32)),
    3: "".join(chr(0x4E00 + n) for n in range(256)),
    4: "".join(chr(0x1F600 + n) for n in range(64)),
}
"""Replacements of letters outside ASCII, by their length in UTF-8."""


def _free(length: int) -> int:
    """Return the number of leading characters that the secret decides; the others certify them."""
    return 3 if length < 12 else 4 if length < 16 else 8


def _certify(head: str, shape: str, rest: Iterable[str]) -> Iterator[str]:
    """Yield the characters that certify `head`.

    Args:
        head: Characters that the secret decides.
        shape: First characters of the alphabets of all characters.
        rest: Alphabets of the following characters.
    """
    stream = _stream(_seed(head, shape))
    return (alphabet[next(stream) % len(alphabet)] for alphabet in rest)


def _seed(head: str, shape: str) -> bytes:
    return f"{head}\0{shape}".encode("utf-8", "surrogatepass")


_SHAPES: Final = bytes.maketrans(f"123456789{_LOWER}{_LOWER.upper()}".encode(), b"0" * 9 + b"a" * 26 + b"A" * 26)


def _shape(core: str) -> str:
    """Return the first character of each alphabet."""
    if not core.isascii():
        return "".join(alphabet[0] for alphabet in _alphabets(core))
    shape = core.encode().translate(_SHAPES).decode()
    return f"1{shape[1:]}" if "1" <= core[0] <= "9" else shape


def _derive(core: str, key: bytes) -> str:
    alphabets = _alphabets(core)
    stream = _stream(core.encode("utf-8", "surrogatepass"), key)
    free = _free(len(core))
    while True:  # almost always once: a hexadecimal secret has to stay one, any other must not become one
        head = "".join(alphabet[next(stream) % len(alphabet)] for alphabet in alphabets[:free])
        derived = head + "".join(_certify(head, _shape(core), alphabets[free:]))
        if _alphabets(derived) == alphabets:
            return derived


def is_certified(core: str) -> bool:
    """Check whether letters and digits, in order, form a placeholder that certifies itself."""
    return len(core) >= MASKED_UNDER and (len(set(core)) <= 2 or certifies_itself(core))


def certifies_itself(core: str) -> bool:
    """Check whether the characters behind the first ones are those that certify them, of at least `MASKED_UNDER`."""
    free, letters = _free(len(core)), _letters(core)
    for char, byte in zip(core[free:], _stream(_seed(core[:free], _shape(core))), strict=False):
        alphabet = _alphabet(char, letters, first=False)
        if alphabet[byte % len(alphabet)] != char:
            return False
    return True


_UNKEYED: Final = blake2b(salt=bytes(8), person=b"trajmill")
_LIKE: Final = [
    {
        ord(letters[byte % len(letters)])
        for some in ("0123456789", _LOWER, _LOWER[:6])
        for letters in (some, some.upper())
    }
    for byte in range(256)
]
"""Characters in ASCII that a byte of the stream may become."""


def may_certify_itself(core: bytes, begins: Iterable[int]) -> bool:
    """Return False if letters and digits in ASCII do not certify themselves from any of these positions on.

    Only the first two certifying characters are compared. Tails shorter than `MASKED_UNDER` are left out.
    """
    if len(core) > _SEED_BYTES // 2:
        return True
    shape = core.translate(_SHAPES)
    for begin in begins:
        if (length := len(core) - begin) >= MASKED_UNDER:
            head = begin + _free(length)
            has_number = ord("1") <= core[begin] <= ord("9")
            hashed = _UNKEYED.copy()
            hashed.update(core[begin:head] + (b"\x001" + shape[begin + 1 :] if has_number else b"\0" + shape[begin:]))
            stream = hashed.digest()
            if core[head] in _LIKE[stream[0]] and core[head + 1] in _LIKE[stream[1]]:
                return True
    return False


def is_placeholder(core: str) -> bool:
    """Check whether letters and digits, in order, form a placeholder or a mask such as `xxxx` and `0000`."""
    return not core.strip("xX0") if len(core) < MASKED_UNDER else is_certified(core)


def _unit_char(match: re.Match[bytes]) -> str:
    code = match["hex"]
    if code is None:
        return (match["char"] or b"").decode("utf-8", "surrogatepass")
    char = chr(int(code, 16))
    return "" if "\ud800" <= char <= "\udfff" or (char < "\x80" and not char.isalnum()) else char


def core_of(raw: bytes) -> str:
    r"""The letters and digits of `raw` in order; escapes (`\n`, `\\`, `%40`) are separators, `\u00e9` is a letter."""
    if raw.isascii() and not _ESCAPES.search(raw):
        return _NO_CORE.sub(b"", raw).decode()
    return "".join(_unit_char(match) for match in _UNITS.finditer(raw))


def body(raw: bytes, key: bytes) -> bytes:
    """Return the placeholder of an opaque secret: each letter and digit replaced by its like, other bytes kept in
    place.

    The replacement depends only on the letters and digits. However a secret is quoted or escaped, its placeholder is
    quoted and escaped in the same way.
    """
    core = core_of(raw)
    if is_placeholder(core):
        return raw
    if len(core) < MASKED_UNDER:
        masked = ("0" if "0" <= c <= "9" else "x" if "a" <= c <= "z" else "X" if c < "\x80" else "" for c in core)
        chars = (mask or _alphabet(c, _LOWER, first=False)[0] for mask, c in zip(masked, core, strict=True))
        return _laid_out(raw, chars)
    return _laid_out(raw, iter(_derive(core, key)))


def _laid_out(raw: bytes, chars: Iterator[str]) -> bytes:
    def written(match: re.Match[bytes]) -> bytes:
        if not _unit_char(match):
            return match[0]
        char = next(chars)
        if match["hex"] is None:
            return char.encode()
        code = f"{ord(char):04x}".encode()
        return match[0][:-4] + (code.upper() if match["hex"].isupper() else code)

    return _UNITS.sub(written, raw)


def _digits(count: int, stream: Iterator[int]) -> str:
    return "".join(str(next(stream) % 10) for _ in range(count))


def _add_digits(word: str, length: int, stream: Iterator[int]) -> str:
    """Shorten `word` and add digits up to the given length: `u123`, `user1234`."""
    head = word[: max(1, min(len(word), length - 4))]
    return head + _digits(length - len(head), stream)


NUMBERED_USER: Final = re.compile(rb"u\d{0,4}|us\d{4}|use\d{4}|user\d{4,}")
NUMBERED_HOST: Final = re.compile(rb"h\d{0,4}|ho\d{4}|hos\d{4}|host\d{4,}|host\d+\.example")


def user(raw: bytes, key: bytes) -> bytes:
    """Return `userNNNN`, shortened to the length of `raw` in bytes; the case of the name does not matter."""
    return _add_digits("user", len(raw), _stream(b"user\0" + raw.lower(), key)).encode()


def host(raw: bytes, key: bytes) -> bytes:
    """Return `hostNNNN`, or `hostNNNN.example` for a name with dots of at least 13 bytes, of the length of `raw`."""
    stream = _stream(b"host\0" + raw.lower(), key)
    if b"." in raw and len(raw) >= 13:
        return b"host" + _digits(len(raw) - 12, stream).encode() + b".example"
    return _add_digits("host", len(raw), stream).encode()


RESERVED_DOMAIN: Final = re.compile(
    rb"(?i)(?:.*\.)?(?:example(?:\.(?:com|org|net|edu))?|test|invalid|localhost|[a-z]{1,2}\.zz)"
)
"""Domains without an owner: RFC 2606, and `zz`, which ISO 3166 reserves for users forever."""


def domain(raw: bytes, key: bytes) -> bytes:
    """Return a domain without an owner, of the length of `raw`, with the longest tail of `.example.com`, `.example`,
    `.test`, `.zz`.
    """
    length = len(raw)
    tail = next(t for t in (".example.com", ".example", ".test", ".zz") if length > len(t) or t == ".zz")
    stream = _stream(b"domain\0" + raw.lower(), key)
    return "".join(_LOWER[next(stream) % 26] for _ in range(length - len(tail))).encode() + tail.encode()


def email(raw: bytes, key: bytes) -> bytes:
    """Return `userNNNN@` and a domain without an owner; equal local parts, and equal domains, stay equal."""
    separator = b"%40" if b"%40" in raw else b"@"
    local, _, rest = raw.rpartition(separator)
    return user(local, key) + separator + domain(rest, key)


def ip(raw: bytes, key: bytes) -> bytes:
    """Return an address of the same length from a range for documentation, benchmarks or one that is never assigned."""
    return _ip6(raw, key) if b":" in raw else _ip4(raw, key)


_RANGES: Final = {
    7: ("0", "d", "d", "d"),
    8: ("0", "d", "d", "dd"),
    9: ("192.0.2", "d"),
    10: ("198.18", "d", "d"),
    11: ("198.18", "d", "dd"),
    12: ("198.18", "dd", "dd"),
    13: ("198.18", "dd", "ddd"),
    14: ("198.18", "ddd", "ddd"),
    15: ("100", "shared", "ddd", "ddd"),
}
"""Length of an address in text → its reserved beginning, and the widths of the following octets.

0.0.0.0/8 (RFC 791), 192.0.2.0/24 (RFC 5737), 198.18.0.0/15 (RFC 2544), 100.64.0.0/10 (RFC 6598).
"""

_OCTETS: Final = {"d": range(1, 10), "dd": range(10, 100), "ddd": range(100, 256), "shared": range(100, 128)}


def _ip4(raw: bytes, key: bytes) -> bytes:
    start, *widths = _RANGES[len(raw)]
    stream = _stream(b"ip\0" + raw, key)
    octets = [_OCTETS[width][next(stream) % len(_OCTETS[width])] for width in widths]
    return ".".join([start, *map(str, octets)]).encode()


def _ip6(raw: bytes, key: bytes) -> bytes:
    """Return an address in 3fff::/20 (RFC 9637), group by group; zero groups and the position of `::` are kept."""
    stream = _stream(ipaddress.IPv6Address(raw.decode()).packed, key)
    groups = [group.lstrip("0") for group in ipaddress.IPv6Address(raw.decode()).exploded.split(":")]
    drawn = ["".join("0123456789abcdef"[next(stream) % 16] for _ in range(4)) for _ in groups]
    fresh = [_group(old, new, position) for position, (old, new) in enumerate(zip(groups, drawn, strict=True))]
    head, gap, tail = raw.decode().partition("::")
    left = head.split(":") if head else []
    right = tail.split(":") if tail else []
    values = fresh[: len(left)] + (fresh[8 - len(right) :] if gap else [])
    written = [value.rjust(len(group), "0") for value, group in zip(values, [*left, *right], strict=True)]
    text = ":".join(written[: len(left)]) + gap + ":".join(written[len(left) :])
    return (text.upper() if raw.upper() == raw and raw.lower() != raw else text).encode()


def _group(old: str, new: str, position: int) -> str:
    if position == 0:
        return "3fff"
    if position == 1 and len(old) == 4:
        old = old[1:]
    return (new[: len(old)] if new[0] != "0" else "f" + new[1 : len(old)]) if old else ""


def phone(raw: bytes, key: bytes) -> bytes:
    """Return a number that nobody has, with every separator in its place.

    North American numbers get any area code, then 555-01xx, which is reserved for fiction. Others get the country code,
    then 00, which no number has after a country code.
    """
    numerals = "".join(chr(c) for c in raw if chr(c).isdigit())
    code = country_code(numerals) if raw.lstrip(b"(").startswith(b"+") else "1" if len(numerals) == 11 else ""
    national = numerals[len(code) :]
    stream = _stream(b"phone\0" + national.encode(), key)
    if code in {"", "1"} and len(national) == 10:
        fresh = f"{2 + next(stream) % 8}{_digits(2, stream)}55501{_digits(2, stream)}"
    else:
        fresh = "00" + _digits(len(national) - 2, stream)
    return _replace_digits(raw, code + fresh)


def is_fictional(code: str, national: str) -> bool:
    """Check whether a number has the form of the results of `phone`."""
    return national.startswith("00") or (code in {"", "1"} and len(national) == 10 and national[3:8] == "55501")


_CODES: Final = re.compile(
    r"1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|(?:2[1-689]|3[578]|42|5[09]|6[7-9]|8[0578]|9[679])\d"
)


def country_code(numerals: str) -> str:
    """Return the country code of an international number (ITU-T E.164); empty if it has none."""
    match = _CODES.match(numerals)
    return match[0] if match else ""


def _replace_digits(raw: bytes, numerals: str) -> bytes:
    left = iter(numerals)
    return "".join(next(left) if char.isdigit() else char for char in raw.decode()).encode()


def mac(raw: bytes, key: bytes) -> bytes:
    """Return an address of no maker: 02 (IEEE 802, locally administered), with every separator in its place."""
    stream = _stream(b"mac\0" + raw.lower().replace(b"-", b":"), key)
    digits = "02" + "".join("0123456789abcdef"[next(stream) % 16] for _ in range(10))
    fresh = _PAIR.sub(lambda match: digits[match.start() // 3 * 2 :][:2].encode(), raw)
    return fresh.upper() if raw == raw.upper() != raw.lower() else fresh


_PAIR: Final = re.compile(rb"[0-9A-Fa-f]{2}")
_BRANDS: Final = re.compile(r"4|5[1-5]|2[2-7]\d\d|3[47]|6011|65|35\d\d|30[0-5]|3[689]|62")
"""Beginning of a card number, which is kept (ISO/IEC 7812 ranges of the large networks)."""


def card(raw: bytes, key: bytes) -> bytes:
    """Return a number of the same network that fails the Luhn check, with every separator in its place."""
    numerals = "".join(chr(c) for c in raw if chr(c).isdigit())
    brand_length = len(_brand(numerals))
    for attempt in range(1 << 16):
        fresh = numerals[:brand_length] + _derive(
            numerals[brand_length:], blake2b(key, salt=attempt.to_bytes(8, "little")).digest()
        )
        if not luhn(fresh):
            return _replace_digits(raw, fresh)
    return raw


def is_card_placeholder(numerals: str) -> bool:
    """Check whether the number has the form of the results of `card`."""
    return not luhn(numerals) and is_placeholder(numerals[len(_brand(numerals)) :])


def _brand(numerals: str) -> str:
    match = _BRANDS.match(numerals)
    return match[0] if match else ""


def luhn(numerals: str) -> bool:
    """Check whether the digits pass the Luhn check (ISO/IEC 7812-1, annex B)."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in numerals[-2::-2])
    return (sum(map(int, numerals[-1::-2])) + sum(doubled)) % 10 == 0


def ssn(raw: bytes, key: bytes) -> bytes:
    """Return a social security number that is never issued (area 9xx, group 00), with every separator in its place."""
    numerals = "".join(chr(c) for c in raw if chr(c).isdigit())
    stream = _stream(b"ssn\0" + numerals.encode(), key)
    return _replace_digits(raw, f"9{_digits(2, stream)}00{_digits(4, stream)}")


def placeholder(kind: Kind, raw: bytes, key: bytes) -> bytes:
    """Return the placeholder of `raw`, a find of the given kind, with the same length and form."""
    match kind:
        case "email":
            return email(raw, key)
        case "ip":
            return ip(raw, key)
        case "phone":
            return phone(raw, key)
        case "card":
            return card(raw, key)
        case "ssn":
            return ssn(raw, key)
        case "home":
            return user(raw, key)
        case "host":
            return host(raw, key)
        case "device" if not raw.isdigit():
            return mac(raw, key)
        case _:
            return body(raw, key)
