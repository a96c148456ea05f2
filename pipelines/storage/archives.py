"""Archives of logs: the members of a zip or tar file as streams, with limits. Nothing is ever extracted.

A member is reached by its name, within nested archives if necessary. Names that lead out of the archive, links and
devices are not members. An archive with too many members, or one that grows beyond its limit, is refused as a whole. A
truncated or damaged tar is read up to the damage; a zip is not, since its directory is at its end. Everything that is
not read is reported.
"""

from __future__ import annotations

import errno
import io
import re
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO, Final, cast

from trajmill.connectors.reading.archive import entries
from trajmill.pipelines.storage.paths import text_of
from trajmill.schemas import ParseError, Reject

MAX_MEMBERS: Final = 200_000
MAX_RATIO: Final = 400
"""Ratio of decompressed to compressed bytes above which data of more than `RATIO_FROM` bytes counts as a bomb."""

RATIO_FROM: Final = 64 << 20
NESTING: Final = 1
"""Largest depth of nested archives in which logs are searched for."""

_IN_MEMORY: Final = 64 << 20
_ZIP: Final = b"PK\x03\x04"
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)

_NAME_CHARACTERS: Final = 4096
"""Largest length of a member's name, which is what file systems allow for a path."""

_PIECE: Final = 1 << 16
"""Decompressed bytes of a member that are read at once. Damage costs at most this many good bytes before it."""

_HEADER_BYTES: Final = 1 << 20
_DIGITS: Final = 100
"""Largest length of a run of digits in an extended header of a tar. The standard library takes time quadratic in it."""

_TAR_AT: Final = 257
_CUT: Final = frozenset({"truncated", "bad_compression"})
"""Faults of a compressed stream before which its output is good."""

_EXTENDED: Final = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE
)  # fmt: skip
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_DIGIT_RUN: Final = re.compile(rb"\d+")

TAR_HEAD: Final = 512
"""Number of first bytes of a file that show whether it is an archive."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive: its name, and the number of decompressed bytes that the archive states."""

    name: str
    bytes: int


def kind_of(head: bytes) -> str | None:
    """Return `zip` or `tar`, by the first decompressed bytes of a file; None if it is neither."""
    if head.startswith(_ZIP):
        return "zip"
    return "tar" if head[_TAR_AT : _TAR_AT + 5] == b"ustar" else None


