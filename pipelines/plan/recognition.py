"""Recognition of raw files: logs of several files are joined, every other file is sniffed, archives are opened.

A file belongs to an input, is claimed by a log, is an archive that is opened, or becomes a reject. Only names and first
bytes are read; the content of logs is not judged here.
"""

from __future__ import annotations

import codecs
import fnmatch
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Final

from trajmill.connectors.connector import HEAD_BYTES, Answers, Connector, FileSlice, Log, Sniff
from trajmill.connectors.reading.head_outline import OUTLINED_BYTES
from trajmill.connectors.registry import connectors, joining, sniff, sniff_one
from trajmill.pipelines.execution.dying_inputs import WORKER_DIED, Deaths, InputAtHand
from trajmill.pipelines.execution.pool import worker_pool
from trajmill.pipelines.plan.column_mapping import TABLE
from trajmill.pipelines.plan.connector_frames import frame_of
from trajmill.pipelines.plan.raw_files import NOT_OPENED, RawFile, RawNames, plain_name, root_name
from trajmill.pipelines.storage.archives import NESTING, kind_of
from trajmill.pipelines.storage.paths import JUNK, Place, text_of
from trajmill.pipelines.storage.stored_blob import StoredBlob, opened_archive
from trajmill.quality.scrub import scrub_text
from trajmill.schemas import ConfigError, ContractError, ParseError, Reject, ShardError

UNRECOGNIZED_REASONS: Final = frozenset(
    {"unrecognized", "empty", "not_utf8", "not_a_file", "outside_root"}
)  # fmt: skip
"""Reasons for files that no connector recognizes, or that are not files of the input.

Any other reason means a file that should have been read, such as a damaged archive.
"""

LEAST: Final = 256
"""Number of files from which workers sniff. Fewer are sniffed in the time that workers take to start."""

_AT_ONCE: Final = 64
_EXCERPT_BYTES: Final = 512
_CHOSEN: Final = "the recipe names its format"
_ANSWERS: Final = "its folder answers what a record or a trajectory elsewhere asks"

_UNREADABLE: Final = "unreadable"
_WIDE: Final = re.compile(rb"(?:[\t\n\r -~]\0){8}|(?:\0[\t\n\r -~]){8}")
"""Pattern of UTF-16 text without a byte order mark."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input: a log of one or several files, and its connector.

    Attributes:
        uri: name relative to the raw root, distinct within a plan.
        members: places of its files by member name.
        bytes: stored size of its own members, without those that it shares with other logs.
        stamp: digest of sizes and times of change of the members, by which changes between runs are found.
        licence: licence on the card of its data set, if it belongs to one.
        file_slice: the slice of its file to read; None for the whole file. Slices of a file share its uri.
        sha256: sha256 of a large decompressed file whose rows can be read in slices.
    """

    uri: str
    connector: str
    version: str
    why: str
    members: dict[str, Place]
    bytes: int
    stamp: str
    licence: str | None = None
    file_slice: FileSlice | None = None
    sha256: str = ""

    @property
    def begin(self) -> int:
        """The offset at which its slice begins; 0 for a log that is read whole."""
        return self.file_slice.begin if self.file_slice is not None else 0

    @property
    def name(self) -> str:
        """Its uri, with the begin of a later slice: distinct from that of any other input."""
        return f"{self.uri}\n{self.begin}" if self.begin else self.uri


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that was opened and is no log by itself.

    Attributes:
        stamp: digest of its size and time of change.
    """

    place: Place
    stamp: str
    inputs: int


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A connector that was not tried further on a file because it failed, which is a bug to report.

    Attributes:
        error: class of the exception; its message is left out, since it may quote the file.
        raised_at: module, function and line where it was raised.
    """

    connector: str
    uri: str
    error: str
    raised_at: str


