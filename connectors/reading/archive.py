"""Zip archives within raw input, read without trust: members by name, each decompressed only when asked for.

What is refused: more members than a log has use for, a member that grows beyond its limit in bytes or by its ratio, one
that is encrypted or packed in a way not known here, and names that climb out (`../x`, `/x`, `C:x`). Nothing is written
to disk but what is long, in files without a name; no directory is trusted: sizes that the archive states are checked
while decompressing. Stored, deflated and zstd members are read. An archive that was cut off, and so has no directory at
its end, is read from its beginning by the headers before each member, as far as they go.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from typing import IO, BinaryIO, Final, cast

import zstandard

from trajmill.schemas import ParseError, Reject
from trajmill.schemas.spool import scratch

MEMBERS: Final = 200_000
"""Members of an archive above which it is refused."""

MEMBER_BYTES: Final = 256 << 20
"""Decompressed bytes of a member above which it is refused."""

HELD_BYTES: Final = 32 << 20
"""Decompressed bytes of a member that are held in memory where it is read as a stream."""

LONG_MEMBER_BYTES: Final = 8 << 30
"""The same of a member that is read as a stream."""

RATIO: Final = 400
"""Decompressed bytes that a compressed byte may become, beyond `FREE_BYTES`; logs come to 10 to 100."""

FREE_BYTES: Final = 16 << 20
"""Decompressed bytes of a member that are granted whatever its ratio."""

_PART_BYTES: Final = 1 << 20

_END: Final = b"PK\x05\x06"
_END_LEAST: Final = 22
_END_BYTES: Final = _END_LEAST + 65535
"""Last bytes of a zip file in which the end of its directory stands."""

_DIRECTORY_BYTES_AT: Final = 12
"""Offset in the end of a directory of the number of bytes that the directory has."""

_LOCATOR: Final = b"PK\x06\x07"
_LOCATOR_BYTES: Final = 20
_ENTRY: Final = b"PK\x01\x02"

_HEADER: Final = struct.Struct("<4sHHHHHIIIHH")
_SIGNATURE: Final = b"PK\x03\x04"
_ENCRYPTED: Final = 1
_SIZE_FOLLOWS: Final = 8
_STORED, _DEFLATED, _ZSTD = 0, 8, 93


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an archive: its name, where its header stands, and how its bytes are packed."""

    name: str
    offset: int
    method: int
    flags: int
    size: int


