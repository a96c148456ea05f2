"""Files wherever they are: raw logs read through fsspec, output written whole or not at all.

A `Folder` is an output folder on any file system that fsspec knows. A file appears under its name only when it is
complete: locally by renaming, elsewhere as one object. This module does not know what the files hold.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any, BinaryIO, Final, Self, cast

import fsspec
import zstandard
from fsspec.implementations.local import LocalFileSystem

from connectors.connector import DEFAULT_CHOICES, Choices
from pipelines.containers import MARK, MAX_RATIO, RATIO_FROM, TAR_HEAD, Archive, kind_of
from schemas import ParseError, ShardError

COMPRESSIONS: Final = (".gz", ".zst", ".bz2", ".xz")
"""Endings of compressed files; what matters is what a file begins with, not what it is called."""

IN_MEMORY: Final = 64 << 20
"""Members up to this many decompressed bytes are held in memory while their log is read."""

WHOLE_BYTES: Final = 1 << 30
"""Decompressed bytes of a member above which it is not read whole; formats of larger logs are streamed."""

_CHUNK: Final = 1 << 20
_TEMPORARY: Final = ".unfinished-"
_UNFINISHED: Final = re.compile(re.escape(_TEMPORARY) + r"[0-9a-f]{16}-.*", re.DOTALL)
_BASE: Final = 200
"""Characters of a file's name that its temporary name ends with."""