@dataclass(slots=True)
class Recognized:
    """Results of recognizing files.

    Attributes:
        rejects: a reject for each file, or member of an archive, that belongs to no log.
        withdrawn: connectors that failed, with the files.
        claimed: by connector, the number of files that belong to its logs and are not read.
        opened: files that were opened and are no logs by themselves: archives and unrecognized files.
    """

    inputs: list[Input] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    withdrawn: list[Withdrawn] = field(default_factory=list)
    claimed: Counter[str] = field(default_factory=Counter)
    opened: list[Opened] = field(default_factory=list)

    def take(self, more: Recognized) -> None:
        """Add the results on other files."""
        self.inputs += more.inputs
        self.rejects += more.rejects
        self.withdrawn += more.withdrawn
        self.claimed += more.claimed


@dataclass(slots=True)
class PlanCounts:
    """Progress of planning.

    Attributes:
        files: number of files to examine.
        told: number of those that are examined.
    """

    files: int = 0
    told: int = 0

    def add(self, count: int) -> None:
        """Count examined files."""
        self.told += count


@dataclass(frozen=True, slots=True)
class Recognizer:
    """Recognizer of files.

    Attributes:
        among: connectors to try, by name.
        limit: largest number of bytes of an archive or a member of it.
        salt: salt of the placeholders in excerpts of unrecognized files.
        mapped: function that explains, from its beginning, why a file is a table whose columns the recipe maps; None if
            it is not one.
        strict: whether an exception of a connector is raised instead of noted.
        workers: processes that sniff many files.
        known: function that returns the result for an unchanged file; None if unknown.
        counts: counts for the display of progress.
        at_hand: file in which a process names the file that it examines.
        isolated: whether files are examined only in other processes, since one died over a file.
        deadly: by name, the details of files that end the process which examines them; they are rejected unread.
        formats: connector by glob of file names, in the order in which globs are tried.
    """

    among: Mapping[str, Connector]
    limit: int
    salt: str = ""
    mapped: Callable[[str, Place, bytes], str | None] | None = None
    strict: bool = False
    workers: int = 1
    known: Callable[[RawFile], Recognized | None] | None = None
    counts: PlanCounts | None = None
    at_hand: InputAtHand = field(default_factory=lambda: InputAtHand(None))
    isolated: bool = False
    deadly: Mapping[str, str] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)

    def recognize(self, files: Sequence[RawFile], deaths: Deaths) -> Recognized:
        """Call `recognize_once` until no process dies over a file.

        Args:
            files: files sorted by name.
        """
        at_hand = InputAtHand(deaths.folder)

        def recognize(deadly: Mapping[str, str], isolated: bool) -> Recognized:
            if self.counts is not None:
                self.counts.files = self.counts.told = 0
            with at_hand:
                return replace(self, at_hand=at_hand, isolated=isolated, deadly=deadly).recognize_once(files)

        def reader(name: str) -> Callable[[], Recognized] | None:
            file = next((file for file in files if file.name == name), None)
            return None if file is None else partial(replace(self, known=None, counts=None).alone, file)

        return deaths.survive(recognize, reader)

    def recognize_once(self, files: Sequence[RawFile], depth: int = 0) -> Recognized:
        """Recognize the inputs among the files, and reject each file that belongs to none, sorted by uri.

        Logs of several files are joined first, by the connectors' `join`; every other file is sniffed alone. A zip file
        may be a log itself; otherwise an archive is opened, and so are archives within it. Files that a recognized log
        claims are neither inputs nor rejects.

        Args:
            files: files sorted by name.
            depth: number of archives that contain the files.
        """
        result = Recognized()
        for file in files:
            if file.fault:
                result.rejects.append(Reject("input", file.fault, NOT_OPENED[file.fault], file.name))
        names = RawNames([file for file in files if not file.fault])
        owners, shared, claims = self._joined(names, result)
        left = [name for name in names.files if name not in owners and name not in shared and name not in claims]
        before = {name: self.known(names.files[name]) for name in left} if self.known is not None else {}
        alone = {name: known for name, known in before.items() if known is not None}
        asked = dict.fromkeys(name for name in left if name not in alone)
        counts = self.counts if self.counts is not None and depth == 0 else PlanCounts()
        counts.files += len(asked)
        answers = self._each(Recognizer.alone, [(names.files[name], depth) for name in asked], counts.add)
        alone |= zip(asked, answers, strict=True)
        alone = {name: alone[name] for name in left}
        for name, beside in _beside(names, alone).items():
            if name in alone:
                del alone[name]
                claims[name] = beside
        for connector in joining(self.among, names.stored):
            if connector.asked_by is not None:
                self._answered(connector, names, owners, result, alone, claims)
        for name, recognized in alone.items():
            result.take(recognized)
            if name not in asked:
                result.opened += recognized.opened
            elif (opened := _note_opened(names.files[name], recognized)) is not None:
                result.opened.append(opened)
        result.claimed.update(claims.values())
        result.inputs = [replace(source, why=_scrub(source.why, self.salt)) for source in result.inputs]
        result.rejects = [
            replace(reject, detail=_scrub(reject.detail, self.salt), excerpt=_scrub(reject.excerpt, self.salt))
            for reject in result.rejects
        ]
        result.inputs.sort(key=lambda source: source.uri)
        result.rejects.sort(key=lambda reject: reject.uri)
        result.withdrawn.sort(key=lambda withdrawal: (withdrawal.uri, withdrawal.connector))
        return result

    def _each(
        self, method: Callable[..., Any], items: Sequence[tuple[Any, ...]], done: Callable[[int], None] = lambda _: None
    ) -> list[Any]:
        """Call a method with the arguments of each item, in this process or in workers.

        Workers are used if there are many items, or if a process died.
        """
        if not self.isolated and (self.workers < 2 or len(items) < LEAST):
            results = []
            for item in items:
                results.append(method(self, *item))
                done(1)
            self.at_hand.note()
            return results
        blocks = [items[begin : begin + _AT_ONCE] for begin in range(0, len(items), _AT_ONCE)]
        # known results are not sent to processes
        apart = _Apart(replace(self, known=None, counts=None, workers=1, isolated=False), method)
        with worker_pool(self.workers) as pool:
            return list(
                chain.from_iterable(pool.map(apart, blocks, lambda block_number: done(len(blocks[block_number]))))
            )

    def _joined(self, names: RawNames, result: Recognized) -> tuple[dict[str, str], set[str], dict[str, str]]:
        """Join logs of several files.

        Returns:
            The connector of the joined input by file, the files that inputs share, and the claiming connector by file.
        """
        owners: dict[str, str] = {}
        shared: set[str] = set()
        claims: dict[str, str] = {}
        for connector in joining(self.among, names.sorted):
            if type(connector).join is Connector.join:
                continue
            free = [plain for plain in names.sorted if names.stored[plain] not in owners]
            if self.formats:
                free = [plain for plain in free if self._chosen(plain) in (None, connector.name)]
            folders: set[str] = set()
            for log in _logs(connector, free):
                members = names.members(log)
                sniffed = self._sniff_by_anchor(connector, members[log.anchor], result)
                own = {file.name for member, file in members.items() if member not in log.shared}
                if sniffed is not None and owners.keys().isdisjoint(own):
                    uri = _uri(log, members[log.anchor])
                    result.inputs.append(_input(uri, connector, sniffed.why, members, log.shared))
                    owners |= dict.fromkeys(own, connector.name)
                    shared.update(members[member].name for member in log.shared)
                    folders.add(_folder(log))
            for folder in folders:
                claims |= dict.fromkeys(names.companions(connector, folder), connector.name)
        claimed = {name: claimer for name, claimer in claims.items() if name not in owners and name not in shared}
        return owners, shared, claimed

    def _answered(
        self,
        connector: Connector,
        names: RawNames,
        owners: Mapping[str, str],
        result: Recognized,
        alone: dict[str, Recognized],
        claims: dict[str, str],
    ) -> None:
        """Join records of files that were recognized alone to the logs of other folders that answer them."""
        asking = {
            plain_name(name): recognized.inputs[0]
            for name, recognized in alone.items()
            if any(source.connector == connector.asked_by and source.uri == name for source in recognized.inputs)
        }
        own = sorted(
            plain for plain, name in names.stored.items() if owners.get(name, connector.name) == connector.name
        )
        [(answers, withdrawn)] = self._each(Recognizer._asked, [(connector.name, own, sorted(names.stored), asking)])
        result.withdrawn += withdrawn
        joined = {
            joined_source.uri: number
            for number, joined_source in enumerate(result.inputs)
            if joined_source.connector == connector.name
        }
        own_files: set[str] = set()
        for log in answers.logs:
            members = names.members(log)
            position = joined.get(_uri(log, members[log.anchor]))
            if position is None and self._sniff_by_anchor(connector, members[log.anchor], result) is None:
                continue
            joined_input = _input(_uri(log, members[log.anchor]), connector, _ANSWERS, members, log.shared)
            if position is None:
                result.inputs.append(joined_input)
            else:
                result.inputs[position] = joined_input
            own_files.update(file.name for member, file in members.items() if member not in log.shared)
            claims |= {name: connector.name for name in names.companions(connector, _folder(log)) if name in alone}
        for name in own_files:
            claims.pop(name, None)
        for path, asked in answers.asked.items():
            name, asking_input = names.stored[path], asking[path]
            members = names.members(asked.log)
            answered = {one for one in asked.log.shared if members[one].name in own_files}
            if len(answered) == asked.records:
                claims[name] = asking_input.connector
            elif answered:
                remaining = {
                    one: file for one, file in members.items() if one in answered or one not in asked.log.shared
                }
                alone[name] = Recognized(
                    [
                        _input(
                            asking_input.uri,
                            connectors()[asking_input.connector],
                            asking_input.why,
                            remaining,
                            answered,
                        )
                    ]
                )
        for name in {*own_files, *claims} & alone.keys():
            del alone[name]

    def _asked(
        self, name: str, own: Sequence[str], every: Sequence[str], asking: Mapping[str, Input]
    ) -> tuple[Answers, list[Withdrawn]]:
        """Return (records that a connector's logs answer, failures of the connector).

        Raises:
            Exception: the connector's exception, if the run is strict.
        """

        connector = connectors()[name]

        def opened() -> Iterator[tuple[str, StoredBlob]]:
            for path, source in sorted(asking.items()):
                self.at_hand.note(source.uri)
                with StoredBlob(source.uri, source.members, self.limit) as blob:
                    yield path, blob

        try:
            return connector.answers(own, every, opened()), []
        except (OSError, MemoryError, ConfigError, ContractError, ShardError):
            raise
        except Exception as error:
            error.add_note(f"while connector '{connector.name}' was asked what its logs answer")
            if self.strict:
                raise
            uri = next(iter(asking), own[0] if own else "")
            return Answers(), [Withdrawn(name, uri, type(error).__name__, frame_of(error, connector))]

    def _sniff_by_anchor(self, connector: Connector, anchor: RawFile, result: Recognized) -> Sniff | None:
        [(sniffed, withdrawn)] = self._each(Recognizer._sniff_anchor, [(connector.name, anchor)])
        result.withdrawn += [withdrawal for withdrawal in withdrawn if withdrawal not in result.withdrawn]
        return sniffed

    def _sniff_anchor(self, name: str, anchor: RawFile) -> tuple[Sniff | None, list[Withdrawn]]:
        if anchor.name in self.deadly:
            return None, []  # its files are then looked at one by one, and rejected for the fault
        self.at_hand.note(anchor.name)
        try:
            head = _head(anchor)
        except (ParseError, ShardError):
            return None, []  # as above
        result = Recognized()
        withdraw = self._withdraw(anchor.name, result)
        longer = partial(_head, anchor, OUTLINED_BYTES)
        plain = plain_name(anchor.name)
        sniffed = sniff_one(connectors()[name], head, plain, withdraw, longer)
        if sniffed is None and self._chosen(plain) == name:
            sniffed = Sniff(1.0, _CHOSEN)
        return sniffed, result.withdrawn

    def _chosen(self, plain: str) -> str | None:
        """Return the connector that the recipe names for a file, by its name without the ending of a compression."""
        for glob, name in self.formats.items():
            if fnmatch.fnmatchcase(plain, glob) or fnmatch.fnmatchcase(plain, glob.removeprefix("**/")):
                return name
        return None

    def alone(self, file: RawFile, depth: int = 0) -> Recognized:
        """Recognize a single file, or the files in it."""
        result, name = Recognized(), file.name
        if name in self.deadly:
            result.rejects.append(Reject("input", WORKER_DIED, self.deadly[name], name))
            return result
        self.at_hand.note(name)
        try:
            head = _head(file)
        except (ParseError, ShardError) as error:
            result.rejects.append(_unread(error, file))
            return result
        packed, chosen = kind_of(head), self._chosen(plain_name(name))
        is_asked = self.mapped is not None and chosen is None and head and not packed
        why = self.mapped(name, file.place, head) if self.mapped is not None and is_asked else None
        if why is not None:
            result.inputs.append(_input(name, connectors()[TABLE], why, {"": file}))
            return result
        takers = []
        if head and packed != "tar":
            among = self.among if chosen is None else {chosen: connectors()[chosen]}
            longer = partial(_head, file, OUTLINED_BYTES)
            takers = sniff(head, plain_name(name), among, self._withdraw(name, result), longer)
            if chosen is not None and not takers and not packed:
                takers = [(connectors()[chosen], Sniff(1.0, _CHOSEN))]
        if takers:
            connector, sniffed = takers[0]
            result.inputs.append(_input(name, connector, sniffed.why, {"": file}))
        elif depth <= NESTING and packed:
            within, faults = _members(file, self.limit)
            result.take(replace(self, workers=1).recognize_once(within, depth + 1))
            result.rejects += faults
        else:
            reason, detail = _explain_unrecognized(head)
            excerpt = head[:_EXCERPT_BYTES].decode("utf-8", "replace")
            result.rejects.append(Reject("input", reason, detail, name, offset=0, excerpt=excerpt))
        return result

    def _withdraw(self, uri: str, result: Recognized) -> Callable[[Connector, Exception], None] | None:
        def note(connector: Connector, error: Exception) -> None:
            withdrawal = Withdrawn(connector.name, uri, type(error).__name__, frame_of(error, connector))
            if withdrawal not in result.withdrawn:  # it may be asked about the head and about the outline
                result.withdrawn.append(withdrawal)

        return None if self.strict else note


