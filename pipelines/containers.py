"""Archives of logs: what a zip or tar file holds, and its members as streams, under caps. Nothing is ever extracted.

A member is reached by a path of its own, `<archive>!/<member>`, which may be nested once. Names that climb out, links
and devices are not members; an archive with too many members, or one that grows beyond its cap, is refused whole. A tar
that was cut, or damaged, is read as far as it goes; a zip is not, since what names its members stands at its end. What
is not read is told.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO, Final, cast

from schemas import ParseError, Reject

MARK: Final = "!/"
"""Stands between an archive's path and a member's name."""

MAX_MEMBERS: Final = 200_000
MAX_RATIO: Final = 400
"""Decompressed over compressed bytes above which what has more than `RATIO_FROM` bytes is a bomb."""

RATIO_FROM: Final = 64 << 20
NESTING: Final = 1
"""How many archives deep within an archive logs are looked for."""

_IN_MEMORY: Final = 64 << 20
_ZIP: Final = b"PK\x03\x04"
_ZIP_END: Final = b"PK\x05\x06"
_ZIP_END_BYTES: Final = 22 + 65535
"""Last bytes of a zip file in which the end of its directory stands."""

_TAR_AT: Final = 257
_CUT: Final = frozenset({"truncated", "bad_compression"})
"""Faults of a compressed stream before which what came out of it is good."""

TAR_HEAD: Final = 512
"""First bytes of a file that tell whether it is an archive."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive: its name, and its decompressed bytes as the archive states them."""

    name: str
    bytes: int


def kind_of(head: bytes) -> str | None:
    """`zip` or `tar`, by the first decompressed bytes of a file; None if it is neither."""
    if head.startswith(_ZIP):
        return "zip"
    return "tar" if head[_TAR_AT : _TAR_AT + 5] == b"ustar" else None


