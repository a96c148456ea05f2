r"""JSON values of bytes, by one policy for every format.

What writers beside the standard leave is read: `NaN` and infinities, which Python writes, are null; integers keep all
their digits; lone surrogates (`\ud800`) stay; a byte order mark before and NUL bytes behind a value, which a writer
leaves that was killed, are passed over; bytes that are no UTF-8 are those of Windows-1252 (`readable`). What is nested
more than `DEPTH` deep is no value, nor is what would take much more memory than its bytes; see `check_size`.
"""

from __future__ import annotations

import codecs
import json
import re
from io import BytesIO
from typing import Any, Final, Literal

import numpy as np
import orjson
import re2

from trajmill.connectors.reading.structure import Structure

DEPTH: Final = 600
"""Largest nesting of arrays and objects in a value; recursive readers can handle it on any stack."""

BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"
Reason = Literal["empty", "not_utf8", "truncated", "nested_too_deeply", "too_many_values", "text_too_long", "bad_json"]
"""Reason why bytes are no JSON value, such as `empty`, `not_utf8` (UTF-16) or `truncated`."""

VALUES: Final = 4 << 20
"""Largest number of values in a text of more than `SMALL_BYTES`; an empty array of two bytes takes 72 in memory."""

WIDE_BYTES: Final = 64 << 20
"""Largest size, in bytes, of long texts with a character beyond U+FFFF, whose characters take four bytes each in
memory.
"""

SMALL_BYTES: Final = 8 << 20
"""Size in bytes up to which a text is parsed without an estimate of its memory."""

TOO_DEEP: Final = f"arrays and objects are nested more than {DEPTH} deep"
_ENDED: Final = "unexpected end of data"
_DEPTH_LIMIT: Final = "depth limit exceeded"
_NESTED: Final = frozenset({dict, list})

_LONG_INTEGER: Final = re2.compile(r"(?:\A|[\s:,\[])(?:[0-9]{20}|-[0-9]{19})")
"""Possible integer beyond 64 bits, which the fast reader returns as a float."""

_CLASSES: Final = bytes.maketrans(b"123456789{", b"0" * 9 + b"[")
"""Translation of digits to 0 and of both openings to `[`, which is faster to search than the bytes themselves."""

_LONG_RUN: Final = b"0" * 19
"""Digits of such an integer, translated."""

_TOKEN: Final = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?|-?(?:Infinity|NaN|(?:I|In|Inf|Infi|Infin|Infini|Infinit|N|Na)\Z)'
    rb"|-?[0-9]+(?:\.[0-9]*)?[eE]\+?[0-9]+|-?[0-9]{300,}",
    re.DOTALL,
)
_ODD: Final = re2.compile(
    r"\\u[dD][89a-fA-F]|Infinity|NaN|(?:I|In|Inf|Infi|Infin|Infini|Infinit|N|Na)\z|[0-9.][eE]\+?[0-9]|[0-9]{300}"
)
"""Pattern in every text with a token that is not JSON as written.

Most truncated texts have none, and checking each of their tokens takes forty times as long.
"""

_SURROGATE: Final = re.compile(rb"\\(u[dD][89a-fA-F][0-9a-fA-F]{2}|.)", re.DOTALL)


_BEYOND_BMP: Final = 0xF0
"""Least byte that begins a character beyond U+FFFF in UTF-8."""

_FITS: Final = 19
"""Length of an integer that always fits in 64 bits."""


