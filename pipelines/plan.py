"""The plan: which connector reads which of the raw files, and which part each input belongs to.

Made before anything is parsed, from names, sizes and the first bytes of files (see `raw`). It depends on the files
found and on the recipe, never on the order in which they were named or listed. Nothing of a log's content is judged
here.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from connectors.connector import HEAD_BYTES, Connector
from connectors.registry import connectors, sniff, sniff_one
from pipelines.containers import MARK, NESTING, kind_of
from pipelines.mapped import TABLE, Mapped
from pipelines.raw import JUNK, RawFile, gather
from pipelines.recipe import Recipe
from pipelines.storage import COMPRESSIONS, Folder, StoredBlob, opened_archive
from schemas import SCHEMA_VERSION, ParseError, Reject

PART_BYTES: Final = 256 << 20
"""Decompressed bytes of raw input, estimated from file sizes, that one part holds."""

PART_INPUTS: Final = 20_000

_FAULTS: Final = {
    "outside_root": "links lead out of the folder that was named; only what lies in it is read",
    "not_a_file": "it is a pipe, a device, or a link to a folder or to nothing",
}

_PICKLE: Final = re.compile(rb"\x80[\x02-\x05][\x95cq}\]\(KJX\x8c\x8a]", re.DOTALL)
"""How pickles of protocols 2 to 5 begin: the protocol, then a frame, a global, a container or a plain value."""

_PICKLES: Final = (".pkl", ".pickle", ".pt", ".joblib")
_WIDE: Final = re.compile(rb"(?:[\t\n\r -~]\0){8}|(?:\0[\t\n\r -~]){8}")
"""UTF-16 text without a byte order mark."""

_EXPANSION: Final = 8
"""By how much compressed logs grow, for sizing parts only."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input: a log of one or several files, and who reads it.

    Attributes:
        uri: relative to the raw root; unique in a plan.
        connector: name of the connector.
        version: the connector's version.
        why: why that connector takes it.
        members: member name → full path.
        bytes: size of all members as stored.
        stamp: sizes and times of change of the members, to notice that a raw file changed between runs.
        licence: that the card of its data set states, if it is of one.
    """

    uri: str
    connector: str
    version: str
    why: str
    members: dict[str, str]
    bytes: int
    stamp: str
    licence: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The unit of work: inputs that are normalized together, in order of uri."""

    number: int
    digest: str
    inputs: tuple[Input, ...]

    @property
    def name(self) -> str:
        """The part's name, the same for the same inputs under the same recipe: `part-00000-1a2b3c4d`."""
        return f"part-{self.number:05d}-{self.digest[:8]}"

    @property
    def bytes(self) -> int:
        """Bytes of all inputs as stored."""
        return sum(one.bytes for one in self.inputs)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run works on: parts to normalize, and what nothing recognized."""

    digest: str
    parts: tuple[Part, ...]
    unrecognized: tuple[Reject, ...]

    @property
    def inputs(self) -> list[Input]:
        """Every recognized input, in order of part and uri."""
        return [one for part in self.parts for one in part.inputs]

    def to_json(self) -> bytes:
        """The plan as JSON."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Plan:
        """The plan that `to_json` wrote."""
        values: dict[str, Any] = json.loads(data)
        parts = tuple(
            Part(part["number"], part["digest"], tuple(Input(**one) for one in part["inputs"]))
            for part in values["parts"]
        )
        return cls(values["digest"], parts, tuple(Reject(**one) for one in values["unrecognized"]))


def _head(uri: str, path: str) -> bytes:
    return StoredBlob(uri, {"": path}, sys.maxsize).head("", HEAD_BYTES)


def _plain_name(name: str) -> str:
    return next((name.removesuffix(ending) for ending in COMPRESSIONS if name.endswith(ending)), name)


def _joined(
    files: Mapping[str, RawFile], among: Sequence[Connector], head: Callable[[str, str], bytes]
) -> tuple[list[Input], set[str]]:
    """Inputs of several files, and the names of the files that are theirs."""
    inputs: list[Input] = []
    taken: set[str] = set()
    shared: set[str] = set()
    stored = {_plain_name(name): name for name in files}
    for connector in among:
        names = sorted(plain for plain, name in stored.items() if name not in taken)
        for log in connector.join(names):
            members = {member: files[stored[plain]] for member, plain in log.members.items()}
            anchor = members[log.anchor]
            try:
                told = sniff_one(connector, head(anchor.name, anchor.path), _plain_name(anchor.name))
            except ParseError:
                continue  # its files are then looked at one by one, and rejected for the fault
            own = {file.name for member, file in members.items() if member not in log.shared}
            if told is not None and taken.isdisjoint(own):
                inputs.append(_input(log.uri, connector, told.why, members))
                taken |= own
                shared.update(members[member].name for member in log.shared)
    return inputs, taken | shared


def _input(uri: str, connector: Connector, why: str, members: Mapping[str, RawFile]) -> Input:
    stamp = hashlib.sha256(json.dumps([[m, f.bytes, f.changed] for m, f in sorted(members.items())]).encode())
    paths = {member: file.path for member, file in sorted(members.items())}
    size = sum(file.bytes for file in members.values())
    licence = next((file.licence for file in members.values()), None)
    return Input(uri, connector.name, connector.version, why, paths, size, stamp.hexdigest(), licence)


