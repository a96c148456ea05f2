"""Contract of a connector: how a format is recognized, which files form one log, and how a log is parsed.

A connector knows one format. It reads bytes through a `Blob` and yields trajectories and rejects. It opens no file,
uses no network and runs none of its input. See docs/connectors.md to add a connector.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final, Literal, Protocol

from trajmill.connectors.column_mapping import UNMAPPED, Rows

if TYPE_CHECKING:
    from trajmill.schemas import Reject, Trajectory

HEAD_BYTES: Final = 65536
"""Largest beginning of a decompressed file, in bytes, that `sniff` receives; a longer first record is outlined."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices of a recipe about the reading of logs; they come with the blob, and most formats use none of them.

    Attributes:
        screen: `tree` converts a raw DOM, UI or accessibility tree to the compact text of `connectors.screens.tree`;
            `raw` keeps the log's own text. A format's own text form of a screen is kept in either case.
        static_assets: True to make transitions of requests for images, fonts, style sheets and scripts too.
        rows: Roles of the columns of a table.
    """

    screen: Literal["tree", "raw"] = "tree"
    static_assets: bool = False
    rows: Rows = UNMAPPED


DEFAULT_CHOICES: Final = Choices()


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Part of a file of rows: the rows that begin at or after `begin` and before `end`.

    In Parquet files, row groups take the place of rows; in Arrow files, record batches.

    Attributes:
        begin: Offset in decompressed bytes.
        end: Offset in decompressed bytes; None for the end of the file.
        is_array: True if the rows are the elements of a JSON array, which a stored blob then returns as lines.
        frame: In a compressed file, the stored offset of a frame whose first byte is the one before `begin`.
    """

    begin: int
    end: int | None
    is_array: bool = False
    frame: int | None = None

    def holds(self, offset: int) -> bool:
        """Check whether an offset is in the slice."""
        return self.begin <= offset and (self.end is None or offset < self.end)


class Blob(Protocol):
    """Bytes of one log: its decompressed members by name. A log of one file has the single member `""`.

    A `file_slice` names the wanted rows of a blob that is otherwise whole: `json_lines` and `Table.rows` read only
    these, at the offsets of the file. None selects all rows.
    """

    uri: str
    members: tuple[str, ...]
    choices: Choices

    @property
    def file_slice(self) -> FileSlice | None: ...

    def open(self, member: str = "") -> BinaryIO:
        """Open a new stream over the decompressed member, from its beginning."""

    def seekable(self, member: str = "") -> BinaryIO:
        """Open a stream like `open`, but seekable, for formats with a directory at their end."""

    def read(self, member: str = "") -> bytes:
        """Return the whole decompressed member, for formats with small files; use `open` for large ones."""

    def digest(self, member: str = "") -> str:
        """Return the sha256 of the decompressed member, 64 hex digits."""


class MemoryBlob:
    """Blob of bytes in memory.

    Args:
        uri: URI, as in provenance.
        members: Bytes of each member; plain bytes are the single member `""`.
        choices: Choices about the reading.
        file_slice: Slice of the wanted rows.
    """

    def __init__(
        self,
        uri: str,
        members: Mapping[str, bytes] | bytes,
        choices: Choices = DEFAULT_CHOICES,
        file_slice: FileSlice | None = None,
    ) -> None:
        self.uri = uri
        self.choices = choices
        self.file_slice = file_slice
        self._members = {"": members} if isinstance(members, bytes) else dict(sorted(members.items()))
        self.members = tuple(self._members)

    def open(self, member: str = "") -> BinaryIO:
        return BytesIO(self._members[member])

    def seekable(self, member: str = "") -> BinaryIO:
        return BytesIO(self._members[member])

    def read(self, member: str = "") -> bytes:
        return self._members[member]

    def digest(self, member: str = "") -> str:
        return hashlib.sha256(self._members[member]).hexdigest()


@dataclass(frozen=True, slots=True)
class Sniff:
    """Answer of a connector that recognizes a file: its score and the reason.

    Attributes:
        score: 0 < score <= 1. 0.9 and above: the format names itself. About 0.5: the shape fits. The highest score
            wins; among equal scores, the connector that the registry lists first.
        why: One line for a person, such as `first line is an asciicast header of version 2`.
    """

    score: float
    why: str


@dataclass(frozen=True, slots=True)
class Log:
    """Several files that form one input.

    Attributes:
        uri: Folder (or common prefix) that names the input, relative to the raw root.
        members: Name within the log → path relative to the raw root; names are relative to the log's folder.
        anchor: Member whose head decides, by `sniff`, whether the log has this format.
        shared: Members that this log reads, although they may belong to another log.
    """

    uri: str
    members: Mapping[str, str]
    anchor: str
    shared: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Asked:
    """File with records that other logs answer.

    Attributes:
        log: The file, and for each answered record a shared member, a file of the log that answers it.
        records: Number of records in the file; if all are answered, the file itself is not read.
    """

    log: Log
    records: int


@dataclass(frozen=True, slots=True)
class Answers:
    """Logs that answer records of other files, anywhere in the input.

    Attributes:
        logs: Logs of the answering connector; each replaces its log of the same uri, or is sniffed.
        asked: File → its records that these logs answer.
    """

    logs: tuple[Log, ...] = ()
    asked: Mapping[str, Asked] = field(default_factory=dict)


class Connector(ABC):
    """One format. Connectors are stateless: the same blob always yields the same trajectories in the same order."""

    name: ClassVar[str]
    """Name in snake_case, unique; it never changes, since trajectory ids depend on it."""
    version: ClassVar[str]
    """Version, raised when the same bytes give other results."""
    domains: ClassVar[tuple[str, ...]]
    """Possible domains of its trajectories; usually one."""
    title: ClassVar[str]
    """Description of the format for a person, in a few words."""
    companions: ClassVar[re.Pattern[str] | None] = None
    """Pattern of the names, relative to the folder of a recognized log, of files that belong to it but are not read.

    Examples are screenshots and reports of its recorder. Such files are claimed: they are neither inputs nor rejects.
    """

    asked_by: ClassVar[str | None] = None
    """Name of the single-file format whose records the logs of this format may answer: see `answers`."""

    @abstractmethod
    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        """Judge by at most `HEAD_BYTES` and the file's name whether a file may have this format; None if not.

        The bytes are the first of the decompressed file, or its outline, in which long texts and arrays are shortened
        (see `connectors.reading.head_outline`).
        """

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield the logs of several files among `paths` (sorted, relative to the raw root), disjoint, by name alone."""
        return iter(())

    def answers(self, own: Sequence[str], every: Sequence[str], asking: Iterator[tuple[str, Blob]]) -> Answers:
        """Match logs of this format with the records that they answer, in files recognized as `asked_by`.

        Only here does a plan read the contents of files, for formats in which only an id in a record tells which folder
        answers it.

        Args:
            own: Paths outside the logs that other formats joined, sorted.
            every: All paths, sorted, for shared members.
            asking: Path and bytes of each such file.
        """
        return Answers()

    def is_sliceable(self, blob: Blob) -> bool:
        """Check whether each row of a blob is a log of its own, so that slices of it can be parsed separately.

        The question arises for large files. A sliceable connector reads rows by `json_lines` or `Table.rows`, and its
        result for a row does not depend on the rows before it; it may look at the first rows of the file. The elements
        of a sliceable JSON array are read in the same way as lines.

        Raises:
            ParseError: The blob cannot be read.
        """
        return False

    @abstractmethod
    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        """Yield the blob's trajectories in the order of the log, and a reject for each dropped record.

        Raises:
            ParseError: The parse cannot continue; earlier results stay valid.
        """