@dataclass(frozen=True, slots=True)
class _Apart:
    """A method of a recognizer for blocks of items, in another process."""

    recognizer: Recognizer
    method: Callable[..., Any]

    def __call__(self, block: Sequence[tuple[Any, ...]]) -> list[Any]:
        with self.recognizer.at_hand:
            return [self.method(self.recognizer, *item) for item in block]


def _note_opened(file: RawFile, result: Recognized) -> Opened | None:
    """Return the record of an opened file; None if it is a log, or if its recognition may change."""
    fleeting = result.withdrawn or any(reject.reason == _UNREADABLE for reject in result.rejects)
    if fleeting or any(source.uri == file.name for source in result.inputs):
        return None
    return Opened(file.place, stamp_of({"": file}), len(result.inputs))


def _folder(log: Log) -> str:
    """Return the folder that the names of a log's members are relative to, with `/` at its end."""
    return log.members[log.anchor].removesuffix(log.anchor)


def _uri(log: Log, anchor: RawFile) -> str:
    """Return the log's uri; for a log in the root itself, the root's own name, or that of its anchor."""
    return log.uri or root_name(anchor.root) or plain_name(anchor.name)


def _logs(connector: Connector, names: Sequence[str]) -> Iterator[Log]:
    try:
        yield from connector.join(names)
    except Exception as error:
        error.add_note(f"while connector '{connector.name}' was joining files to logs")
        raise


