"""Opaque values within a text, as references: `attachment:image/png;bytes=3141;sha256=0123456789abcdef`.

A tool's JSON, a page or a command may contain base64 of an image, a document or sound, or a value that an API sealed
for itself. No model reads or predicts it, so its type, its size and the beginning of its digest replace it; the whole
digest is that of the observation's attachment. One rule serves all formats. A value is opaque if it is a data URL, or a
whole word of base64 (such as a JSON string) that is long and either begins like a file of a known type or is as evenly
distributed as only packed or sealed bytes are. Shorter words, words within an address and other text are not changed.
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
_HAS_STRIDE: Final = re.compile(
    rf"(?:(?![A-Za-z0-9+/_-]{{{_STRIDE}}}).{{{_STRIDE}}})*+[A-Za-z0-9+/_-]{{{_STRIDE}}}", re.DOTALL
)
_WORD: Final = re.compile(
    rf"(?:data:([\w.+-]{{1,60}}/[\w.+-]{{1,60}})?(?:;[\w=.-]{{1,60}})*;base64,|(?<![^\s\"'`>(\[,]))"
    rf"([A-Za-z0-9+/_-]{{{LEAST},}}+={{0,2}}+)(?![^\s\"'`<)\],\\])",
    re.ASCII,
)
_STANDARD: Final = str.maketrans("-_", "+/")
_LEAST_BITS: Final = 5.0
"""Entropy in bits per character from which base64 counts as packed or sealed bytes.

The entropy of prose, paths and names is lower; the maximum is 6.
"""

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
    """Replace the opaque values of a text by references, and return the attachments."""
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
    """Return an observation with its opaque values replaced by references; unchanged if it has none."""
    if seen is None or seen.content is None:
        return seen
    content, attached = referring(seen.content)
    return replace(seen, content=content, attachments=(*seen.attachments, *attached)) if attached else seen


def may_hold(text: str) -> bool:
    """Check whether a stride of the text is all base64; a word of `LEAST` characters covers a whole stride."""
    return _HAS_STRIDE.match(text) is not None


def _decode(word: str) -> bytes | None:
    plain = word.rstrip("=").translate(_STANDARD)
    try:
        return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (Error, ValueError):
        return None


def _kind(data: bytes) -> str | None:
    """Return the media type by the first bytes; None if it is unknown."""
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12])
    return next((kind for beginning, kind in _BEGINNINGS if data.startswith(beginning)), None)


def _bits(word: str) -> float:
    """Return the entropy of the characters in bits, estimated from the first ones."""
    counts = Counter(word[:4096])
    total = sum(counts.values())
    return -sum(count / total * math.log2(count / total) for count in counts.values())