@contextmanager
def _damage(fault: Callable[[str], ParseError]) -> Iterator[None]:
    """Turn any exception of the standard library about damaged bytes into a parse error.

    Errors of the system and of memory are no damage, except a seek to an invalid offset.
    """
    try:
        yield
    except (ParseError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise fault(f"{error}" or type(error).__name__) from error


class Header(tarfile.TarInfo):
    """A header of a tar. It is refused where the standard library would go back, or take unbounded time or memory."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size < 0:
            raise tarfile.ReadError(f"a header states {self.size} bytes")
        if self.type in _EXTENDED:
            if self.size > _HEADER_BYTES:
                raise tarfile.ReadError(f"an extended header has {self.size} bytes")
            stream = cast("BinaryIO", tar.fileobj)
            at = stream.tell()
            data = stream.read(self.size)
            stream.seek(at)
            digits = max(map(len, _DIGIT_RUN.findall(data)), default=0)
            if digits > _DIGITS or data.count(b"hdrcharset=") > 1:
                raise tarfile.ReadError("an extended header is malformed")
        member: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        if member.size < 0 or tar.offset <= self.offset:
            raise tarfile.ReadError(f"a header states {member.size} bytes")
        return member


class Archive:
    """An open archive.

    Args:
        kind: `zip` or `tar`.
        stream: its bytes, decompressed if it is a compressed tar. They are read once and kept in a temporary file.
        limit: largest number of bytes of the archive, and of each member.

    Raises:
        ParseError: it is damaged, or beyond a limit.
    """

    def __init__(self, uri: str, kind: str, stream: io.BufferedIOBase, limit: int) -> None:
        self._uri, self._limit = uri, limit
        self._spool = cast("BinaryIO", tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115 - closed with the archive
        self._size = 0
        self._lost: list[Reject] = []
        ended = self._filled(stream, kind)
        self._spool.seek(0)
        self._zip: zipfile.ZipFile | None = None
        self._tar: tarfile.TarFile | None = None
        if kind == "zip":
            self._zip = self._open_zip()
            infos = [(info.filename, info) for info in self._zip.infolist() if not info.is_dir()]
            self._infos = dict(infos)
            self._replaced([name for name, _ in infos])
        else:
            with _damage(lambda why: ended or self._fault("bad_archive", f"it cannot be read as tar: {why}")):
                self._tar = tarfile.open(fileobj=self._spool, mode="r:", tarinfo=Header)  # noqa: SIM115 - as above
            self._files = self._listed(self._tar, ended)

    def _filled(self, stream: io.BufferedIOBase, kind: str) -> ParseError | None:
        """Read the archive's bytes; return the fault that ended them early, if a tar can be read up to it."""
        try:
            # not `read`, which loses its bytes at a fault
            while data := stream.read1(1 << 20):
                self._spool.write(data)
                self._size += len(data)
                if self._size > self._limit:
                    raise self._fault("too_large", f"the archive has more than {self._limit} bytes")
        except ParseError as error:
            if kind != "tar" or error.reason not in _CUT:
                raise
            return error
        return None

    def _open_zip(self) -> zipfile.ZipFile:
        """Open the archive by the directory at its end, after counting its entries."""
        count = entries(self._spool, MAX_MEMBERS)
        if count is None:
            raise self._fault("truncated", "it ends before the directory that names its members")
        self._refuse_many(count)
        with _damage(lambda why: self._fault("bad_archive", f"it cannot be read as zip: {why}")):
            return zipfile.ZipFile(self._spool)

    def _refuse_many(self, count: int) -> None:
        if count > MAX_MEMBERS:
            raise self._fault("too_many_members", f"more than the {MAX_MEMBERS} members that are read at most")

    def _listed(self, tar: tarfile.TarFile, ended: ParseError | None) -> dict[str, tarfile.TarInfo]:
        """List the complete files of a tar; record everything else as lost."""
        infos: list[tarfile.TarInfo] = []
        fault = (ended.reason, ended.detail) if ended is not None else None
        end = 0
        try:
            with _damage(lambda why: self._fault("truncated", f"it cannot be read further: {why}")):
                while (info := tar.next()) is not None:
                    infos.append(info)
                    self._refuse_many(len(infos))
                    end = tar.offset
        except ParseError as error:
            if error.reason != "truncated":
                raise
            fault = fault or (error.reason, error.detail)
        fault = fault or self._ending(end)
        files: list[tarfile.TarInfo] = []
        for info in infos:
            if info.isfile() and not info.issparse() and info.offset_data + info.size > self._size:
                self._lose("truncated", "the archive ends within the member", info.name)
            elif info.isfile():
                files.append(info)
            elif not info.isdir():
                kind = f"a link to {info.linkname[:200]!r}" if info.issym() or info.islnk() else "a device or a pipe"
                self._lose("not_a_file", f"it is {kind}, which is not followed", info.name)
        if fault is not None:
            self._lost.append(Reject("input", *fault, self._uri, offset=min(end, self._size)))
        self._replaced([info.name for info in files])
        return {info.name: info for info in files}

    def _ending(self, offset: int) -> tuple[str, str] | None:
        """Return (reason, detail) of a fault at the end of the members of a tar; None if there is none."""
        self._spool.seek(offset)
        block = self._spool.read(tarfile.BLOCKSIZE)
        if len(block) < tarfile.BLOCKSIZE:
            return "truncated", "it ends without the mark of its end"
        if block.strip(b"\0"):
            return "bad_archive", "no header stands where the next member should begin"
        while data := self._spool.read(1 << 20):
            if data.strip(b"\0"):
                return "bad_archive", "more stands behind its end, which is not read"
        return None

    def _replaced(self, names: Sequence[str]) -> None:
        """Record members whose name a later member has."""
        for name, count in Counter(names).items():
            for _ in range(count - 1):
                self._lose("replaced", "a later member of the archive has the name", name)

    def _lose(self, reason: str, detail: str, name: str) -> None:
        self._lost.append(self._lost_member(reason, detail, name))

    def _lost_member(self, reason: str, detail: str, name: str) -> Reject:
        shown = text_of(name[:_NAME_CHARACTERS])
        return Reject("input", reason, detail, f"{self._uri}/{PurePosixPath(shown).name}", member=shown)

    def _fault(self, reason: str, detail: str, member: str = "") -> ParseError:
        return ParseError(self._uri, 0, reason, detail, member)

    def members(self) -> Iterator[Member | Reject]:
        """Yield the members in the order of their names, and a reject for each that must not be read.

        A reject without a member is of the archive itself, the rest of which is not read.
        """
        sizes = {name: info.file_size for name, info in self._infos.items()} if self._zip else {}
        if self._tar:
            sizes = {name: info.size for name, info in self._files.items()}
        self._refuse_many(len(sizes) + len(self._lost))
        faults = {name: fault for name, size in sizes.items() if (fault := self._unsafe(name, size)) is not None}
        total = sum(size for name, size in sizes.items() if name not in faults)
        if total > RATIO_FROM and total > MAX_RATIO * self._size:
            raise self._fault("bomb", f"{total} bytes from {self._size}: more than {MAX_RATIO} to one")
        for name, size in sorted(sizes.items()):
            if name in faults:
                yield self._lost_member(*faults[name], name)
            else:
                yield Member(name, size)
        yield from self._lost

    def _unsafe(self, name: str, size: int) -> tuple[str, str] | None:
        names = PurePosixPath(name.replace("\\", "/")).parts
        if not names or ".." in names or name.startswith("/") or _DRIVE.match(name):
            return "unsafe_name", f"the name {name[:200]!r} does not lie within the archive"
        if len(name) > _NAME_CHARACTERS:
            return "unsafe_name", f"the name has {len(name)} characters, {_NAME_CHARACTERS} are read at most"
        if self._tar and self._files[name].issparse():
            return "sparse", "the member has holes, which may be of any size"
        if size > self._limit:
            return "too_large", f"{size} bytes, {self._limit} are read at most"
        if self._zip:
            info = self._infos[name]
            if info.flag_bits & 1:
                return "encrypted", "the member is encrypted"
            if info.compress_type not in _METHODS:
                return "unknown_compression", f"the member is packed by method {info.compress_type}"
            if size > RATIO_FROM and size > MAX_RATIO * max(1, info.compress_size):
                return "bomb", f"{size} bytes from {info.compress_size}: more than {MAX_RATIO} to one"
        return None

    def open(self, name: str) -> BinaryIO:
        """Open a member as a stream.

        Raises:
            ParseError: there is no such member, or it cannot be decompressed.
        """
        with _damage(lambda why: self._fault("bad_archive", f"the member cannot be opened: {why}", text_of(name))):
            if self._zip:
                opened = cast("BinaryIO", self._zip.open(self._infos[name]))
            else:
                assert self._tar is not None
                opened = cast("BinaryIO", self._tar.extractfile(self._files[name]))
            return cast("BinaryIO", _Faults(opened, self._uri, text_of(name)))


class _Faults(io.BufferedIOBase):
    """A member whose faults are parse errors. Bytes before a fault are returned first."""

    def __init__(self, inner: BinaryIO, uri: str, member: str) -> None:
        self._inner, self._uri, self._member = inner, uri, member
        self._pull = getattr(inner, "read1", inner.read)

    def read(self, size: int | None = -1, /) -> bytes:
        chunks: list[bytes] = []
        wanted = size if size is not None and size >= 0 else sys.maxsize
        while wanted and (data := self.read1(wanted)):
            chunks.append(data)
            wanted -= len(data)
        return b"".join(chunks)

    def read1(self, size: int = -1, /) -> bytes:
        with _damage(self._fault):
            return self._pull(_PIECE if size < 0 else min(size, _PIECE))

    def _fault(self, why: str) -> ParseError:
        detail = f"the member cannot be decompressed: {why}"
        return ParseError(self._uri, self._inner.tell(), "bad_compression", detail, self._member)

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()