class Archive:
    """The members of a zip archive by name; of members of one name the last counts, as in any reader.

    Attributes:
        members: by name, in the order of the archive.
        whole: False if the directory at its end is missing.

    Args:
        data: the archive, or a stream over it that can be read at any place; it stays open as long as this object.
        uri: of the input, for errors.

    Raises:
        ParseError: `bad_archive` (no zip archive), `too_many_members`.
    """

    def __init__(self, data: bytes | BinaryIO, uri: str) -> None:
        self._stream: BinaryIO = BytesIO(data) if isinstance(data, bytes) else data
        self._uri = uri
        self.whole = True
        self.size = self._stream.seek(0, 2)
        head = self._read(0, 64)
        if not head.startswith(_SIGNATURE):
            raise ParseError(uri, 0, "bad_archive", "wanted a zip archive", "", head)
        self._refuse_many(entries(self._stream, MEMBERS) or 0)
        try:
            listing = _list_members(self._stream)
        except (zipfile.BadZipFile, ValueError, OverflowError, struct.error, NotImplementedError):
            self.whole = False
            listing = list(islice(self._walk_headers(), MEMBERS + 1))
        self._refuse_many(len(listing))
        self.members = {member.name: member for member in listing if _stays_within(member.name)}
        self.outside = [member for member in listing if not _stays_within(member.name)]

    def _refuse_many(self, count: int) -> None:
        if count > MEMBERS:
            detail = f"the archive has more than the {MEMBERS} members that are read at most"
            raise ParseError(self._uri, 0, "too_many_members", detail)

    def rejects(self, connector: str) -> Iterator[Reject]:
        """Yield rejects of contents that are no member: all behind the cut of an archive that was cut off, and names
        that climb out.
        """
        if not self.whole:
            detail = "the archive was cut off before its directory"
            yield Reject("record", "truncated", detail, self._uri, offset=self.size, connector=connector)
        for member in self.outside:
            detail = f"member {member.name:.100} climbs out of the archive"
            yield Reject("record", "unsafe_name", detail, self._uri, offset=max(member.offset, -1), connector=connector)

    def _read(self, begin: int, end: int) -> bytes:
        self._stream.seek(begin)
        return self._stream.read(max(0, end - begin))

    def _walk_headers(self) -> Iterator[Member]:
        """The members of an archive without a directory, by the headers before them.

        A size that only follows a member ends it.
        """
        offset = 0
        while len(header := self._read(offset, offset + _HEADER.size)) == _HEADER.size:
            fields = _HEADER.unpack(header)
            flags, method, size, name_size, extra_size = fields[2], fields[3], fields[7], fields[9], fields[10]
            begin = offset + _HEADER.size
            if not header.startswith(_SIGNATURE) or flags & _SIZE_FOLLOWS or size == 0xFFFFFFFF:
                return
            name = self._read(begin, begin + name_size).decode("utf-8", "replace")
            if not name.endswith("/"):
                yield Member(name, offset, method, flags, size)
            offset = begin + name_size + extra_size + size

    def read(self, name: str, limit: int = MEMBER_BYTES) -> bytes:
        """The decompressed bytes of a member.

        Raises:
            ParseError: `bad_archive`, `truncated`, `member_too_large`, `encrypted`, `unknown_compression`.
        """
        return b"".join(self._parts(name, limit))

    def open(self, name: str, held_bytes: int = HELD_BYTES, limit: int = LONG_MEMBER_BYTES) -> BinaryIO:
        """The decompressed bytes of a member as a stream that can be read at any place; errors as of `read`.

        Args:
            name: of the member.
            held_bytes: what is held in memory of it; a longer one is unpacked into a temporary file.
            limit: bytes of it above which it is refused.
        """
        stream = scratch(held_bytes)
        for part in self._parts(name, limit):
            stream.write(part)
        stream.seek(0)
        return stream

    def _parts(self, name: str, limit: int) -> Iterator[bytes]:
        """The decompressed bytes of a member, in parts."""
        member = self.members[name]
        start, end = self._packed(member)
        limit = min(limit, FREE_BYTES + RATIO * (end - start))
        if member.method == _STORED:
            parts = self._stored(member, start, end)
        elif member.method == _DEFLATED:
            parts = self._inflated(member, start, end)
        elif member.method == _ZSTD:
            parts = self._unpacked(member, start, end)
        else:
            detail = f"member {name:.100} is packed by method {member.method}"
            raise ParseError(self._uri, member.offset, "unknown_compression", detail)
        size = 0
        for part in parts:
            size += len(part)
            if size > limit:
                detail = f"member {name:.100} exceeds {limit} bytes"
                raise ParseError(self._uri, member.offset, "member_too_large", detail)
            yield part

    def _packed(self, member: Member) -> tuple[int, int]:
        """Return where the packed bytes of a member begin and end, as far as the archive holds them."""
        header = self._read(member.offset, member.offset + _HEADER.size) if member.offset >= 0 else b""
        if len(header) < _HEADER.size or not header.startswith(_SIGNATURE):
            raise ParseError(self._uri, -1, "bad_archive", f"member {member.name:.100} has no header")
        if member.flags & _ENCRYPTED:
            raise ParseError(self._uri, member.offset, "encrypted", f"member {member.name:.100} is encrypted")
        fields = _HEADER.unpack(header)
        start = member.offset + _HEADER.size + fields[9] + fields[10]
        return start, max(start, min(start + member.size, self.size))

    def _stored(self, member: Member, start: int, end: int) -> Iterator[bytes]:
        for begin in range(start, end, _PART_BYTES):
            yield self._read(begin, min(end, begin + _PART_BYTES))
        if end - start < member.size:
            raise self._truncation_error(member, end)

    def _inflated(self, member: Member, start: int, end: int) -> Iterator[bytes]:
        reader = zlib.decompressobj(-zlib.MAX_WBITS)
        begin, packed = start, b""
        while not reader.eof:
            if not packed and begin < end:
                packed = self._read(begin, min(end, begin + _PART_BYTES))
                begin += len(packed)
            try:
                part = reader.decompress(packed, _PART_BYTES)
            except zlib.error as error:
                raise self._bad(member, str(error)) from None
            if not part and not packed:
                raise self._truncation_error(member, end)
            packed = reader.unconsumed_tail
            if part:
                yield part

    def _unpacked(self, member: Member, start: int, end: int) -> Iterator[bytes]:
        unpacker = zstandard.ZstdDecompressor(max_window_size=1 << 27)
        packed = cast("IO[bytes]", _Span(self._read, start, end))
        reader = unpacker.stream_reader(packed, read_across_frames=True)
        try:
            while part := reader.read(_PART_BYTES):
                yield part
        except zstandard.ZstdError as error:
            raise self._bad(member, str(error)) from None
        if end - start < member.size:
            raise self._truncation_error(member, end)

    def _truncation_error(self, member: Member, end: int) -> ParseError:
        return ParseError(self._uri, min(end, self.size), "truncated", f"{member.name:.100} ends early")

    def _bad(self, member: Member, why: str) -> ParseError:
        return ParseError(self._uri, member.offset, "bad_archive", f"member {member.name:.100} is damaged: {why}")


