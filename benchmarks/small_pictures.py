"""Pictures of pages as small PNG files: of few colours, which is all that text, lines and areas need."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_COLOURS: Final = 256


def shrink_picture(file: Path) -> None:
    """Writes a PNG of a browser (8 bits a channel, not interlaced) anew with a palette of its most frequent colours."""
    pixels = _decode(file.read_bytes())
    packed = pixels[..., 0].astype(np.uint32) << 16 | pixels[..., 1].astype(np.uint32) << 8 | pixels[..., 2]
    colours, places, counts = np.unique(packed, return_inverse=True, return_counts=True)
    channels = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.int64)
    frequent = np.argsort(counts, kind="stable")[::-1][:_COLOURS]
    distance = ((channels[:, None, :] - channels[None, frequent, :]) ** 2).sum(axis=2)
    indices = distance.argmin(axis=1).astype(np.uint8)[places].reshape(packed.shape)
    rows = b"".join(b"\0" + row.tobytes() for row in indices)
    height, width = packed.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    palette = channels[frequent].astype(np.uint8).tobytes()
    parts = (b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")
    file.write_bytes(_SIGNATURE + b"".join(_chunk(*part) for part in parts))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    offset = len(_SIGNATURE)
    while offset < len(data):
        (size,) = struct.unpack_from(">I", data, offset)
        yield data[offset + 4 : offset + 8], data[offset + 8 : offset + 8 + size]
        offset += 12 + size


def _decode(data: bytes) -> npt.NDArray[Any]:
    """The pixels, by row, column and channel."""
    parts = list(_chunks(data))
    width, height, depth, colour = struct.unpack(">IIBB", parts[0][1][:10])
    channels = {2: 3, 6: 4}[colour]
    assert depth == 8
    raw = zlib.decompress(b"".join(part for kind, part in parts if kind == b"IDAT"))
    lines = np.frombuffer(raw, np.uint8).reshape(height, 1 + width * channels)
    above = np.zeros((width, channels), np.uint8)
    pixels = np.zeros((height, width, channels), np.uint8)
    for number, line in enumerate(lines):
        above = _unfilter(int(line[0]), line[1:].reshape(width, channels), above)
        pixels[number] = above
    return pixels


def _unfilter(kind: int, line: npt.NDArray[Any], above: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A line without the filter of PNG (specification, 9.2)."""
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line, axis=0, dtype=np.uint8)
    if kind == 2:
        return line + above
    pixels = line.astype(np.int64).tolist()
    up = above.astype(np.int64).tolist()
    left = corner = [0] * line.shape[1]
    for index, pixel in enumerate(pixels):
        for channel, value in enumerate(pixel):
            a, b, c = left[channel], up[index][channel], corner[channel]
            guess = (a + b) // 2 if kind == 3 else min((a, b, c), key=lambda neighbor: abs(a + b - c - neighbor))
            pixel[channel] = (value + guess) & 255
        left, corner = pixel, up[index]
    return np.array(pixels, np.uint8)