_MAGIC: Final = (
    (b"\x1f\x8b", "gz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "xz"),
)


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def place_of(url: str) -> tuple[Any, str]:
    """(file system, path on it) of a URL, or of a local path, which is taken as it stands: `::` and `~` are names."""
    if _SCHEME.match(url):
        filesystem, path = fsspec.core.url_to_fs(url)
        return filesystem, str(path).rstrip("/")
    return LocalFileSystem(), os.path.abspath(url)


@dataclass(frozen=True)
class Folder:
    """An output folder, by URL or path; picklable, so that workers reach the same files."""

    url: str

    @cached_property
    def _place(self) -> tuple[Any, str]:
        return place_of(self.url)

    @property
    def is_local(self) -> bool:
        """Whether the folder is on this machine's own file system."""
        return isinstance(self._place[0], LocalFileSystem)

    def path(self, name: str = "") -> str:
        """The full path of a file in the folder, as its file system names it."""
        return f"{self._place[1]}/{name}" if name else self._place[1]

    def __truediv__(self, name: str) -> Folder:
        return Folder(f"{self.url.rstrip('/')}/{name}")

    def __getstate__(self) -> dict[str, str]:
        return {"url": self.url}

    def __setstate__(self, state: dict[str, str]) -> None:
        object.__setattr__(self, "url", state["url"])

    def exists(self, name: str = "") -> bool:
        """Whether there is a complete file of that name, or the folder itself."""
        return bool(self._place[0].exists(self.path(name)))

    def size(self, name: str) -> int:
        """Bytes of a file; -1 if there is none."""
        try:
            return int(self._place[0].size(self.path(name)))
        except FileNotFoundError:
            return -1

    def read(self, name: str) -> bytes:
        """The whole file.

        Raises:
            ShardError: it cannot be read.
        """
        try:
            return bytes(self._place[0].cat_file(self.path(name)))
        except OSError as error:
            raise ShardError(f"{self.path(name)} cannot be read: {why(error)}") from error

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """The file, open for reading at any place."""
        with self._place[0].open(self.path(name), "rb") as stream:
            yield stream

    def sha256(self, name: str) -> str:
        """The digest of a file, 64 hex digits; empty if there is none.

        Raises:
            ShardError: it cannot be read.
        """
        try:
            with self.open(name) as stream:
                return hashlib.file_digest(cast("Any", stream), "sha256").hexdigest()
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise ShardError(f"{self.path(name)} cannot be read: {why(error)}") from error

    def names(self, suffix: str = "", *, unfinished: bool = False) -> list[str]:
        """Every complete file below the folder, relative to it and sorted, that ends with `suffix`.

        Links are listed as files and never followed.

        Args:
            suffix: of the names.
            unfinished: whether to list what killed writers left too.
        """
        filesystem, root = self._place
        if self.is_local:
            found = [f"{at}/{name}" for at, folders, files in os.walk(root) for name in (*files, *_links(at, folders))]
        else:
            found = filesystem.find(root) if filesystem.exists(root) else []
        names = [str(path)[len(root) + 1 :] for path in found]
        return sorted(name for name in names if name.endswith(suffix) and (unfinished or not is_unfinished(name)))

    def write(self, name: str, data: bytes, *, private: bool = False) -> None:
        """Writes a whole file, replacing what was there, in one step; arguments as of `writing`.

        Raises:
            ShardError: it cannot be written.
        """
        with self.writing(name, private=private) as path:
            Path(path).write_bytes(data)

    @contextmanager
    def writing(self, name: str, *, private: bool = False) -> Iterator[str]:
        """A local path to write to; the file appears under `name`, complete, when the block ends without error.

        Args:
            name: of the file in the folder.
            private: whether only the user may read it, where the file system knows users; else the umask decides.

        Raises:
            ShardError: the file cannot be written, or not be put in its place.
        """
        filesystem, target = self._place[0], self.path(name)
        directory, base = os.path.split(target) if self.is_local else (tempfile.gettempdir(), name.replace("/", "_"))
        temporary = f"{directory}/{unfinished_name(base)}"
        mode = 0o600 if private or not self.is_local else 0o666
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
            yield temporary
            if self.is_local:
                os.replace(temporary, target)
            else:
                filesystem.put_file(temporary, target)
        except OSError as error:
            raise ShardError(f"{target} cannot be written: {why(error)}") from error
        finally:
            with suppress(OSError):
                Path(temporary).unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Removes a file, and the folders below this one that are empty without it; nothing happens if there is none.

        Raises:
            ShardError: it cannot be removed.
        """
        try:
            if self.is_local:
                Path(self.path(name)).unlink(missing_ok=True)
            elif self.exists(name):
                self._place[0].rm_file(self.path(name))
        except OSError as error:
            raise ShardError(f"{self.path(name)} cannot be removed: {why(error)}") from error
        if self.is_local:
            with suppress(OSError):  # one that is not empty ends it
                for parent in list(PurePosixPath(name).parents)[:-1]:
                    os.rmdir(self.path(str(parent)))


def unfinished_name(name: str) -> str:
    """A fresh name for a file of that name while it is being written."""
    return f"{_TEMPORARY}{token_hex(8)}-{name[-_BASE:]}"


def is_unfinished(name: str) -> bool:
    """Whether a file of that name was being written by us when its writer ended."""
    return _UNFINISHED.fullmatch(name.rpartition("/")[2]) is not None


def _links(at: str, folders: Sequence[str]) -> list[str]:
    """Those of the folders that are links to folders: names that a listing must not lose."""
    return [name for name in folders if os.path.islink(f"{at}/{name}")]


def why(error: OSError) -> str:
    """What the system says, without the path that the message names already."""
    return error.strerror or str(error)


def sha256_of(path: str) -> str:
    """The digest of a local file, 64 hex digits."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _decompressed(raw: BinaryIO) -> BinaryIO:
    """The stream's content, decompressed if its first bytes say that it is compressed."""
    head = raw.read(6)
    raw.seek(0)
    kind = next((name for magic, name in _MAGIC if head.startswith(magic)), "")
    if kind == "gz":
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    if kind == "zst":
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(
            raw, read_across_frames=True, closefd=True
        )
        return cast("BinaryIO", io.BufferedReader(reader, 1 << 20))
    if kind == "bz2":
        return cast("BinaryIO", bz2.BZ2File(raw))
    if kind == "xz":
        return cast("BinaryIO", lzma.LZMAFile(raw))
    return raw


class _Guarded(io.RawIOBase):
    """A stream whose decompression faults are parse errors at their decompressed offset, and whose length is capped.

    Args:
        inner: the decompressed bytes.
        uri: of the input, for faults.
        member: of the input, for faults.
        limit: decompressed bytes above which reading is a parse error.
        raw: the compressed bytes that `inner` is made of, whose place tells the ratio; None if nothing is compressed.
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
        """At most `size` bytes; what could be decompressed before a fault is returned before the fault is raised."""
        chunks: list[bytes] = []
        wanted = size if size >= 0 else self._limit + 1
        while wanted and (data := self._next(min(wanted, _CHUNK), held=bool(chunks))):
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

    def _next(self, size: int, *, held: bool) -> bytes:
        """The next bytes, as they come; a fault waits for the next call while bytes before it are held."""
        if self._waiting is None:
            try:
                return self._pull(size)
            except EOFError as error:
                self._waiting = self._fault("truncated", f"the compressed file ends early: {error}")
            except (zlib.error, lzma.LZMAError, zstandard.ZstdError, gzip.BadGzipFile) as error:
                self._waiting = self._fault("bad_compression", f"it cannot be decompressed: {error}")
        if held:
            return b""
        raise self._waiting

    def close(self) -> None:
        self._inner.close()
        super().close()


def _opened(path: str, uri: str, member: str, limit: int) -> _Guarded:
    """What `open_raw` gives, not buffered."""
    archive, _, name = path.rpartition(MARK)
    if archive:
        inner = opened_archive(archive, limit).open(name)
    else:
        try:
            filesystem, place = fsspec.core.url_to_fs(path)
            inner = filesystem.open(place, "rb")
        except OSError as error:
            raise ShardError(f"{path} cannot be opened: {error}") from error
    decompressed = _decompressed(inner)
    raw = inner if decompressed is not inner else None
    return _Guarded(decompressed, uri, member, limit, raw)


def open_raw(path: str, uri: str, member: str, limit: int) -> io.BufferedReader:
    """A raw file as a stream, decompressed; `<archive>!/<name>` is a member of an archive.

    Args:
        path: URL or path.
        uri: of the input, for faults.
        member: of the input, for faults.
        limit: decompressed bytes above which reading is a parse error.

    Raises:
        ShardError: the file cannot be opened.
        ParseError: the archive cannot be read; faults of the stream itself come while it is read.
    """
    return io.BufferedReader(_opened(path, uri, member, limit), _CHUNK)


def _uncompressed(path: str) -> BinaryIO | None:
    """The file at a path, open at its beginning; None if it is compressed or a member of an archive.

    Raises:
        ShardError: it cannot be opened.
    """
    if MARK in path:
        return None
    try:
        filesystem, place = fsspec.core.url_to_fs(path)
        stream: BinaryIO = filesystem.open(place, "rb")
    except OSError as error:
        raise ShardError(f"{path} cannot be opened: {error}") from error
    head = stream.read(6)
    stream.seek(0)
    if not any(head.startswith(magic) for magic, _ in _MAGIC):
        return stream
    stream.close()
    return None


@lru_cache(maxsize=4)
def opened_archive(path: str, limit: int) -> Archive:
    """The archive at a path, kept open while its members are read one after the other.

    Raises:
        ParseError: it is no archive, damaged, or beyond a cap.
    """
    uri = path.rpartition("/")[2]
    with open_raw(path, uri, "", limit) as stream:
        kind = kind_of(stream.peek(TAR_HEAD)[:TAR_HEAD])
        if kind is None:
            raise ParseError(uri, 0, "bad_archive", "it is neither a zip nor a tar file")
        return Archive(uri, kind, stream, limit)


class StoredBlob:
    """A log's bytes on a file system: a `connectors.Blob`, whose small members are read once and kept.

    Args:
        uri: as in provenance.
        paths: member → URL or path of its file.
        limit: decompressed bytes of a member above which reading it is a parse error.
        choices: how the log is to be read.
    """

    def __init__(self, uri: str, paths: dict[str, str], limit: int, choices: Choices = DEFAULT_CHOICES) -> None:
        self.uri = uri
        self.choices = choices
        self.members = tuple(sorted(paths))
        self._paths = paths
        self._limit = limit
        self._held: dict[str, bytes] = {}
        self._digests: dict[str, str] = {}

    def _stream(self, member: str) -> io.BufferedReader:
        return open_raw(self._paths[member], self.uri, member, self._limit)

    def open(self, member: str = "") -> BinaryIO:
        """A new stream over the decompressed member."""
        if member in self._held:
            return io.BytesIO(self._held[member])
        data = self._small(member)
        if data is None:
            return self._stream(member)
        self._held[member] = data
        return io.BytesIO(data)

    def seekable(self, member: str = "") -> BinaryIO:
        """A new stream over the decompressed member that can be read at any place.

        A file that is neither compressed nor in an archive is read where it lies; any other is unpacked into memory, or
        into a temporary file if it is large.

        Raises:
            ParseError: it is larger than allowed, or cannot be decompressed.
        """
        if member in self._held:
            return io.BytesIO(self._held[member])
        stored = _uncompressed(self._paths[member])
        if stored is not None:
            if stored.seek(0, io.SEEK_END) > self._limit:
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
        """The member if it is small enough to hold; None if not, or if it is damaged, so that its fault comes last."""
        with _opened(self._paths[member], self.uri, member, self._limit) as stream:
            try:
                data = stream.read(IN_MEMORY + 1)
                if len(data) <= IN_MEMORY and not stream.read(1):  # a fault may wait behind what was read
                    return data
            except ParseError:
                pass
        return None

    def read(self, member: str = "") -> bytes:
        """The whole decompressed member.

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
        """sha256 of the decompressed member; of what can be decompressed, if the file is damaged."""
        if member not in self._digests:
            digest = hashlib.sha256(self._held.get(member, b""))
            try:
                with self.open(member) if member not in self._held else io.BytesIO() as stream:
                    while data := stream.read(1 << 20):
                        digest.update(data)
            except ParseError:
                pass  # the parser meets the same fault and reports it
            self._digests[member] = digest.hexdigest()
        return self._digests[member]

    def head(self, member: str, size: int) -> bytes:
        """At most `size` decompressed bytes from the member's beginning; what can be read, if it is damaged.

        Raises:
            ParseError: not a byte of it can be read.
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
