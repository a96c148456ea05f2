"""Judgment of values that their context makes suspect: pure functions of bytes.

The rules look at the kinds of characters and their order, so that a placeholder is judged like its secret wherever
possible. A placeholder that certifies itself is always judged a secret, and then stays unchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from math import log2
from typing import Final

from trajmill.quality.scrubbing.placeholders import MASKED_UNDER, core_of, is_certified, is_placeholder
from trajmill.quality.scrubbing.sensitive_names import Sensitivity

_DUMMY: Final = re.compile(
    rb"(?i)example|sample|dummy|placeholder|change[_-]?me|redacted|removed|hidden|masked|undefined|x{6,}|a-zA-Z|A-Za-z|\*{3}|\.{3}"
    rb"|\A(?:\{.*|%(?![0-9A-Fa-f]{2}).*|\$[A-Za-z_]\w*)\Z|\xe2\x80\xa6|\xe2\x80\xa2|[<>]|\$\{|\{\{|\$\(|%\(|%s"
    rb"|(?:\A|[^A-Za-z0-9])(?:your|my|the|some|insert|enter|fake|mock|test)[_-]"
    rb"|process\.env|environ|getenv|(?:self|this|config|settings|args|options|request|os)\."
)
_DUMMY_WORD: Final = re.compile(rb"(?i)passw(?:or)?d|passphrase|secret|token|credential|api_?key")
_NO_VALUE: Final = re.compile(
    rb"[+-]?\d+\.\d+(?:[eE][+-]?\d+)?|[+-]?\d+[eE][+-]?\d+|-\d+|0[xX][0-9a-fA-F]{1,16}"  # a number
    rb"|\d{4}-\d\d-\d\d.*|\d\d?-[A-Za-z]{3}-\d{2,4}.*|\d\d?:\d\d.*|\d\d?/\d\d?/\d{2,4}.*"  # a date, a time
    rb"|(?:~|\.{1,2})/.*|[A-Za-z]:[\\/].*|[A-Za-z][A-Za-z0-9+.-]*://.*"  # a path, an address
    rb"|(?:[\w@.-]+/)+[\w-]+\.\w{1,5}|arn:[a-z].*|sha\d{1,3}(?:-|:|//).*"  # a file, a name of Amazon, a digest
)
_EXPRESSION: Final = re.compile(rb"[A-Za-z_$][\w$]*(?:(?:\.|->|::)[A-Za-z_$][\w$]*)+")
_NAMES: Final = re.compile(rb"[$_]*(?:[A-Za-z]+\d{0,5}[A-Za-z]*(?:[_$.:>-]+|\Z))+")
_LONG: Final = 20
"""Bytes from which a possible expression must consist of names with few digits in a row."""

_WORD: Final = re.compile(rb"(?:[a-z]*(?:[A-Z][a-z]+)*|[A-Z]+)\d{0,3}|\d+")
_BREAKS: Final = re.compile(rb"[_.:/+@#~=?&|-]")


def is_dummy(value: bytes) -> bool:
    """Check whether the value stands for an omitted one: `your_token`, `${KEY}`, `***`, `xxxx`, `…EXAMPLE`."""
    core = core_of(value)
    return (len(core) < MASKED_UNDER and is_placeholder(core)) or _DUMMY.search(value) is not None


def entropy(value: bytes) -> float:
    """Return the Shannon entropy of the value's own distribution of bytes, in bits per byte (Shannon 1948)."""
    counts, size = Counter(value).values(), len(value)
    return -sum(count / size * log2(count / size) for count in counts)


def is_password(value: bytes) -> bool:
    """Check whether a value in the place of a password is one: neither a dummy nor a word for a password."""
    return not is_dummy(value) and not re.fullmatch(rb"(?i)pass(?:word|wd|phrase)?|pw|secret|token|none|null", value)


_STATUS: Final = re.compile(
    rb"(?i)\W*(?:required|optional|string|text|str|yes|no|true|false|ok|enabled|disabled|set|unset|empty|missing|invalid"
    rb"|incorrect|wrong|expired|changed|updated|reset|sorry|permission|access|denied|failed|failure|success|error|warning"
    rb"|must|should|cannot|is|not|the|for|and|or|at|in|to|min|max|minimum|maximum|length|field|input|value|type|null|nil"
    rb"|blank|default|same|different|strong|weak|unchanged|protected|encrypted|hashed|plaintext|unknown|provided|supplied"
    rb"|correct|valid|accepted|match(?:es)?|mismatch|verified|confirm(?:ed)?|admin|root|user|guest)\W*"
)


def is_typed(value: bytes) -> bool:
    """Check whether the value after a password prompt was typed, rather than printed by the program."""
    return is_password(value) and _STATUS.fullmatch(value) is None and len(core_of(value)) >= 3


def is_cookie(value: bytes) -> bool:
    """Check whether the value of a cookie could identify a session: no flag, date, path or short number."""
    core = core_of(value)
    if is_certified(core):
        return True
    digits = _count(value, b"0-9") > 0 or (len(core) >= 16 and not is_ordinary(value))
    is_long = digits and len(core) >= (16 if core.isdigit() else 6)
    return is_long and not is_dummy(value) and not _is_no_value(value)


