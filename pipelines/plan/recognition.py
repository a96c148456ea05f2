"""What the raw files are: logs of several files joined, every other file sniffed, archives looked into.

A file is one of four: of an input, claimed by a log that it belongs to, in an archive that is looked into, or a reject.
Names and first bytes are all that is looked at; nothing of a log's content is judged here.
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
from trajmill.pipelines.plan.connector_frames import raised_at
from trajmill.pipelines.plan.raw_files import NOT_OPENED, RawFile, RawNames, plain_name, root_name
from trajmill.pipelines.storage.archives import NESTING, kind_of
from trajmill.pipelines.storage.paths import JUNK, Place, text_of
from trajmill.pipelines.storage.stored_blob import StoredBlob, opened_archive
from trajmill.quality.scrub import scrub_text
from trajmill.schemas import ConfigError, ContractError, ParseError, Reject, ShardError

UNRECOGNIZED_REASONS: Final = frozenset(
    {"unrecognized", "empty", "not_utf8", "not_a_file", "outside_root"}
)  # fmt: skip
"""Reasons of the plan that mean: no connector knows it, or it is no file of the input. With any other reason a file is
one that should have been read, such as a damaged archive."""

LEAST: Final = 256
"""Files from which on workers sniff: fewer are told in the time that workers take to start."""

_AT_ONCE: Final = 64
_EXCERPT_BYTES: Final = 512
_CHOSEN: Final = "the recipe names its format"
_ANSWERS: Final = "its folder answers what a record or a trajectory elsewhere asks"

_UNREADABLE: Final = "unreadable"
_WIDE: Final = re.compile(rb"(?:[\t\n\r -~]\0){8}|(?:\0[\t\n\r -~]){8}")
"""UTF-16 text without a byte order mark."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input: a log of one or several files, and who reads it.

    Attributes:
        uri: relative to the raw root; in a plan no other input has it.
        connector: name of the connector.
        version: the connector's version.
        why: why that connector takes it.
        members: member name → where its bytes lie.
        bytes: size of its own members as stored; not of those that it shares with other logs.
        stamp: sizes and times of change of the members, to notice that a raw file changed between runs.
        licence: that the card of its data set states, if it is of one.
        file_slice: of the rows of its file that are read; None where all are. Slices of a file share its uri.
        sha256: of a large file, decompressed, whose rows could be read apart.
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
        """The offset that its slice begins at; 0 of a log that is read whole."""
        return self.file_slice.begin if self.file_slice is not None else 0

    @property
    def name(self) -> str:
        """Its uri, and for a slice behind the first, where that begins: unlike that of any other input."""
        return f"{self.uri}\n{self.begin}" if self.begin else self.uri


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that was opened and is no log by itself.

    Attributes:
        place: where it lies.
        stamp: its size and time of change.
        inputs: how many logs it holds.
    """

    place: Place
    stamp: str
    inputs: int


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A connector that was not asked further about a file, because it failed: its bug, to be reported.

    Attributes:
        connector: its name.
        uri: of the file.
        error: class of the exception; its message may hold what the file holds, and is left out.
        raised_at: module, function and line where it was raised.
    """

    connector: str
    uri: str
    error: str
    raised_at: str


@dataclass(slots=True)
class Recognized:
    """What the files are.

    Attributes:
        inputs: the logs.
        rejects: a reject for each file, or member of an archive, that is of no log.
        withdrawn: connectors that failed, and at what.
        claimed: connector → how many files belong to its logs and are not read.
        opened: files that were opened and are no log by themselves: archives, and what no connector recognizes.
    """

    inputs: list[Input] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    withdrawn: list[Withdrawn] = field(default_factory=list)
    claimed: Counter[str] = field(default_factory=Counter)
    opened: list[Opened] = field(default_factory=list)

    def take(self, other: Recognized) -> None:
        """Adds what other files are."""
        self.inputs += other.inputs
        self.rejects += other.rejects
        self.withdrawn += other.withdrawn
        self.claimed += other.claimed


