"""Attachments of logs on their way into `blobs/`: each once, under the sha256 of its bytes; see the recipe's choice.

While an input is read, bytes that stand in it are kept in a file without a name, and of its other files the names. When
a trajectory is taken in, those that it is attached to are written; the rest is forgotten with the input.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

from trajmill.connectors.connector import Blob
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ParseError
from trajmill.schemas.manifest import FileEntry
from trajmill.schemas.spool import scratch

KEPT: Final = "attachments.kept"
LOST: Final = "attachments.lost."
LEFT_OUT: Final = "left_out"
"""The recipe does not ask for attachments."""
NOT_IN_LOG: Final = "not_in_the_log"
"""The log tells of it by its digest, and does not hold it."""

_HELD_BYTES: Final = 64 << 20
_CHUNK: Final = 1 << 20
_WRITTEN: Final = (0, 0)
"""In place of where bytes were put aside: an earlier input held them too, and they are in the folder."""


class Attachments:
    """The attachments of a part: what connectors offer of them, and what of it was written.

    Args:
        out: the folder that they are written to; None where the recipe leaves them out.
        earlier: folders of earlier generations; what one of them holds is not written again.
    """

    def __init__(self, out: Folder | None, earlier: Sequence[Folder] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self._out, self._earlier = out, earlier
        self._entries: dict[str, FileEntry] = {}
        self._bytes: dict[str, tuple[int, int]] = {}
        self._members: dict[str, tuple[Blob, str]] = {}
        self._scratch = scratch(_HELD_BYTES)

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """Files that were written, by name."""
        return tuple(self._entries[name] for name in sorted(self._entries))

    def take(self, sha256: str, data: bytes) -> None:
        """Put aside bytes that stand in the log."""
        if self._out is None or sha256 in self._bytes:
            return
        if sha256 in self._entries:
            self._bytes[sha256] = _WRITTEN
            return
        offset = self._scratch.seek(0, 2)
        self._scratch.write(data)
        self._bytes[sha256] = offset, len(data)

    def refer(self, sha256: str, blob: Blob, member: str) -> None:
        """Notes where bytes stand that the log refers to."""
        if self._out is not None:
            self._members.setdefault(sha256, (blob, member))

    def settle(self, attached: Iterable[str]) -> None:
        """Writes what a trajectory is attached to, by sha256, and counts it."""
        for sha256 in sorted(attached):
            reason = self._fault(sha256)
            self.counts[f"{LOST}{reason}" if reason else KEPT] += 1

    def forget(self) -> None:
        """Lets go of what an input held and no trajectory is attached to."""
        self._members.clear()
        if self._bytes:
            self._bytes.clear()
            self._scratch.close()
            self._scratch = scratch(_HELD_BYTES)

    def _fault(self, sha256: str) -> str:
        """Writes it, unless it is there; why that cannot be, empty if it is done."""
        out = self._out
        if out is None:
            return LEFT_OUT
        if sha256 not in self._bytes and sha256 not in self._members:
            return NOT_IN_LOG  # whatever other logs hold, since which of them come first is nothing to hang on
        if sha256 in self._entries or any(_is_there(folder, sha256) for folder in self._earlier):
            return ""
        try:
            if not _is_there(out, sha256):
                with self._opened(sha256) as stream:
                    _write(out, sha256, stream)
        except ParseError as error:
            return error.reason
        self._entries[sha256] = FileEntry(sha256, 0, out.size(sha256), sha256)
        return ""

    def _opened(self, sha256: str) -> BinaryIO:
        """Open the bytes that were offered under that digest.

        Raises:
            ParseError: they cannot be read.
        """
        if sha256 in self._bytes:
            offset, size = self._bytes[sha256]
            self._scratch.seek(offset)
            return BytesIO(self._scratch.read(size))
        blob, member = self._members[sha256]
        return blob.seekable(member)


def _is_there(out: Folder, sha256: str) -> bool:
    """Return True if the folder holds the file whole; object stores check what they hold by themselves."""
    return out.size(sha256) >= 0 and (not out.is_local or out.sha256(sha256) == sha256)


def _write(out: Folder, sha256: str, stream: BinaryIO) -> None:
    """Copies the bytes, for the user alone: nobody scrubbed them.

    Raises:
        ParseError: they are no longer what they were when the log was read, or cannot be read.
    """
    digest = hashlib.sha256()
    with out.writing(sha256, private=True) as path, Path(path).open("wb") as target:
        while data := stream.read(_CHUNK):
            digest.update(data)
            target.write(data)
        if digest.hexdigest() != sha256:
            raise ParseError("", -1, "changed", "its bytes are others than when the log was read")