def _beside(names: RawNames, alone: Mapping[str, Recognized]) -> dict[str, str]:
    """Map files that belong to logs of one file → connector. A file that has such files itself belongs to no other."""
    known = connectors()
    claims: dict[str, str] = {}
    claiming: set[str] = set()
    for name, result in alone.items():
        for source in result.inputs:
            if source.uri == name:
                folder = name[: name.rfind("/") + 1]
                theirs = [
                    companion for companion in names.companions(known[source.connector], folder) if companion != name
                ]
                claims |= dict.fromkeys(theirs, source.connector)
                claiming |= {name} if theirs else set()
    return {name: connector for name, connector in claims.items() if name not in claiming}


@lru_cache(maxsize=1024)
def _scrub(text: str, salt: str) -> str:
    return scrub_text(text, salt=salt) if text else text


def _head(file: RawFile, size: int = HEAD_BYTES) -> bytes:
    return StoredBlob(file.name, {"": file.place}, sys.maxsize).head("", size)


def _unread(error: ParseError | ShardError, file: RawFile) -> Reject:
    """Return the reject of a file whose beginning cannot be read.

    Raises:
        ShardError: the storage failed, not the file.
    """
    if isinstance(error, ParseError):
        return replace(Reject.of(error, "input"), uri=file.name, member="")
    if isinstance(error.__cause__, FileNotFoundError | PermissionError):
        return Reject("input", _UNREADABLE, NOT_OPENED[_UNREADABLE], file.name)
    raise error


