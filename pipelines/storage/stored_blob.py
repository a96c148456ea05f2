"""Raw logs as blobs: decompressed members of a log at any place, with limits, and with their faults as parse errors.

The content of files does not matter here.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, BinaryIO, Final, Self, cast

from trajmill.connectors.connector import DEFAULT_CHOICES, Choices, FileSlice
from trajmill.connectors.reading.arrays import ElementLines
from trajmill.pipelines.storage.archives import MAX_RATIO, RATIO_FROM, TAR_HEAD, Archive, kind_of
from trajmill.pipelines.storage.compression import DECODING_ERRORS, MAGIC_BYTES, decompress, is_compressed
from trajmill.pipelines.storage.paths import Place, opened, text_of
from trajmill.schemas import ParseError, ShardError

IN_MEMORY: Final = 64 << 20
"""Largest number of decompressed bytes of a member that is kept in memory while its log is read."""

WHOLE_BYTES: Final = 256 << 20
"""Decompressed bytes of a member above which it is not read whole. Formats of larger logs are streamed."""

_CHUNK: Final = 1 << 20


class _Guarded(io.RawIOBase):
    """A stream with limited length whose decompression faults are parse errors at their decompressed offset.

    Args:
        limit: decompressed bytes above which reading is a parse error.
        raw: the compressed bytes of `inner`, whose position gives the ratio; None if nothing is compressed.
    """

    def __init__(self, inner: BinaryIO, uri: str, member: str, limit: int, raw: BinaryIO | None = None) -> None:
        self._inner, self._uri, self._member, self._limit, self._raw = inner, uri, member, limit, raw
        self._pull = getattr(inner, "read1", inner.read)
        self._waiting: ParseError | None = None
        self._offset = 0

    def readable(self) -> bool:
        return True

    def _fault(self, reason: str, detail: str) -> ParseError:
        return ParseError(self._uri, self._offset, reason, detail, self._member)

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes. Bytes that were decompressed before a fault are returned before it is raised."""
        chunks: list[bytes] = []
        wanted = size if size >= 0 else self._limit + 1
        while wanted and (data := self._next(min(wanted, _CHUNK), has_bytes=bool(chunks))):
            chunks.append(data)
            wanted -= len(data)
            self._offset += len(data)
            if self._offset > self._limit:
                raise self._fault("too_large", f"it has more than {self._limit} bytes")
            if self._raw is not None and self._offset > RATIO_FROM:
                packed = self._raw.tell()
                if self._offset > MAX_RATIO * max(1, packed):
                    raise self._fault("bomb", f"{packed} bytes became {self._offset}: more than {MAX_RATIO} to one")
        return b"".join(chunks)

    def _next(self, size: int, *, has_bytes: bool) -> bytes:
        """Return the next bytes. A fault waits for the next call while bytes before it are held."""
        if self._waiting is None:
            try:
                return self._pull(size)
            except ParseError as error:
                self._waiting = self._fault(error.reason, error.detail)
            except EOFError as error:
                self._waiting = self._fault("truncated", f"the compressed file ends early: {error}")
            except DECODING_ERRORS as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                self._waiting = self._fault("bad_compression", f"it cannot be decompressed: {error}")
        if has_bytes:
            return b""
        raise self._waiting

    def close(self) -> None:
        self._inner.close()
        if self._raw is not None:
            self._raw.close()
        super().close()


def _open_guarded(location: Place, uri: str, member: str, limit: int, frame: int = 0) -> _Guarded:
    """Open a stored file like `open_raw`, without a buffer; a compressed one from the frame at that offset."""
    try:
        inner = (
            opened_archive(location.archive, limit).open(location.within[-1]) if location.within else _file(location)
        )
        content = decompress(inner, frame)
    except ParseError as error:
        raise ParseError(uri, 0, error.reason, error.detail, member) from error
    return _Guarded(content, uri, member, limit, inner if content is not inner else None)


def _file(location: Place) -> BinaryIO:
    try:
        return opened(location.path)
    except OSError as error:
        raise ShardError(f"{text_of(location.path)} cannot be opened: {error.strerror or error}") from error


def open_raw(location: Place, uri: str, member: str, limit: int) -> io.BufferedReader:
    """Open a raw file as a decompressed stream.

    Args:
        limit: decompressed bytes above which reading is a parse error.

    Raises:
        ParseError: the archive cannot be read; faults of the stream itself are raised while it is read.
    """
    return io.BufferedReader(_open_guarded(location, uri, member, limit), _CHUNK)


def open_uncompressed(location: Place) -> BinaryIO | None:
    """Open the file at a place from its beginning; return None if it is compressed or a member of an archive."""
    if location.within:
        return None
    stream = _file(location)
    head = stream.read(MAGIC_BYTES)
    stream.seek(0)
    if not is_compressed(head):
        return stream
    stream.close()
    return None


@lru_cache(maxsize=4)
def opened_archive(location: Place, limit: int) -> Archive:
    """Open the archive at a place, and keep it open while its members are read one after the other.

    Raises:
        ParseError: it is no archive, damaged, or beyond a limit.
    """
    uri = text_of(location.name)
    with open_raw(location, uri, "", limit) as stream:
        kind = kind_of(stream.peek(TAR_HEAD)[:TAR_HEAD])
        if kind is None:
            raise ParseError(uri, 0, "bad_archive", "it is neither a zip nor a tar file")
        return Archive(uri, kind, stream, limit)