def recognize(
    files: Sequence[RawFile],
    among: Sequence[Connector],
    limit: int,
    depth: int = 0,
    mapped: Callable[[str, str, bytes], str | None] | None = None,
) -> tuple[list[Input], list[Reject]]:
    """The inputs among the files, sorted by uri, and a reject for each file that nothing recognizes.

    Logs of several files are joined first, by the connectors' `join`; every other file is sniffed alone. A zip file may
    be a log itself; else an archive is looked into, and so is one within it.

    Args:
        files: sorted by name.
        among: the connectors asked.
        limit: bytes that an archive or a member of it may have.
        depth: how many archives deep the files lie.
        mapped: why a file, by its beginning, is a table whose columns the recipe maps; None if it is not one.
    """
    by_name = {file.name: file for file in files if not file.fault}
    inputs, taken = _joined(by_name, among, _head)
    rejects = [Reject("input", file.fault, _FAULTS[file.fault], file.name) for file in files if file.fault]
    for name, file in by_name.items():
        if name in taken:
            continue
        try:
            head = _head(name, file.path)
        except ParseError as error:
            rejects.append(replace(Reject.of(error, "input"), uri=name, member=""))
            continue
        packed = kind_of(head)
        why = mapped(name, file.path, head) if mapped is not None and head and not packed else None
        if why is not None:
            inputs.append(_input(name, connectors()[TABLE], why, {"": file}))
            continue
        found = sniff(head, _plain_name(name), among) if head and packed != "tar" else []
        if found:
            connector, told = found[0]
            inputs.append(_input(name, connector, told.why, {"": file}))
        elif depth <= NESTING and packed:
            within, faults = _members(file, limit)
            more, unrecognized = recognize(within, among, limit, depth + 1, mapped)
            inputs += more
            rejects += [*faults, *unrecognized]
        else:
            reason, detail = _unrecognized(head, _plain_name(name))
            excerpt = head[:512].decode("utf-8", "replace")
            rejects.append(Reject("input", reason, detail, name, offset=0, excerpt=excerpt))
    return sorted(inputs, key=lambda one: one.uri), sorted(rejects, key=lambda one: one.uri)


def _members(file: RawFile, limit: int) -> tuple[list[RawFile], list[Reject]]:
    """The files that an archive holds, named below it, and a reject for each that is not to be read."""
    found: list[RawFile] = []
    rejects: list[Reject] = []
    try:
        for one in opened_archive(file.path, limit).members():
            if isinstance(one, Reject):
                uri = f"{file.name}/{one.member}" if one.member else file.name
                rejects.append(replace(one, uri=uri, member=""))
            elif JUNK.isdisjoint(one.name.split("/")):
                found.append(
                    RawFile(
                        f"{file.name}/{one.name}",
                        f"{file.path}{MARK}{one.name}",
                        one.bytes,
                        file.changed,
                        file.licence,
                    )
                )
    except ParseError as error:
        rejects.append(replace(Reject.of(error, "input"), uri=file.name))
    return found, rejects


def _unrecognized(head: bytes, name: str) -> tuple[str, str]:
    """(reason, detail) for a file that no connector takes; its decompressed head and its name without compression."""
    if not head:
        return "empty", "the file holds nothing"
    if _PICKLE.match(head) or name.endswith(_PICKLES):
        return "pickle", "a pickle runs code when it is loaded, and is never opened"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or _WIDE.match(head):
        return "not_utf8", "the file is UTF-16; logs are read as UTF-8"
    return "unrecognized", "no connector recognizes it"


def _weight(one: Input) -> int:
    grows = any(path.endswith(COMPRESSIONS) for path in one.members.values())
    return one.bytes * (_EXPANSION if grows else 1)


def binned(inputs: Iterable[Input], recipe: Recipe, part_bytes: int = PART_BYTES) -> list[Part]:
    """The inputs in parts of about `part_bytes`, in order; an input is never split."""
    bins: list[list[Input]] = []
    size = 0
    for one in inputs:
        if not bins or size + _weight(one) > part_bytes or len(bins[-1]) >= PART_INPUTS:
            bins.append([])
            size = 0
        bins[-1].append(one)
        size += _weight(one)
    return [Part(number, _part_digest(recipe, content), tuple(content)) for number, content in enumerate(bins)]


def _part_digest(recipe: Recipe, inputs: Sequence[Input]) -> str:
    """Of everything that a part's output depends on, but for the inputs' bytes, which `stamp` stands for."""
    settings = [recipe.digest("name", "source", "licence", "domains"), recipe.reading_digest()]
    content = [SCHEMA_VERSION, settings, [_identity(one) for one in inputs]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _identity(one: Input) -> list[str | int]:
    licence = [] if one.licence is None else [one.licence]
    return [one.uri, one.connector, one.version, one.bytes, *licence]


def make_plan(
    recipe: Recipe,
    raws: Sequence[str],
    part_bytes: int = PART_BYTES,
    limit: int | None = None,
    out: Folder | None = None,
) -> Plan:
    """The plan of a run.

    Args:
        recipe: names the connectors that are looked for.
        raws: files, folders or globs.
        part_bytes: decompressed bytes that a part holds.
        limit: take only this many inputs, the first by uri.
        out: the run's folder; what lies in it is no input, even where it lies within a raw folder.

    Raises:
        ConfigError: a raw argument names nothing, or a column that the recipe names is not there.
    """
    known = connectors()
    among = [known[name] for name in recipe.normalize.connectors or known]
    inside = f"{out.path()}/" if out is not None else None
    dataset, limit_bytes = recipe.normalize.dataset, recipe.normalize.max_member_bytes
    files = [file for file in gather(raws, dataset) if inside is None or not file.path.startswith(inside)]
    inputs, unrecognized = recognize(files, among, limit_bytes, mapped=Mapped(recipe) if dataset.layout else None)
    chosen = inputs[:limit]
    parts = binned(chosen, recipe, part_bytes)
    content = [[part.name, [one.stamp for one in part.inputs]] for part in parts]
    digest = hashlib.sha256(json.dumps([content, [r.uri for r in unrecognized]]).encode()).hexdigest()
    return Plan(digest, tuple(parts), tuple(unrecognized))