@dataclass(slots=True)
class PlanCounts:
    """How far planning has come.

    Attributes:
        files: that have to be looked into.
        told: of them, those of which it is known what they are.
    """

    files: int = 0
    told: int = 0

    def add(self, told: int) -> None:
        """So many files more are told."""
        self.told += told


@dataclass(frozen=True, slots=True)
class Recognizer:
    """Tells what files are.

    Attributes:
        among: the connectors asked, by name.
        limit: bytes that an archive or a member of it may have.
        salt: of the placeholders in excerpts of what is not recognized.
        mapped: why a file, by its beginning, is a table whose columns the recipe maps; None if it is not one.
        strict: whether an exception of a connector is raised instead of noted.
        workers: processes that sniff many files.
        known: what a file was found to be by itself, and still is; None if that is not known.
        counts: how many files were found and told, for who waits.
        at_hand: the file in which a process names the one that it looks into.
        isolated: whether no file is looked into in this process, since one died over a file.
        deadly: name → detail of the files that end the process which looks into them; they are rejected unread.
        formats: glob → the connector that reads the files of such names, in the order in which globs are tried.
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
        """As `recognize_once`, until no process dies over it.

        Args:
            files: sorted by name.
            deaths: of the run.
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
        """The inputs among the files, and a reject for each file that is of none, sorted by uri.

        Logs of several files are joined first, by the connectors' `join`; every other file is sniffed alone. A zip file
        may be a log itself; else an archive is looked into, and so is one within it. What a recognized log claims is
        neither input nor reject.

        Args:
            files: sorted by name.
            depth: how many archives deep the files lie.
        """
        found = Recognized()
        for file in files:
            if file.fault:
                found.rejects.append(Reject("input", file.fault, NOT_OPENED[file.fault], file.name))
        names = RawNames([file for file in files if not file.fault])
        owners, shared, claims = self._joined(names, found)
        left = [name for name in names.files if name not in owners and name not in shared and name not in claims]
        before = {name: self.known(names.files[name]) for name in left} if self.known is not None else {}
        alone = {name: one for name, one in before.items() if one is not None}
        asked = dict.fromkeys(name for name in left if name not in alone)
        counts = self.counts if self.counts is not None and depth == 0 else PlanCounts()
        counts.files += len(asked)
        told = self._each(Recognizer.alone, [(names.files[name], depth) for name in asked], counts.add)
        alone |= zip(asked, told, strict=True)
        alone = {name: alone[name] for name in left}
        for name, beside in _beside(names, alone).items():
            if name in alone:
                del alone[name]
                claims[name] = beside
        for connector in joining(self.among, names.stored):
            if connector.asked_by is not None:
                self._answered(connector, names, owners, found, alone, claims)
        for name, one in alone.items():
            found.take(one)
            if name not in asked:
                found.opened += one.opened
            elif (opened := _opened(names.files[name], one)) is not None:
                found.opened.append(opened)
        found.claimed.update(claims.values())
        found.inputs = [replace(one, why=_scrubbed(one.why, self.salt)) for one in found.inputs]
        found.rejects = [_without_secrets(one, self.salt) for one in found.rejects]
        found.inputs.sort(key=lambda one: one.uri)
        found.rejects.sort(key=lambda one: one.uri)
        found.withdrawn.sort(key=lambda one: (one.uri, one.connector))
        return found

    def _each(
        self,
        method: Callable[..., Any],
        items: Sequence[tuple[Any, ...]],
        done: Callable[[int], None] = lambda _: None,
    ) -> list[Any]:
        """Call a method with the arguments of each item: here, or by workers if there are many or a process died."""
        if not self.isolated and (self.workers < 2 or len(items) < LEAST):
            results = []
            for item in items:
                results.append(method(self, *item))
                done(1)
            self.at_hand.note()
            return results
        blocks = [items[begin : begin + _AT_ONCE] for begin in range(0, len(items), _AT_ONCE)]
        # what is known is not sent to processes
        apart = _Apart(replace(self, known=None, counts=None, workers=1, isolated=False), method)
        with worker_pool(self.workers) as pool:
            return list(chain.from_iterable(pool.map(apart, blocks, lambda place: done(len(blocks[place])))))

    def _joined(self, names: RawNames, found: Recognized) -> tuple[dict[str, str], set[str], dict[str, str]]:
        """(file → connector of the joined input that it is of, files that these share, file → who claims it)."""
        owners: dict[str, str] = {}
        shared: set[str] = set()
        claims: dict[str, str] = {}
        for connector in joining(self.among, names.sorted):
            if type(connector).join is Connector.join:
                continue
            free = [plain for plain in names.sorted if names.stored[plain] not in owners]
            free = [plain for plain in free if self._chosen(plain) in (None, connector.name)]
            folders: set[str] = set()
            for log in _logs(connector, free):
                members = names.members(log)
                told = self._told_by_anchor(connector, members[log.anchor], found)
                own = {file.name for member, file in members.items() if member not in log.shared}
                if told is not None and owners.keys().isdisjoint(own):
                    uri = _uri(log, members[log.anchor])
                    found.inputs.append(_input(uri, connector, told.why, members, log.shared))
                    owners |= dict.fromkeys(own, connector.name)
                    shared.update(members[member].name for member in log.shared)
                    folders.add(_folder(log))
            for folder in folders:
                claims |= dict.fromkeys(names.companions(connector, folder), connector.name)
        claimed = {name: one for name, one in claims.items() if name not in owners and name not in shared}
        return owners, shared, claimed

    def _answered(
        self,
        connector: Connector,
        names: RawNames,
        owners: Mapping[str, str],
        found: Recognized,
        alone: dict[str, Recognized],
        claims: dict[str, str],
    ) -> None:
        """Lays records of files that were recognized alone beside the logs of other folders that answer them."""
        asking = {
            plain_name(name): one.inputs[0]
            for name, one in alone.items()
            if any(held.connector == connector.asked_by and held.uri == name for held in one.inputs)
        }
        own = sorted(
            plain for plain, name in names.stored.items() if owners.get(name, connector.name) == connector.name
        )
        [(told, withdrawn)] = self._each(Recognizer._asked, [(connector.name, own, sorted(names.stored), asking)])
        found.withdrawn += withdrawn
        joined = {one.uri: place for place, one in enumerate(found.inputs) if one.connector == connector.name}
        own_files: set[str] = set()
        for log in told.logs:
            members = names.members(log)
            place = joined.get(_uri(log, members[log.anchor]))
            if place is None and self._told_by_anchor(connector, members[log.anchor], found) is None:
                continue
            made = _input(_uri(log, members[log.anchor]), connector, _ANSWERS, members, log.shared)
            if place is None:
                found.inputs.append(made)
            else:
                found.inputs[place] = made
            own_files.update(file.name for member, file in members.items() if member not in log.shared)
            claims |= {name: connector.name for name in names.companions(connector, _folder(log)) if name in alone}
        for name in own_files:
            claims.pop(name, None)
        for path, asked in told.asked.items():
            name, held = names.stored[path], asking[path]
            members = names.members(asked.log)
            answered = {one for one in asked.log.shared if members[one].name in own_files}
            if len(answered) == asked.records:
                claims[name] = held.connector
            elif answered:
                kept = {one: file for one, file in members.items() if one in answered or one not in asked.log.shared}
                alone[name] = Recognized([_input(held.uri, connectors()[held.connector], held.why, kept, answered)])
        for name in {*own_files, *claims} & alone.keys():
            del alone[name]

    def _asked(
        self, name: str, own: Sequence[str], every: Sequence[str], asking: Mapping[str, Input]
    ) -> tuple[Answers, list[Withdrawn]]:
        """(what a connector says of which records its logs answer, what it failed at).

        Raises:
            Exception: the connector's own, if the run is strict.
        """

        connector = connectors()[name]

        def opened() -> Iterator[tuple[str, StoredBlob]]:
            for path, one in sorted(asking.items()):
                self.at_hand.note(one.uri)
                with StoredBlob(one.uri, one.members, self.limit) as blob:
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
            return Answers(), [Withdrawn(name, uri, type(error).__name__, raised_at(error, connector))]

    def _told_by_anchor(self, connector: Connector, anchor: RawFile, found: Recognized) -> Sniff | None:
        [(told, withdrawn)] = self._each(Recognizer._anchored, [(connector.name, anchor)])
        found.withdrawn += [one for one in withdrawn if one not in found.withdrawn]
        return told

    def _anchored(self, name: str, anchor: RawFile) -> tuple[Sniff | None, list[Withdrawn]]:
        if anchor.name in self.deadly:
            return None, []  # its files are then looked at one by one, and rejected for the fault
        self.at_hand.note(anchor.name)
        try:
            head = _head(anchor)
        except (ParseError, ShardError):
            return None, []  # as above
        found = Recognized()
        withdraw = self._withdraw(anchor.name, found)
        longer = partial(_head, anchor, OUTLINED_BYTES)
        plain = plain_name(anchor.name)
        told = sniff_one(connectors()[name], head, plain, withdraw, longer)
        if told is None and self._chosen(plain) == name:
            told = Sniff(1.0, _CHOSEN)
        return told, found.withdrawn

    def _chosen(self, plain: str) -> str | None:
        """The connector that the recipe names for a file, by its name without the ending of compression."""
        for glob, name in self.formats.items():
            if fnmatch.fnmatchcase(plain, glob) or fnmatch.fnmatchcase(plain, glob.removeprefix("**/")):
                return name
        return None

    def alone(self, file: RawFile, depth: int = 0) -> Recognized:
        """What a file is by itself, or the files in it are."""
        found, name = Recognized(), file.name
        if name in self.deadly:
            found.rejects.append(Reject("input", WORKER_DIED, self.deadly[name], name))
            return found
        self.at_hand.note(name)
        try:
            head = _head(file)
        except (ParseError, ShardError) as error:
            found.rejects.append(_unread(error, file))
            return found
        packed, chosen = kind_of(head), self._chosen(plain_name(name))
        is_asked = self.mapped is not None and chosen is None and head and not packed
        why = self.mapped(name, file.place, head) if self.mapped is not None and is_asked else None
        if why is not None:
            found.inputs.append(_input(name, connectors()[TABLE], why, {"": file}))
            return found
        takers = []
        if head and packed != "tar":
            among = self.among.values() if chosen is None else [connectors()[chosen]]
            longer = partial(_head, file, OUTLINED_BYTES)
            takers = sniff(head, plain_name(name), among, self._withdraw(name, found), longer)
            if chosen is not None and not takers and not packed:
                takers = [(connectors()[chosen], Sniff(1.0, _CHOSEN))]
        if takers:
            connector, told = takers[0]
            found.inputs.append(_input(name, connector, told.why, {"": file}))
        elif depth <= NESTING and packed:
            within, faults = _members(file, self.limit)
            found.take(replace(self, workers=1).recognize_once(within, depth + 1))
            found.rejects += faults
        else:
            reason, detail = _unrecognized(head)
            excerpt = head[:_EXCERPT_BYTES].decode("utf-8", "replace")
            found.rejects.append(Reject("input", reason, detail, name, offset=0, excerpt=excerpt))
        return found

    def _withdraw(self, uri: str, found: Recognized) -> Callable[[Connector, Exception], None] | None:
        def note(connector: Connector, error: Exception) -> None:
            told = Withdrawn(connector.name, uri, type(error).__name__, raised_at(error, connector))
            if told not in found.withdrawn:  # it may be asked about the head and about the outline
                found.withdrawn.append(told)

        return None if self.strict else note