class _FromFrame(io.RawIOBase):
    """A compressed file that can be read from its beginning, and from the frame of a slice."""

    def __init__(self, location: Place, uri: str, wanted: FileSlice) -> None:
        super().__init__()
        self._place, self._uri, self._wanted = location, uri, wanted
        self._inner = _open_guarded(location, uri, "", sys.maxsize)
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to the beginning of the file, or to that of the frame."""
        if whence or offset not in (0, self._wanted.begin - 1):
            raise io.UnsupportedOperation("only to its beginning and to that of a frame")
        self._inner.close()
        self._inner = _open_guarded(self._place, self._uri, "", sys.maxsize, (self._wanted.frame or 0) if offset else 0)
        self._offset = offset
        return offset

    def readinto(self, buffer: Any) -> int:
        size = self._inner.readinto(buffer)
        self._offset += size
        return size

    def close(self) -> None:
        self._inner.close()
        super().close()


class StoredBlob:
    """A log's bytes on a file system: a `connectors.connector.Blob`, whose small members are read once and kept.

    Args:
        limit: decompressed bytes of a member above which reading it is a parse error.
        file_slice: slice of the rows of its file to read; the limit does not apply then.
        sha256: sha256 of the whole member, if it has just one and the digest is known.
    """

    def __init__(
        self,
        uri: str,
        places: Mapping[str, Place],
        limit: int,
        choices: Choices = DEFAULT_CHOICES,
        file_slice: FileSlice | None = None,
        sha256: str = "",
    ) -> None:
        self.uri = uri
        self.choices = choices
        self.file_slice = file_slice
        self.members = tuple(sorted(places))
        self._places = places
        self._limit = limit
        self._held: dict[str, bytes] = {}
        self._digests = {"": sha256} if sha256 else {}

    def _stream(self, member: str) -> io.BufferedReader:
        return open_raw(self._places[member], self.uri, member, self._limit)

    def open(self, member: str = "") -> BinaryIO:
        """Open a new stream over the decompressed member."""
        if (wanted := self.file_slice) is not None:
            if wanted.frame is not None:
                return io.BufferedReader(_FromFrame(self._places[member], self.uri, wanted), _CHUNK)
            if wanted.is_array:
                elements = ElementLines(self.seekable(member), self.uri, wanted.begin)
                return io.BufferedReader(elements, _CHUNK)
            return self.seekable(member)
        if member in self._held:
            return io.BytesIO(self._held[member])
        data = self._small(member)
        if data is None:
            return self._stream(member)
        self._held[member] = data
        return io.BytesIO(data)

    def seekable(self, member: str = "") -> BinaryIO:
        """Open a new stream with random access over the decompressed member.

        A file that is neither compressed nor in an archive is read in place. Any other is unpacked into memory, or into
        a temporary file if it is large.

        Raises:
            ParseError: it is larger than allowed, or cannot be decompressed.
        """
        if member in self._held:
            return io.BytesIO(self._held[member])
        stored = open_uncompressed(self._places[member])
        if stored is not None:
            if self.file_slice is None and stored.seek(0, io.SEEK_END) > self._limit:
                stored.close()
                raise ParseError(self.uri, -1, "too_large", f"it has more than {self._limit} bytes", member)
            stored.seek(0)
            return stored
        spool = cast("BinaryIO", tempfile.SpooledTemporaryFile(IN_MEMORY))  # noqa: SIM115 - closed by the reader
        with self._stream(member) as stream:
            while data := stream.read(_CHUNK):
                spool.write(data)
        spool.seek(0)
        return spool

    def _small(self, member: str) -> bytes | None:
        """Return the member if it is small enough to keep; None if not, or if it is damaged.

        The fault of a damaged member is then raised after its readable bytes.
        """
        with _open_guarded(self._places[member], self.uri, member, self._limit) as stream:
            try:
                data = stream.read(IN_MEMORY + 1)
                if len(data) <= IN_MEMORY and not stream.read(1):  # a fault may wait behind what was read
                    return data
            except ParseError:
                pass
        return None

    def read(self, member: str = "") -> bytes:
        """Read the whole decompressed member.

        Raises:
            ParseError: `too_large`, if it has more than `WHOLE_BYTES`, or it cannot be decompressed.
        """
        with self.open(member) as stream:
            data = stream.read(WHOLE_BYTES + 1)
        if len(data) > WHOLE_BYTES:
            detail = f"a document of more than {WHOLE_BYTES} bytes would have to be held in memory at once"
            raise ParseError(self.uri, WHOLE_BYTES, "too_large", detail, member)
        return data

    def digest(self, member: str = "") -> str:
        """Return the sha256 of the decompressed member, or of its readable part if the file is damaged."""
        if member not in self._digests:
            digest = hashlib.sha256()
            data_held = self._held.get(member)
            try:
                with self._stream(member) if data_held is None else io.BytesIO(data_held) as stream:
                    while data := stream.read(_CHUNK):
                        digest.update(data)
            except ParseError:
                pass  # the parser meets the same fault and reports it
            self._digests[member] = digest.hexdigest()
        return self._digests[member]

    def head(self, member: str, size: int) -> bytes:
        """Return at most `size` decompressed bytes from the member's beginning; of a damaged one, the readable bytes.

        Raises:
            ParseError: no byte of it can be read.
        """
        data = b""
        with self._stream(member) as stream:
            try:
                while len(data) < size and (more := stream.read1(size - len(data))):
                    data += more
            except ParseError:
                if not data:
                    raise  # what was read before a fault is enough to tell the format
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.clear()