def entries(stream: BinaryIO, most: int) -> int | None:
    """Entries of the directory at a zip archive's end, folders too; None if it has no end.

    They are counted without being taken in, since a directory may name millions, and no further than just above `most`.
    Of an archive with the ZIP64 end, which says elsewhere where its directory begins, all bytes are looked through, so
    that what its stored members hold counts as well.

    Args:
        stream: the archive, that can be read at any place.
        most: where counting may stop.
    """
    size = stream.seek(0, 2)
    stream.seek(max(0, size - _END_BYTES))
    tail = stream.read(_END_BYTES)
    plain = tail[-_END_LEAST:]
    is_last = plain.startswith(_END) and plain.endswith(b"\0\0")
    end = len(tail) - _END_LEAST if is_last else tail.rfind(_END)
    if end < 0:
        return None
    directory_bytes = int.from_bytes(tail[end + _DIRECTORY_BYTES_AT :][:4], "little")
    is_zip64 = tail[max(0, end - _LOCATOR_BYTES) : end].startswith(_LOCATOR)
    stream.seek(0 if is_zip64 else max(0, size - len(tail) + end - directory_bytes))
    count, rest = 0, b""
    while count <= most and (data := stream.read(_PART_BYTES)):
        data = rest + data
        count += data.count(_ENTRY)
        rest = data[1 - len(_ENTRY) :]
    return count


def _stays_within(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return bool(name) and parts[0] != "" and ":" not in parts[0] and ".." not in parts and "\0" not in name


class _Span:
    """Bytes between two offsets, to be read in order."""

    def __init__(self, read: Callable[[int, int], bytes], begin: int, end: int) -> None:
        self._read_from, self._begin, self._end = read, begin, end

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; none at the end."""
        data = self._read_from(self._begin, min(self._end, self._begin + size))
        self._begin += len(data)
        return data


def _list_members(stream: BinaryIO) -> list[Member]:
    """The members that the directory at the archive's end names, folders left out."""
    with zipfile.ZipFile(stream) as archive:
        return [
            Member(info.filename, info.header_offset, info.compress_type, info.flag_bits, info.compress_size)
            for info in archive.infolist()
            if not info.filename.endswith("/")
        ]
