"""Screenshots of samples: attached pictures, resized, and placeholders in the messages that show them.

verl, LLaMA-Factory and ms-swift insert the next picture at a placeholder. Pictures are encoded anew as PNG, so that
nothing but their pixels is kept; equal pictures have equal bytes under one version of the library.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, Final

import pyarrow as pa

from trajmill.pipelines.mix.sample_columns import IMAGE
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.units import check_file

PLACEHOLDER: Final = "<image>"
_MESSAGES: Final[Mapping[str, str]] = {"sft": "messages", "rl": "prompt"}
_FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP")


def screenshots_of(observation: Mapping[str, Any] | None) -> list[str]:
    """Return the digests of the screenshots attached to an observation, in order."""
    attached = (observation or {}).get("attachments") or ()
    return [attachment["sha256"] for attachment in attached if attachment["role"] == "screenshot"]


def with_images(samples: pa.Table, pool: str, blobs: Sequence[Folder], longest: int) -> tuple[pa.Table, int]:
    """Add pictures and placeholders to samples; also return the number of screenshots that could not be shown.

    Args:
        samples: table of `unwritten_schema`.
        longest: largest length of a picture's longer side, in pixels.
    """
    known: dict[str, bytes | None] = {}
    lost = 0
    images: list[list[dict[str, Any]]] = []
    messages = samples[_MESSAGES[pool]].to_pylist()
    for sample_messages, screenshots in zip(messages, samples["_screenshots"].to_pylist(), strict=True):
        images.append([])
        for screenshot in reversed(
            screenshots
        ):  # a placeholder before the last is set before those of the same message
            sha256 = screenshot["sha256"]
            if sha256 not in known:
                known[sha256] = _png(sha256, blobs, longest)
            png = known[sha256]
            if png is None:
                lost += 1
            else:
                message = sample_messages[screenshot["message"]]
                message["content"] = f"{PLACEHOLDER}\n{message['content']}"
                images[-1].insert(0, {"bytes": png, "path": None})
    column_index = samples.schema.get_field_index(_MESSAGES[pool])
    field = samples.schema.field(column_index)
    samples = samples.set_column(column_index, field, pa.array(messages, field.type))
    return samples.append_column("images", pa.array(images, pa.list_(IMAGE))), lost


def _png(sha256: str, blobs: Sequence[Folder], longest: int) -> bytes | None:
    """Return an attachment as a PNG of at most that size; None if it was not kept or is no picture."""
    folder = next((blob_folder for blob_folder in blobs if blob_folder.size(sha256) >= 0), None)
    if folder is None:
        return None
    check_file(folder, sha256, sha256)
    return resize_picture(folder.read(sha256), longest)


def resize_picture(data: bytes, longest: int) -> bytes | None:
    """Return the picture as a PNG whose longer side has at most `longest` pixels; None if it cannot be read."""
    from PIL import Image  # few runs show pictures

    # of bytes that are no picture, or one that decompresses to too many pixels
    damaged = (OSError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError, Warning)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(BytesIO(data), formats=_FORMATS) as picture:
                pixels = picture.convert("RGB")
        except damaged:
            return None
    pixels.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    written = BytesIO()
    pixels.save(written, "PNG")
    return written.getvalue()
