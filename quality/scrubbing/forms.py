"""Written forms of a secret: in JSON, quoted for a shell, percent-encoded, in base64."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, quote_plus

from trajmill.quality.scrubbing import base64_bodies


def written_forms(raw: bytes, placed: Callable[[bytes], bytes]) -> dict[bytes, bytes]:
    """Map the forms of a secret (plain, in JSON up to twice, shell-quoted, percent-encoded) → its placeholder.

    Args:
        raw: Secret as it was found, possibly in JSON.
        placed: Returns the placeholder of plain bytes.
    """
    forms = {raw: placed(raw)}
    if _ALWAYS_PLAIN.fullmatch(raw):
        return forms
    try:
        plain = _unescape(raw.decode())
    except UnicodeDecodeError:
        return forms
    fresh = placed(plain.encode()).decode()
    for written in _WRITINGS:
        forms[written(plain).encode()] = written(fresh).encode()
    return forms


def base64_forms(raw: bytes, fresh: bytes) -> dict[bytes, bytes]:
    """Map the base64 forms, without padding, of a secret too short to be recognized as a body → its placeholder.

    The forms cover the secret alone, and the secret within other data, without the characters that also encode
    neighboring bytes. If the following data begins with zero bits, as a line feed does, the encoding of both together
    also begins with the form of the secret alone.
    """
    plain, plain_fresh = _as_it_is(raw), _as_it_is(fresh)
    forms = {base64_bodies.encode(plain): base64_bodies.encode(plain_fresh)}
    for before in range(3):
        forms[_within(plain, before)] = _within(plain_fresh, before)
    tables = (None, base64_bodies.TO_URLSAFE)
    return {form.translate(table): two.translate(table) for form, two in forms.items() for table in tables}


def _within(data: bytes, before: int) -> bytes:
    """Return the base64 characters that encode only these bytes if `before` bytes precede them."""
    return base64_bodies.encode(bytes(before) + data)[-(-8 * before // 6) : 8 * (before + len(data)) // 6]


def _as_it_is(raw: bytes) -> bytes:
    try:
        return _unescape(raw.decode()).encode()
    except UnicodeDecodeError:
        return raw


def _unescape(text: str) -> str:
    """Remove the JSON escapes of the text, up to `_LEVELS` levels."""
    for _ in range(_LEVELS):
        text, before = _JSON_ESCAPE.sub(_unescape_char, text), text
        if text == before:
            break
    return text


def _unescape_char(match: re.Match[str]) -> str:
    code = match[1]
    return str(json.loads(f'"{match[0]}"')) if code is not None else match[0][1:]


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _ascii_json(text: str) -> str:
    return json.dumps(text)[1:-1]


_ALWAYS_PLAIN: Final = re.compile(rb"[A-Za-z0-9_.~-]*")
_LEVELS: Final = 3
_JSON_ESCAPE: Final = re.compile(r"\\(?:[\"'/\\]|(u(?!d[89a-f])[0-9a-f]{4}))", re.IGNORECASE)
_WRITINGS: Final[tuple[Callable[[str], str], ...]] = (
    str,
    _json,
    lambda text: _json(_json(text)),
    _ascii_json,
    lambda text: _json(_ascii_json(text)),
    lambda text: text.replace("'", "'\\''"),
    lambda text: text.replace("'", "'\"'\"'"),
    lambda text: quote(text, safe=""),
    quote_plus,
)