@dataclass(frozen=True, slots=True)
class _Apart:
    """A method of a recognizer for blocks of items, in another process."""

    recognizer: Recognizer
    method: Callable[..., Any]

    def __call__(self, block: Sequence[tuple[Any, ...]]) -> list[Any]:
        with self.recognizer.at_hand:
            return [self.method(self.recognizer, *item) for item in block]


def _opened(file: RawFile, found: Recognized) -> Opened | None:
    """What is to be known of a file that was opened; None if it is a log, or may be told otherwise another time."""
    fleeting = found.withdrawn or any(one.reason == _UNREADABLE for one in found.rejects)
    if fleeting or any(one.uri == file.name for one in found.inputs):
        return None
    return Opened(file.place, stamp_of({"": file}), len(found.inputs))


def _folder(log: Log) -> str:
    """The folder that the names of a log's members are relative to, with `/` at its end."""
    return log.members[log.anchor].removesuffix(log.anchor)


def _uri(log: Log, anchor: RawFile) -> str:
    """The log's uri; of one whose folder is the root itself, the root's own name, or that of its anchor."""
    return log.uri or root_name(anchor.root) or plain_name(anchor.name)


def _logs(connector: Connector, names: Sequence[str]) -> Iterator[Log]:
    try:
        yield from connector.join(names)
    except Exception as error:
        error.add_note(f"while connector '{connector.name}' was joining files to logs")
        raise