class Archive:
    """An open archive.

    Args:
        uri: for faults.
        kind: `zip` or `tar`.
        stream: its bytes, decompressed if it is a compressed tar; read once, or kept in a temporary file.
        limit: bytes that the archive may have, and each member.

    Raises:
        ParseError: it is damaged, or beyond a cap.
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
        try:
            if kind == "zip":
                self._zip = zipfile.ZipFile(self._spool)
                infos = [(info.filename, info) for info in self._zip.infolist() if not info.is_dir()]
                self._infos = dict(infos)
                self._replaced([name for name, _ in infos])
            else:
                self._tar = tarfile.open(fileobj=self._spool, mode="r:")  # noqa: SIM115 - closed with the archive
                self._files = self._listed(self._tar, ended)
                ended = None
        except (zipfile.BadZipFile, tarfile.TarError, EOFError, ValueError, NotImplementedError) as error:
            if ended is not None:
                raise ended from error
            if kind == "zip" and not self._has_directory():
                raise self._fault("truncated", "it ends before the directory that names its members") from error
            raise self._fault("bad_archive", f"it cannot be read as {kind}: {error}") from error

    def _filled(self, stream: io.BufferedIOBase, kind: str) -> ParseError | None:
        """Takes the archive's bytes in; gives back the fault that ended them early, where a tar can do without."""
        try:
            # not `read`, which loses what it has when a fault comes
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

    def _has_directory(self) -> bool:
        self._spool.seek(max(0, self._size - _ZIP_END_BYTES))
        return _ZIP_END in self._spool.read()

    def _listed(self, tar: tarfile.TarFile, ended: ParseError | None) -> dict[str, tarfile.TarInfo]:
        """The files of a tar that are whole; what else it holds is noted as lost."""
        infos: list[tarfile.TarInfo] = []
        fault = (ended.reason, ended.detail) if ended is not None else None
        try:
            infos.extend(tar)
        except (tarfile.TarError, EOFError, ValueError) as error:
            fault = fault or ("truncated", f"it cannot be read further: {error}")
        fault = fault or self._ending(tar.offset)
        files: list[tarfile.TarInfo] = []
        for info in infos:
            if info.isfile() and not info.issparse() and info.offset_data + info.size > self._size:
                self._lose("truncated", "the archive ends within the member", info.name)
            elif info.isfile():
                files.append(info)
            elif not info.isdir():
                what = f"a link to {info.linkname[:200]!r}" if info.issym() or info.islnk() else "a device or a pipe"
                self._lose("not_a_file", f"it is {what}, which is not followed", info.name)
        if fault is not None:
            self._lost.append(Reject("input", *fault, self._uri, offset=min(tar.offset, self._size)))
        self._replaced([info.name for info in files])
        return {info.name: info for info in files}

    def _ending(self, offset: int) -> tuple[str, str] | None:
        """(reason, detail) of a fault at the place where the members of a tar end."""
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
        """Notes members whose name a later member has."""
        for name, count in Counter(names).items():
            for _ in range(count - 1):
                self._lose("replaced", "a later member of the archive has the name", name)

    def _lose(self, reason: str, detail: str, member: str) -> None:
        self._lost.append(Reject("input", reason, detail, f"{self._uri}/{PurePosixPath(member).name}", member=member))

    def _fault(self, reason: str, detail: str, member: str = "") -> ParseError:
        return ParseError(self._uri, 0, reason, detail, member)

    def members(self) -> Iterator[Member | Reject]:
        """The members in the order of their names, and a reject for each that is not to be read.

        A reject without a member is of the archive itself, of which the rest is not read.
        """
        sizes = {name: info.file_size for name, info in self._infos.items()} if self._zip else {}
        if self._tar:
            sizes = {name: info.size for name, info in self._files.items()}
        count = len(sizes) + len(self._lost)
        if count > MAX_MEMBERS:
            raise self._fault("too_many_members", f"{count} members, {MAX_MEMBERS} are read at most")
        total = sum(sizes.values())
        if total > RATIO_FROM and total > MAX_RATIO * self._size:
            raise self._fault("bomb", f"{total} bytes from {self._size}: more than {MAX_RATIO} to one")
        for name, size in sorted(sizes.items()):
            fault = self._unsafe(name, size)
            if fault:
                yield Reject("input", *fault, f"{self._uri}/{PurePosixPath(name).name}", member=name)
            else:
                yield Member(name, size)
        yield from self._lost

    def _unsafe(self, name: str, size: int) -> tuple[str, str] | None:
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if not parts or ".." in parts or name.startswith("/") or ":" in parts[0] or MARK in name:
            return "unsafe_name", f"the name {name!r} does not lie within the archive"
        if size > self._limit:
            return "too_large", f"{size} bytes, {self._limit} are read at most"
        if self._tar and self._files[name].issparse():
            return "sparse", "the member has holes, which may be of any size"
        if self._zip:
            info = self._infos[name]
            if info.flag_bits & 1:
                return "encrypted", "the member is encrypted"
            if size > RATIO_FROM and size > MAX_RATIO * max(1, info.compress_size):
                return "bomb", f"{size} bytes from {info.compress_size}: more than {MAX_RATIO} to one"
        return None

    def open(self, name: str) -> BinaryIO:
        """The member's bytes as a stream.

        Raises:
            ParseError: there is no such member, or it cannot be decompressed.
        """
        try:
            if self._zip:
                opened = cast("BinaryIO", self._zip.open(self._infos[name]))
                return cast("BinaryIO", _Faults(opened, self._uri, name))
            assert self._tar is not None
            found = self._tar.extractfile(self._files[name])
            assert found is not None
            return cast("BinaryIO", _Faults(cast("BinaryIO", found), self._uri, name))
        except (KeyError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise self._fault("bad_archive", f"the member cannot be opened: {error}", name) from error


class _Faults(io.BufferedIOBase):
    """A member whose faults are parse errors."""

    def __init__(self, inner: BinaryIO, uri: str, member: str) -> None:
        self._inner, self._uri, self._member = inner, uri, member

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            return self._inner.read(-1 if size is None else size)
        except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
            detail = f"the member cannot be decompressed: {error}"
            raise ParseError(self._uri, self._inner.tell(), "bad_compression", detail, self._member) from error

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(size)

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()