def is_secret(value: bytes, *, sensitivity: Sensitivity = "secret", quoted: bool = False) -> bool:
    """Check whether a value that a name announces is a secret, and no word, number, path, date or expression.

    Args:
        value: Value, of at least 8 bytes unless it is a code.
        sensitivity: Kind that the name announces: a password may be short, of digits or of letters alone; the value of
            a key is no digest and no id.
        quoted: True for a value in quotes or in an environment file; others may be source code and are judged more
            strictly.
    """
    core = core_of(value)
    if is_certified(core):
        return True
    if sensitivity == "code":
        return quoted and _CODE.fullmatch(value) is not None
    if len(value) < 8 or len(core) < 6 or is_dummy(value) or _is_no_value(value):
        return False
    digits, letters = _count(value, b"0-9"), _count(value, b"A-Za-z\x80-\xff")
    special = len(value) - len(core) > 0 and re.search(rb"[^\w.:/=+-]", value) is not None
    if b" " in value:
        words = value.split()
        return sensitivity == "password" and quoted and len(words) <= 6 and not any(map(_is_spoken, words))
    if _DUMMY_WORD.search(value) and not (sensitivity == "password" and quoted and digits and special):
        return False
    random = len(core) >= (8 if quoted else 10) and not is_ordinary(value, strict=not quoted)
    if sensitivity == "password":
        mixed = digits or random or (quoted and special and value.lower() != value != value.upper())
        variable = not quoted and b"_" in value and is_wordy(value)
        return bool(mixed) and len(set(core)) >= 4 and not variable
    if sensitivity == "key" and (
        len(core) < 20 or _ID.fullmatch(value) or not (random or len(_NUMBER.findall(value)) > 2)
    ):
        return False
    long = len(value) >= (12 if quoted else 14)
    number = core == value.decode("latin-1") and digits == len(value) >= 16
    random = random and len(core) >= 20 and value.lower() != value != value.upper()
    looks_random = number or random or (digits > 0 and letters > 0 and not is_wordy(value))
    return long and looks_random and entropy(value) >= 2.8


_CODE: Final = re.compile(rb"\d{4,8}")
_NUMBER: Final = re.compile(rb"\d+")
_ID: Final = re.compile(
    rb"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}|[0-9a-fA-F]+|\d+(?:[._:-]\d+)*|.*\.[a-z]{2,5}"
)
"""UUID, digest, number or file name."""

_FOLLOWS: Final = (
    b"26663453524767261778544342",
    b"74557453753855751665733352",
    b"73547327617643842657532142",
    b"74559443833554742665633241",
    b"64675543413667353877454642",
    b"68446632901643742665612140",
    b"73548456712656651775633232",
    b"82348332713555830656623051",
    b"65766552324668751677351415",
    b"85668433735445863465724122",
    b"74458445724645742675635142",
    b"73458432813743740366631162",
    b"85458331703563770364622140",
    b"73677573624435641378542042",
    b"45664553424668660866655332",
    b"72548445614744762767623050",
    b"33454432532544442557943322",
    b"74558452714455740666543051",
    b"63648436714544662478634152",
    b"73548426823544741766524253",
    b"56656552614768460777221323",
    b"82439441802444640454331231",
    b"83558436813546742764413321",
    b"64757534702563572468343553",
    b"75657543624667682587544244",
    b"84349335814554631454523155",
)
"""For each letter, the frequency of each following letter in words of English and of programs, 0 to 9 on a log
scale.
"""

_LIKELY: Final = 5.9
"""Mean of these frequencies from which letters count as a word.

One in 30 random strings of 10 letters reaches it; one word in 80 does not.
"""

_UNLIKELY: Final = 5.35
_LETTERS: Final = re.compile(rb"[a-z]+")
_CASED: Final = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def is_ordinary(value: bytes, *, strict: bool = False) -> bool:
    """Check whether the letters of a value follow each other as in words, so that it may be a word.

    Args:
        value: Any value; without four letters in a row it counts as ordinary.
        strict: True to reject only values that are surely no words.
    """
    parts = _CASED.findall(value)
    if len(parts) > 2 and len(b"".join(parts)) < 3 * len(parts):
        return False
    runs = [run for run in _LETTERS.findall(value.lower()) if len(run) >= 4]
    follows = [_FOLLOWS[first - 97][second - 97] - 48 for run in runs for first, second in pairwise(run)]
    return not follows or sum(follows) >= (_UNLIKELY if strict else _LIKELY) * len(follows)


def _is_spoken(word: bytes) -> bool:
    return len(word) < 4 or is_ordinary(word)


def _is_no_value(value: bytes) -> bool:
    if _NO_VALUE.fullmatch(value) or (value[:1] == b"/" and is_wordy(value)):
        return True
    return _EXPRESSION.fullmatch(value) is not None and (len(value) < _LONG or _NAMES.fullmatch(value) is not None)


def is_wordy(value: bytes) -> bool:
    """Check whether the value consists of words and numbers, joined by punctuation or as in `camelCase2`."""
    return all(_WORD.fullmatch(part) for part in _BREAKS.split(value))


def _count(value: bytes, among: bytes) -> int:
    return len(re.findall(rb"[" + among + rb"]", value))
