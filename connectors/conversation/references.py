"""Opaque values within a text, as references: `attachment:image/png;bytes=3141;sha256=0123456789abcdef`.

A tool's JSON, a page or a command may hold base64 of a picture, a document or sound, or what an API sealed for itself.
No model reads or predicts it, so what stands for it is its type, its length and the beginning of its digest; the
whole digest is that of the observation's attachment. One rule for all formats: a value is opaque if it is a data URL,
or a whole word of base64 (as a JSON string is) that is long and either begins as a file of a known kind or is as evenly
spread as only packed or sealed bytes are. What is shorter, within an address or no base64 stays as it is.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode
from binascii import Error
from collections import Counter
from dataclasses import replace
from typing import Final

from trajmill.connectors.conversation.opaque import reference, role_of
from trajmill.connectors.reading.attached import attachment_of_bytes
from trajmill.schemas import Attachment, Observation

LEAST: Final = 256
"""Characters from which a word of base64 is opaque."""

_STRIDE: Final = LEAST // 2
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]+")
_WORD: Final = re.compile(
    rf"(?:data:([\w.+-]{{1,60}}/[\w.+-]{{1,60}})?(?:;[\w=.-]{{1,60}})*;base64,|(?<![^\s\"'`>(\[,]))"
    rf"([A-Za-z0-9+/_-]{{{LEAST},}}+={{0,2}}+)(?![^\s\"'`<)\],\\])",
    re.ASCII,
)
_STANDARD: Final = str.maketrans("-_", "+/")
_LEAST_BITS: Final = 5.0
"""Bits a character of base64 of packed or sealed bytes; of prose, paths and names they are less, at most 6."""

_BEGINNINGS: Final = (
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


def referring(text: str) -> tuple[str, tuple[Attachment, ...]]:
    """A text whose opaque values are references, and the attachments that they refer to."""
    if not may_hold(text):
        return text, ()
    attachments: list[Attachment] = []

    def replace_word(word: re.Match[str]) -> str:
        data = _decode(word[2])
        media_type = word[1] or (_kind(data) if data is not None else None)
        if data is None or (media_type is None and word[0] == word[2] and _bits(word[2]) < _LEAST_BITS):
            return word[0]
        role = role_of(media_type) if media_type is not None else "sealed"
        attachments.append(attachment_of_bytes(data, role, media_type))
        return reference(attachments[-1], len(data))

    return _WORD.sub(replace_word, text), tuple(attachments)


def with_references(seen: Observation | None) -> Observation | None:
    """An observation whose content refers to its opaque values; itself where it holds none."""
    if seen is None or seen.content is None:
        return seen
    content, attached = referring(seen.content)
    return replace(seen, content=content, attachments=(*seen.attachments, *attached)) if attached else seen


def may_hold(text: str) -> bool:
    """Check if any stretch of the text is all base64: one of `LEAST` characters holds a whole stride."""
    return any(_BASE64.fullmatch(text, at, at + _STRIDE) for at in range(0, len(text) - _STRIDE + 1, _STRIDE))


def _decode(word: str) -> bytes | None:
    plain = word.rstrip("=").translate(_STANDARD)
    try:
        return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (Error, ValueError):
        return None


def _kind(data: bytes) -> str | None:
    """The media type that the bytes begin as."""
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12])
    return next((kind for beginning, kind in _BEGINNINGS if data.startswith(beginning)), None)


def _bits(word: str) -> float:
    """Entropy of the characters, in bits; the first ones tell it."""
    counts = Counter(word[:4096])
    total = sum(counts.values())
    return -sum(count / total * math.log2(count / total) for count in counts.values())
