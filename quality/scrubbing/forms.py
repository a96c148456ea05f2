"""Forms in which a secret may be written: in JSON, quoted for a shell, percent-encoded, in base64."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, quote_plus

from trajmill.quality.scrubbing import base64_bodies


def written_forms(raw: bytes, placed: Callable[[bytes], bytes]) -> dict[bytes, bytes]:
    """Map the forms of a secret (plain, in JSON up to twice over, shell-quoted, percent-encoded) → its placeholder.

    Args:
        raw: as it was found, perhaps in JSON.
        placed: gives the placeholder of plain bytes.
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
    """Map the base64 forms of a secret too short to be told as a body, without padding → its placeholder so.

    Alone, and behind and before anything else: then without the characters that are of both. Where what follows begins
    with bits 0, as a line feed does, the first is also how both together begin.
    """
    plain, plain_fresh = _as_it_is(raw), _as_it_is(fresh)
    forms = {base64_bodies.encode(plain): base64_bodies.encode(plain_fresh)}
    for before in range(3):
        forms[_within(plain, before)] = _within(plain_fresh, before)
    tables = (None, base64_bodies.TO_URLSAFE)
    return {form.translate(table): two.translate(table) for form, two in forms.items() for table in tables}


def _within(data: bytes, before: int) -> bytes:
    """The characters of base64 that tell of these bytes alone, where so many stand before them."""
    return base64_bodies.encode(bytes(before) + data)[-(-8 * before // 6) : 8 * (before + len(data)) // 6]


def _as_it_is(raw: bytes) -> bytes:
    try:
        return _unescape(raw.decode()).encode()
    except UnicodeDecodeError:
        return raw


def _unescape(text: str) -> str:
    """Remove the escapes of JSON from the text, of however many levels."""
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