def _beside(names: RawNames, alone: Mapping[str, Recognized]) -> dict[str, str]:
    """The files that belong to logs of one file → connector; what has files of its own belongs to no other."""
    known = connectors()
    claims: dict[str, str] = {}
    claiming: set[str] = set()
    for name, found in alone.items():
        for one in found.inputs:
            if one.uri == name:
                folder = name[: name.rfind("/") + 1]
                theirs = [other for other in names.companions(known[one.connector], folder) if other != name]
                claims |= dict.fromkeys(theirs, one.connector)
                claiming |= {name} if theirs else set()
    return {name: connector for name, connector in claims.items() if name not in claiming}


def _without_secrets(reject: Reject, salt: str) -> Reject:
    return replace(reject, detail=_scrubbed(reject.detail, salt), excerpt=_scrubbed(reject.excerpt, salt))


@lru_cache(maxsize=1024)
def _scrubbed(text: str, salt: str) -> str:
    return scrub_text(text, salt=salt) if text else text


def _head(file: RawFile, size: int = HEAD_BYTES) -> bytes:
    return StoredBlob(file.name, {"": file.place}, sys.maxsize).head("", size)


def _unread(error: ParseError | ShardError, file: RawFile) -> Reject:
    """The reject of a file whose beginning cannot be read.

    Raises:
        ShardError: what failed is the storage, not the file.
    """
    if isinstance(error, ParseError):
        return replace(Reject.of(error, "input"), uri=file.name, member="")
    if isinstance(error.__cause__, FileNotFoundError | PermissionError):
        return Reject("input", _UNREADABLE, NOT_OPENED[_UNREADABLE], file.name)
    raise error


