"""Compressed files, recognized by their first bytes and read up to any damage, which is always reported.

Several frames in one file are one content, and zeros between and after them are padding. Other bytes after a frame are
a fault, which is raised after the preceding content was returned.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, Protocol, cast

import zstandard

COMPRESSIONS: Final = (".gz", ".zst", ".bz2", ".xz")
"""Endings of compressed files. Recognition uses the first bytes, not the name."""

MAGIC_BYTES: Final = 6
"""Number of first bytes of a file that show whether it is compressed."""

DECODING_ERRORS: Final = (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError, ValueError)
"""Exceptions of reading damaged bytes.

An `OSError` counts only without an error number, since one with a number is the system's.
"""

_MAGIC: Final = re.compile(
    rb"(?P<gz>\x1f\x8b)|(?P<zst>\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18)|(?P<bz2>BZh)|(?P<xz>\xfd7zXZ\x00)", re.DOTALL
)
_PIECE: Final = 2048
"""Compressed bytes given to a decompressor at once. In zstd they become at most 64 MiB."""

_SLICE: Final = 1 << 16
"""Decompressed bytes taken from a decompressor at once. Damage costs at most this many good bytes before it."""

_WINDOW: Final = 1 << 31
_XZ_MEMORY: Final = 1 << 29
"""Largest memory of a decompressor. The writer of a file chooses it, independent of the file's size."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Zstd:
    """A frame of zstd with the interface of the standard library's decompressors. It returns all output at once."""

    needs_input = True

    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._frame.decompress(data)


class _Gzip:
    """A member of gzip with the interface of the standard library's decompressors."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def needs_input(self) -> bool:
        return not self._member.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._member.decompress(self._member.unconsumed_tail + data, max_length)


_KINDS: Final[dict[str, Callable[[], _Decompressor]]] = {
    "bz2": bz2.BZ2Decompressor,
    "gz": _Gzip,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
    "zst": _Zstd,
}


class _Frames(io.RawIOBase):
    """Content of a compressed stream, frame after frame.

    Args:
        raw: the compressed bytes, at the beginning of a frame; closed with this object.
        kind: a key of `_KINDS`.

    Attributes:
        begin: offset of the current frame in the compressed bytes.
    """

    def __init__(self, raw: BinaryIO, kind: str) -> None:
        self._raw, self._new = raw, _KINDS[kind]
        self._frame = self._new()
        self.begin = 0
        self._packed = b""
        self._made = io.BytesIO()

    def readable(self) -> bool:
        return True

    def read1(self, size: int) -> bytes:
        """Return at most the next `size` bytes; none at the end.

        Raises:
            EOFError: the last frame is cut off.
            Exception: one of `DECODING_ERRORS`: it is damaged.
        """
        while not (data := self._made.read(size)):
            if self._frame.eof and not self._begun():
                return b""
            if not self._packed and self._frame.needs_input:
                self._packed = self._raw.read(_PIECE)
                if not self._packed:
                    raise EOFError("it ends within a frame")
            packed, self._packed = self._packed, b""
            self._made = io.BytesIO(self._frame.decompress(packed, _SLICE))
        return data

    def _begun(self) -> bool:
        """Start the next frame; return True if there is one."""
        packed = self._frame.unused_data.lstrip(b"\0")
        while not packed:
            packed = self._raw.read(_PIECE)
            if not packed:
                return False
            packed = packed.lstrip(b"\0")
        self._frame, self._packed = self._new(), packed
        self.begin = self._raw.tell() - len(packed)
        return True

    def close(self) -> None:
        self._raw.close()
        super().close()


def is_compressed(head: bytes) -> bool:
    """Return True if a file that begins with these bytes is compressed."""
    return _MAGIC.match(head) is not None


def decompress(raw: BinaryIO, start: int = 0) -> BinaryIO:
    """Decompress a stream from a frame that begins at `start`; return the stream itself if it is not compressed."""
    raw.seek(start)
    head = raw.read(MAGIC_BYTES)
    raw.seek(start)
    match = _MAGIC.match(head)
    if match is None:
        return raw
    if match.lastgroup == "gz":
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    return cast("BinaryIO", _Frames(raw, str(match.lastgroup)))


def by_frames(raw: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield pieces of the content of a compressed stream, each with the offset of its frame.

    Raises:
        EOFError: the last frame is cut off.
        Exception: one of `DECODING_ERRORS`: it is damaged.
    """
    kind = _MAGIC.match(raw.read(MAGIC_BYTES))
    raw.seek(0)
    assert kind is not None
    with _Frames(raw, str(kind.lastgroup)) as frames:
        while data := frames.read1(_SLICE):
            yield frames.begin, data