def _input(
    uri: str, connector: Connector, why: str, members: Mapping[str, RawFile], shared: Set[str] = frozenset()
) -> Input:
    locations = {member: file.place for member, file in sorted(members.items())}
    size = sum(file.bytes for member, file in members.items() if member not in shared)
    licence = next((file.licence for file in members.values()), None)
    return Input(uri, connector.name, connector.version, why, locations, size, stamp_of(members), licence)


def stamp_of(members: Mapping[str, RawFile]) -> str:
    """Digest the names, sizes and times of change of a log's files, by which changes are found."""
    files = [[member, file.bytes, file.changed] for member, file in sorted(members.items())]
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def _members(file: RawFile, limit: int) -> tuple[list[RawFile], list[Reject]]:
    """List the files in an archive, named below it, and a reject for each that must not be read."""
    files: list[RawFile] = []
    rejects: list[Reject] = []
    try:
        for member in opened_archive(file.place, limit).members():
            if isinstance(member, Reject):
                uri = f"{file.name}/{member.member}" if member.member else file.name
                rejects.append(replace(member, uri=uri, member=""))
            elif JUNK.isdisjoint(member.name.split("/")):
                name = f"{file.name}/{text_of(member.name)}"
                location = file.place.member(member.name)
                files.append(RawFile(name, location, member.bytes, file.changed, file.licence, touched=file.touched))
    except ParseError as error:
        rejects.append(replace(Reject.of(error, "input"), uri=file.name))
    return files, rejects


def _explain_unrecognized(head: bytes) -> tuple[str, str]:
    """Return (reason, detail) for an unrecognized file, from its decompressed head."""
    if not head:
        return "empty", "the file holds nothing"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or _WIDE.match(head):
        return "not_utf8", "the file is UTF-16; logs are read as UTF-8"
    return "unrecognized", "no connector recognizes it"