def _input(
    uri: str,
    connector: Connector,
    why: str,
    members: Mapping[str, RawFile],
    shared: Set[str] = frozenset(),
) -> Input:
    places = {member: file.place for member, file in sorted(members.items())}
    size = sum(file.bytes for member, file in members.items() if member not in shared)
    licence = next((file.licence for file in members.values()), None)
    return Input(uri, connector.name, connector.version, why, places, size, stamp_of(members), licence)


def stamp_of(members: Mapping[str, RawFile]) -> str:
    """By which it is noticed that a log's files changed: the digest of their names, sizes and times of change."""
    told = [[member, file.bytes, file.changed] for member, file in sorted(members.items())]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _members(file: RawFile, limit: int) -> tuple[list[RawFile], list[Reject]]:
    """The files that an archive holds, named below it, and a reject for each that is not to be read."""
    found: list[RawFile] = []
    rejects: list[Reject] = []
    try:
        for one in opened_archive(file.place, limit).members():
            if isinstance(one, Reject):
                uri = f"{file.name}/{one.member}" if one.member else file.name
                rejects.append(replace(one, uri=uri, member=""))
            elif JUNK.isdisjoint(one.name.split("/")):
                name = f"{file.name}/{text_of(one.name)}"
                place = file.place.member(one.name)
                found.append(RawFile(name, place, one.bytes, file.changed, file.licence, touched=file.touched))
    except ParseError as error:
        rejects.append(replace(Reject.of(error, "input"), uri=file.name))
    return found, rejects


def _unrecognized(head: bytes) -> tuple[str, str]:
    """(reason, detail) for a file that no connector takes, by its decompressed head."""
    if not head:
        return "empty", "the file holds nothing"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or _WIDE.match(head):
        return "not_utf8", "the file is UTF-16; logs are read as UTF-8"
    return "unrecognized", "no connector recognizes it"
