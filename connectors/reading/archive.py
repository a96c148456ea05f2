"""Zip archives in untrusted raw input: members by name, each decompressed on demand.

The reader refuses more members than a log can use, members that exceed their limit in bytes or by their ratio,
encrypted or unknown packing, and names that leave the archive (`../x`, `/x`, `C:x`). Only long members are written to
disk, in unnamed files. The directory is not trusted: stated sizes are checked during decompression. Stored, deflated
and zstd members are read. A truncated archive, which has no directory at its end, is read from its beginning by the
headers before each member, as far as possible.
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
"""Largest number of members of an archive."""

MEMBER_BYTES: Final = 256 << 20
"""Largest decompressed size of a member, in bytes."""

HELD_BYTES: Final = 32 << 20
"""Decompressed bytes of a streamed member that are kept in memory."""

LONG_MEMBER_BYTES: Final = 8 << 30
"""Largest decompressed size of a streamed member, in bytes."""

RATIO: Final = 400
"""Largest number of decompressed bytes per compressed byte, beyond `FREE_BYTES`; logs have 10 to 100."""

FREE_BYTES: Final = 16 << 20
"""Decompressed bytes of a member that are allowed whatever its ratio."""

_PART_BYTES: Final = 1 << 20

_END: Final = b"PK\x05\x06"
_END_LEAST: Final = 22
_END_BYTES: Final = _END_LEAST + 65535
"""Last bytes of a zip file that contain the end of its directory."""

_DIRECTORY_BYTES_AT: Final = 12
"""Offset of the directory's size in the end of the directory."""

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
    """Member of an archive: its name, the offset of its header, and the packing of its bytes."""

    name: str
    offset: int
    method: int
    flags: int
    size: int


class Archive:
    """Members of a zip archive by name; among members of the same name the last counts, as in any reader.

    Attributes:
        members: Members by name, in the order of the archive.
        whole: False if the directory at its end is missing.

    Args:
        data: Archive, or a seekable stream over it; it stays open as long as this object.

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
        """Yield rejects for a truncated archive's missing rest, and for names that leave the archive."""
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
        """Yield the members of an archive without a directory, by the headers before them.

        The walk ends at a member whose size only follows it.
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
        """Return the decompressed bytes of a member.

        Raises:
            ParseError: `bad_archive`, `truncated`, `member_too_large`, `encrypted`, `unknown_compression`.
        """
        return b"".join(self._parts(name, limit))

    def open(self, name: str, held_bytes: int = HELD_BYTES, limit: int = LONG_MEMBER_BYTES) -> BinaryIO:
        """Return the decompressed bytes of a member as a seekable stream; errors as in `read`.

        Args:
            held_bytes: Bytes kept in memory; a longer member is unpacked into a temporary file.
            limit: Largest size of the member, in bytes.
        """
        stream = scratch(held_bytes)
        for part in self._parts(name, limit):
            stream.write(part)
        stream.seek(0)
        return stream

    def _parts(self, name: str, limit: int) -> Iterator[bytes]:
        """Yield the decompressed bytes of a member in parts."""
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
        """Return the begin and end of a member's packed bytes, as far as the archive contains them."""
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
    """Count the entries of the directory at a zip archive's end, including folders; None if the archive has no end.

    The entries are counted without being loaded, since a directory may name millions, and only up to just above `most`.
    An archive with a ZIP64 end states the beginning of its directory elsewhere. All of its bytes are searched, so that
    matches in stored members count as well.

    Args:
        stream: Archive, seekable.
        most: Count at which the search may stop.
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
        """Return the next bytes, at most `size`; empty at the end."""
        data = self._read_from(self._begin, min(self._end, self._begin + size))
        self._begin += len(data)
        return data


def _list_members(stream: BinaryIO) -> list[Member]:
    """Return the members in the directory at the archive's end, without folders."""
    with zipfile.ZipFile(stream) as archive:
        return [
            Member(info.filename, info.header_offset, info.compress_type, info.flag_bits, info.compress_size)
            for info in archive.infolist()
            if not info.filename.endswith("/")
        ]