class JsonError(ValueError):
    """Error of bytes that are no JSON value.

    Attributes:
        reason: Reason.
        offset: Byte of the error.
    """

    def __init__(self, reason: Reason, offset: int, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.offset = offset


def json_value(data: bytes | str) -> Any:
    """Return the JSON value of `data`.

    Raises:
        JsonError: `data` is no JSON value.
    """
    if len(data) > SMALL_BYTES:
        check_size(data)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return _unusual(data, error)
    if len(data) <= _FITS:
        return value
    encoded = data.encode() if isinstance(data, str) else data
    classes = encoded.translate(_CLASSES)
    if len(data) > 2 * DEPTH and classes.count(b"[") > DEPTH:
        _check_depth(value)
    if _LONG_RUN in classes and _LONG_INTEGER.search(encoded):
        del value  # which would stand beside the other
        return _exact(data)
    return value


def check_size(data: bytes | str) -> None:
    """Refuse JSON that would take much more memory than its bytes, before it is parsed.

    Raises:
        JsonError: It has too many values, or too long texts of wide characters.
    """
    if len(data) <= SMALL_BYTES:
        return
    encoded = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    is_wide = len(encoded) > WIDE_BYTES and _is_wide(encoded)
    if not is_wide and encoded.count(b",") + encoded.count(b"[") + encoded.count(b"{") <= VALUES:
        return
    count, texts = Structure(BytesIO(encoded), 0).longest()
    if count > VALUES:
        raise JsonError("too_many_values", 0, f"it has {count} values, of which {VALUES} are read at most")
    wide = sum(end - begin for begin, end in texts if _is_wide(encoded[begin:end]))
    if wide > WIDE_BYTES:
        detail = f"its long texts of wide characters have {wide} bytes, of which {WIDE_BYTES} are read at most"
        raise JsonError("text_too_long", 0, detail)


def _is_wide(data: bytes) -> bool:
    """Check whether JSON contains a character beyond U+FFFF, plain or escaped."""
    is_there = bool(data) and int(np.frombuffer(data, np.uint8).max()) >= _BEYOND_BMP
    return is_there or b"\\ud" in data or b"\\uD" in data


def value_or_none(data: bytes | str) -> Any:
    """Return the JSON value of `data`; None if it is invalid, as for `null`."""
    try:
        return json_value(data)
    except JsonError:
        return None


def object_or_none(data: bytes | str) -> dict[str, Any] | None:
    """Return the JSON object in `data`; None if it is no object."""
    begin = data.lstrip("\ufeff \t\r\n") if isinstance(data, str) else data.removeprefix(BOM).lstrip(_BLANK)
    if begin[:1] not in ("{", b"{"):
        return None
    value = value_or_none(data)
    return value if isinstance(value, dict) else None


def _unusual(data: bytes | str, fault: orjson.JSONDecodeError) -> Any:
    """Return the value of data that the fast reader rejects with a fault."""
    if isinstance(data, bytes) and not _is_text(data):
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise JsonError("not_utf8", 0, "it is UTF-16")
        json_value(data.decode("utf-8", _MARKED).encode())  # as long, so that a fault has its place
        return json_value(readable(data))
    encoded = data.encode("utf-8", "replace") if isinstance(data, str) else data
    begin = len(BOM) if encoded.startswith(BOM) else 0
    text = encoded[begin:].rstrip(b"\0")
    if not text.strip(_BLANK):
        raise JsonError("truncated" if begin + len(text) < len(encoded) else "empty", begin, "there is nothing")
    plain = text if fault.msg.startswith(_ENDED) or not _ODD.search(text) else _TOKEN.sub(_plain, text)
    if plain is data:
        raise _error(fault, plain, begin)
    try:
        _check_depth(orjson.loads(plain))
    except orjson.JSONDecodeError as error:
        raise _error(error, plain, begin) from None
    return _exact(data.removeprefix("\ufeff").rstrip("\0") if isinstance(data, str) else text)


def _plain(token: re.Match[bytes]) -> bytes:
    """Return JSON of the same length for a token that may be invalid; an unclosed string for a truncated word."""
    word = token[0]
    if word[:1] == b'"':
        return _SURROGATE.sub(_harmless, word)
    if word[-1:].isdigit():
        return word if abs(float(word)) != _INFINITE else b"0".ljust(len(word))
    return b"0".ljust(len(word)) if word.endswith((b"NaN", b"Infinity")) else b'"'.ljust(len(word))


_INFINITE: Final = float("inf")


def _harmless(escape: re.Match[bytes]) -> bytes:
    return b"\\u0000" if len(escape[1]) > 1 else escape[0]


def _exact(data: bytes | str) -> Any:
    """Return the value of data that is JSON of bounded depth, except possibly for its numbers and surrogates."""
    text = data if isinstance(data, str) else data.decode()
    try:
        return json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except ValueError as error:  # an integer of more digits than Python takes
        raise JsonError("bad_json", 0, str(error)) from None


def _finite(digits: str) -> float | None:
    value = float(digits)
    return value if abs(value) != _INFINITE else None


def _check_depth(value: Any) -> None:
    if nesting(value) > DEPTH:
        raise JsonError("nested_too_deeply", 0, TOO_DEEP)


def nesting(value: Any) -> int:
    """Count the levels of arrays and objects in a JSON value: 0 for a number, 1 for `[]` and `[1]`, 2 for `[[]]`."""
    level = [value] if type(value) in _NESTED else []
    levels = 0
    while level:
        levels += 1
        level = [
            child
            for holder in level
            for child in (holder.values() if type(holder) is dict else holder)
            if type(child) in _NESTED
        ]
    return levels


def _error(error: orjson.JSONDecodeError, data: bytes, begin: int) -> JsonError:
    """Return the error of bytes that begin at `begin` and are no JSON."""
    text = data.decode()
    if error.msg.startswith(_DEPTH_LIMIT):
        return JsonError("nested_too_deeply", begin, TOO_DEEP)
    position = begin + len(text[: error.pos].encode())
    return JsonError("truncated" if error.msg.startswith(_ENDED) else "bad_json", position, error.msg)


def readable(data: bytes) -> str:
    """Decode bytes as UTF-8, with invalid bytes read as Windows-1252.

    The rest of a truncated character becomes U+FFFD.
    """
    return data.decode("utf-8", _STRAY)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _stray(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    stray = error.object[error.start : error.end]
    return (stray.decode("cp1252", "replace") if len(stray) == 1 else "\ufffd"), error.end


def _replace_by_marks(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "?" * (error.end - error.start), error.end


_STRAY: Final = "trajmill.stray"
_MARKED: Final = "trajmill.marked"
codecs.register_error(_STRAY, _stray)
codecs.register_error(_MARKED, _replace_by_marks)

_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite)


def first_value(text: str, at: int = 0) -> tuple[Any, int]:
    """Return the JSON value that begins at `at` of a text, and its end; any text may follow.

    Raises:
        JsonError: No value begins there; its offset counts characters of the text.
    """
    if not at:
        check_size(text)
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        ended = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        raise JsonError("truncated" if ended else "bad_json", error.pos, error.msg) from None
    except ValueError as error:  # an integer of more digits than Python takes
        raise JsonError("bad_json", at, str(error)) from None
    except RecursionError:
        raise JsonError("nested_too_deeply", at, TOO_DEEP) from None
    if end - at > 2 * DEPTH:
        _check_depth(value)
    return value, end
