"""Attachments that are served: images, by their first bytes, whatever a log calls them. SVG is none of them."""

from __future__ import annotations

from typing import Final

_MAGIC: Final = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def image_type(data: bytes) -> str | None:
    """The media type of an image; None for anything else, which is not served at all."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)
