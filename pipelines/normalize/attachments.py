"""Storage of attachments in `blobs/`, each once under the sha256 of its bytes, if the recipe keeps them.

While an input is read, bytes inside the log are kept in an unnamed file, and its other files by name. When a trajectory
is taken in, its attachments are written. The rest is discarded with the input.
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
"""Reason for attachments that the recipe leaves out."""
NOT_IN_LOG: Final = "not_in_the_log"
"""Reason for attachments that the log names by digest but does not hold."""

_HELD_BYTES: Final = 64 << 20
_CHUNK: Final = 1 << 20
_WRITTEN: Final = (0, 0)
"""Value in place of an offset for bytes that an earlier input held too, and that are in the folder already."""


class Attachments:
    """Attachments of a part: those that connectors offer, and those that were written.

    Args:
        out: folder to write them to; None if the recipe leaves them out.
        earlier: folders of earlier generations, whose files are not written again.
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
        """Entries of written files, by name."""
        return tuple(self._entries[name] for name in sorted(self._entries))

    def take(self, sha256: str, data: bytes) -> None:
        """Keep bytes that are inside the log."""
        if self._out is None or sha256 in self._bytes:
            return
        if sha256 in self._entries:
            self._bytes[sha256] = _WRITTEN
            return
        offset = self._scratch.seek(0, 2)
        self._scratch.write(data)
        self._bytes[sha256] = offset, len(data)

    def refer(self, sha256: str, blob: Blob, member: str) -> None:
        """Record the file that holds bytes to which the log refers."""
        if self._out is not None:
            self._members.setdefault(sha256, (blob, member))

    def settle(self, attached: Iterable[str]) -> None:
        """Write the attachments of a trajectory, given by sha256, and count them."""
        for sha256 in sorted(attached):
            reason = self._fault(sha256)
            self.counts[f"{LOST}{reason}" if reason else KEPT] += 1

    def forget(self) -> None:
        """Discard the attachments of an input that no trajectory has."""
        self._members.clear()
        if self._bytes:
            self._bytes.clear()
            self._scratch.close()
            self._scratch = scratch(_HELD_BYTES)

    def _fault(self, sha256: str) -> str:
        """Write an attachment unless it is there; return the reason if that is impossible, else an empty text."""
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
    """Return True if the folder holds the whole file. Object stores verify their own content."""
    return out.size(sha256) >= 0 and (not out.is_local or out.sha256(sha256) == sha256)


def _write(out: Folder, sha256: str, stream: BinaryIO) -> None:
    """Copy the bytes, readable by the user alone, since they are not scrubbed.

    Raises:
        ParseError: they changed since the log was read, or cannot be read.
    """
    digest = hashlib.sha256()
    with out.writing(sha256, private=True) as path, Path(path).open("wb") as target:
        while data := stream.read(_CHUNK):
            digest.update(data)
            target.write(data)
        if digest.hexdigest() != sha256:
            raise ParseError("", -1, "changed", "its bytes are others than when the log was read")
