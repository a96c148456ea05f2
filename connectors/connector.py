"""The contract of a connector: how a format is recognized, which files are one log, and how a log is parsed.

A connector knows one format. It reads bytes through a `Blob` and yields trajectories and rejects; it opens no file,
reaches no network and runs nothing it reads. Adding one: see docs/connectors.md.
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
"""Largest number of bytes of a file's beginning, decompressed, that `sniff` is given; of a longer first record, of its
outline.
"""


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices of a recipe about how logs are read; they come with the blob, and most formats ask for none of them.

    Attributes:
        screen: `tree` makes the compact text of `connectors.screens.tree` of a raw DOM, UI or accessibility tree; `raw`
            keeps the log's own text of it. A format's own text form of a screen is kept either way.
        static_assets: whether requests for images, fonts, style sheets and scripts are transitions too.
        rows: which column of a table holds what.
    """

    screen: Literal["tree", "raw"] = "tree"
    static_assets: bool = False
    rows: Rows = UNMAPPED


DEFAULT_CHOICES: Final = Choices()


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Part of a file of rows: the rows that begin at `begin` or behind, before `end`.

    In place of rows stand the row groups of Parquet, and the record batches of Arrow.

    Attributes:
        begin: offset in bytes, decompressed.
        end: likewise; None for the end of the file.
        is_array: whether the rows are the elements of a JSON array, which a stored blob then gives out as lines.
        frame: of a compressed file, the offset as stored of a frame whose first byte is the one before `begin`.
    """

    begin: int
    end: int | None
    is_array: bool = False
    frame: int | None = None

    def holds(self, offset: int) -> bool:
        """Return True if what begins at an offset is in the slice."""
        return self.begin <= offset and (self.end is None or offset < self.end)


class Blob(Protocol):
    """One log's bytes: its members by name, decompressed. A log of one file has the single member `""`.

    A `file_slice` names the rows that are wanted, of a blob that is otherwise whole: `json_lines` and `Table.rows` keep
    to it, at the offsets of the file. None wants all.
    """

    uri: str
    members: tuple[str, ...]
    choices: Choices

    @property
    def file_slice(self) -> FileSlice | None: ...

    def open(self, member: str = "") -> BinaryIO:
        """A new stream over the decompressed member, from its beginning."""

    def seekable(self, member: str = "") -> BinaryIO:
        """As `open`, but a stream that can be read at any place: for formats whose directory stands at their end."""

    def read(self, member: str = "") -> bytes:
        """The whole decompressed member. For formats whose files are small; streams are opened."""

    def digest(self, member: str = "") -> str:
        """sha256 of the decompressed member, 64 hex digits."""


class MemoryBlob:
    """A blob of bytes in memory.

    Args:
        uri: as in provenance.
        members: bytes of each member; plain bytes are the single member `""`.
        choices: how it is to be read.
        file_slice: of its rows that are wanted.
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
    """Answer of a connector that takes a file for its format: its score and the reason.

    Attributes:
        score: 0 < score <= 1. 0.9 and above: the format says its own name; about 0.5: the shape fits; the highest wins,
            and between equals the connector that the registry lists first.
        why: one line for a person, such as `first line is an asciicast header of version 2`.
    """

    score: float
    why: str


@dataclass(frozen=True, slots=True)
class Log:
    """Several files that are one input.

    Attributes:
        uri: the folder (or common prefix) that names the input, relative to the raw root.
        members: name within the log → path relative to the raw root; names are relative to the log's folder.
        anchor: the member whose head decides, by `sniff`, whether this is the format at all.
        shared: members that are read for this log, but may be of another log too, which they come from.
    """

    uri: str
    members: Mapping[str, str]
    anchor: str
    shared: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Asked:
    """A file of which records are answered elsewhere.

    Attributes:
        log: the file, and for each record that is answered a shared member, which is a file of the log that answers it.
        records: how many it holds; where all are answered, nothing is left to be read of it by itself.
    """

    log: Log
    records: int


@dataclass(frozen=True, slots=True)
class Answers:
    """Logs that answer records of other files, wherever both lie.

    Attributes:
        logs: of the connector that says so; each takes the place of its log of the same uri, or is sniffed.
        asked: file → its records that these logs answer.
    """

    logs: tuple[Log, ...] = ()
    asked: Mapping[str, Asked] = field(default_factory=dict)


class Connector(ABC):
    """One format. Stateless: the same blob yields the same trajectories in the same order, always."""

    name: ClassVar[str]
    """snake_case, unique; never changes, since trajectory ids hang on it."""
    version: ClassVar[str]
    """Raised when the same bytes come out otherwise."""
    domains: ClassVar[tuple[str, ...]]
    """The domains its trajectories can be of; most have one."""
    title: ClassVar[str]
    """Description of the format for a person, in a few words."""
    companions: ClassVar[re.Pattern[str] | None] = None
    """Names, relative to the folder of a log that was recognized, of files that belong to it and are not read, such as
    screenshots and reports of its recorder. They are claimed: neither inputs nor rejects."""

    asked_by: ClassVar[str | None] = None
    """The format of one file whose records logs of this one may answer, by name: see `answers`."""

    @abstractmethod
    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        """Judge by at most `HEAD_BYTES` and the file's name if this may be the format; None if not.

        The bytes are the first of the file, decompressed, or its outline, in which long texts and arrays are shortened
        (see `connectors.reading.head_outline`).
        """

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """The logs of several files among `paths` (sorted, relative to the raw root); by names alone, disjoint."""
        return iter(())

    def answers(self, own: Sequence[str], every: Sequence[str], asking: Iterator[tuple[str, Blob]]) -> Answers:
        """Match logs of this format with the records that they answer, in the files that were recognized as `asked_by`.

        The one place where a plan reads what files hold: for formats in which nothing but an id in a record tells
        which folder answers it.

        Args:
            own: the paths that are of no log that another format joined, sorted.
            every: all paths, sorted, for members that are shared.
            asking: the path and the bytes of each such file.
        """
        return Answers()

    def is_sliceable(self, blob: Blob) -> bool:
        """Return True if each row of a blob is a log of its own, so that slices of it can be parsed apart.

        Asked about large files. A connector that says so reads rows by `json_lines` or `Table.rows`, and makes of a row
        the same whatever rows stand before it; it may look at the first rows of the file. If it says so of a JSON
        array, it reads the elements as it would read them as lines.

        Raises:
            ParseError: the blob cannot be read.
        """
        return False

    @abstractmethod
    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        """The blob's trajectories in the order of the log, and a reject for each record that is not carried on.

        Raises:
            ParseError: reading cannot go on; what was yielded before stands.
        """
