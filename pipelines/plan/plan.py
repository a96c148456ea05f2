"""The plan: which connector reads which of the raw files, and which part each input belongs to.

Made before anything is parsed, from names, sizes and the first bytes of files (see `raw_files` and `recognition`). It
depends on the files found and on the recipe, never on the order in which they were named or listed. Nothing of a log's
content is judged here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count, groupby
from typing import Any, Final, Protocol

from trajmill.connectors.connector import Connector, FileSlice
from trajmill.connectors.registry import connectors, version_of
from trajmill.pipelines.execution.dying_inputs import Deaths
from trajmill.pipelines.plan.column_mapping import ColumnMapping
from trajmill.pipelines.plan.file_slices import sliced
from trajmill.pipelines.plan.raw_files import RawFile, gather
from trajmill.pipelines.plan.recognition import (
    UNRECOGNIZED_REASONS,
    Input,
    Opened,
    PlanCounts,
    Recognized,
    Recognizer,
    Withdrawn,
)
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.compression import COMPRESSIONS
from trajmill.pipelines.storage.paths import Place
from trajmill.schemas import SCHEMA_VERSION, Reject

__all__ = [
    "UNRECOGNIZED_REASONS",
    "Input",
    "Part",
    "Plan",
    "Withdrawn",
    "binned",
    "make_plan",
    "told_apart",
]

PART_INPUTS: Final = 20_000

PART_BYTES: Final = 256 << 20
"""Decompressed bytes of raw input, estimated from file sizes, that one part holds in a large corpus."""

LEAST_PART_BYTES: Final = 16 << 20
_PARTS: Final = 8
"""Into how many parts a small corpus is cut at least, so that several workers share it."""

_EXPANSION: Final = 8
"""By how much compressed logs grow, for sizing parts only."""


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
    """What a run works on: parts to normalize, and what else was found.

    Attributes:
        digest: of all that the run's output depends on.
        parts: the inputs.
        unrecognized: files that are no input; of `recognition.UNRECOGNIZED_REASONS`, or such as could not be read.
            Their excerpts are scrubbed.
        withdrawn: connectors that failed when they were asked about a file: bugs of theirs.
        claimed: connector → how many files belong to its logs and are not read; neither inputs nor rejects.
        passages: files of other corpora that are passed through (`mix.passages`), once they are known; not in parts.
        opened: files that are no log by themselves, so that they are not opened again; empty where not all was taken.
        asked: digest of the connectors that were asked, and of how.
    """

    digest: str
    parts: tuple[Part, ...]
    unrecognized: tuple[Reject, ...]
    withdrawn: tuple[Withdrawn, ...] = ()
    claimed: dict[str, int] = field(default_factory=dict)
    passages: tuple[Input, ...] = ()
    opened: tuple[Opened, ...] = ()
    asked: str = ""

    @property
    def inputs(self) -> list[Input]:
        """Every recognized input, in order of uri; what parts hold in slices is one."""
        found: dict[str, Input] = {}
        for one in (one for part in self.parts for one in part.inputs):
            if one.file_slice is not None:
                size = one.bytes + (found[one.uri].bytes if one.begin else 0)
                found[one.uri] = replace(one, bytes=size, file_slice=None)
            else:
                found[one.uri] = one
        return list(found.values())

    def to_json(self) -> bytes:
        """The plan as JSON; a member is the list of its path and, in archives, of names on the way to it."""
        values = asdict(self)
        passages = values.pop("passages")
        if passages:
            values["passages"] = passages
        del values["opened"]
        if self.opened:
            values["opened"] = [[one.place.to_json(), one.stamp, one.inputs] for one in self.opened]
        listed = [(written["inputs"], part.inputs) for written, part in zip(values["parts"], self.parts, strict=True)]
        for written, inputs in [*listed, (passages, self.passages)]:
            for shown, one in zip(written, inputs, strict=True):
                shown["members"] = {member: place.to_json() for member, place in one.members.items()}
        return json.dumps(values, indent=1, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Plan:
        """The plan that `to_json` wrote."""
        values: dict[str, Any] = json.loads(data)
        parts = tuple(
            Part(part["number"], part["digest"], tuple(_input_of(one) for one in part["inputs"]))
            for part in values["parts"]
        )
        rejects = tuple(Reject(**one) for one in values["unrecognized"])
        withdrawn = tuple(Withdrawn(**one) for one in values["withdrawn"])
        passages = tuple(_input_of(one) for one in values.get("passages", ()))
        opened = tuple(Opened(Place.from_json(one), *more) for one, *more in values.get("opened", ()))
        told = values["claimed"], passages, opened, values.get("asked", "")
        return cls(values["digest"], parts, rejects, withdrawn, *told)


def _input_of(values: dict[str, Any]) -> Input:
    members = {name: Place.from_json(one) for name, one in values["members"].items()}
    file_slice = FileSlice(**values["file_slice"]) if values.get("file_slice") else None
    return Input(**values | {"members": members, "file_slice": file_slice})


def _weight(one: Input) -> int:
    grows = any(place.name.endswith(COMPRESSIONS) for place in one.members.values())
    return one.bytes * (_EXPANSION if grows else 1)


def part_bytes_of(inputs: Iterable[Input]) -> int:
    """Decompressed bytes that a part of these inputs holds by default.

    It hangs on nothing but their size, and only in steps of two: a log more leaves the parts before it as they were.
    """
    share = sum(map(_weight, inputs)) // _PARTS
    return min(PART_BYTES, max(LEAST_PART_BYTES, 1 << share.bit_length() >> 1))


def binned(inputs: Sequence[Input], recipe: Recipe, part_bytes: int | None = None) -> list[Part]:
    """The inputs, or slices of them, in parts of about `part_bytes`, in order."""
    part_bytes = part_bytes_of(inputs) if part_bytes is None else part_bytes
    bins: list[list[Input]] = []
    size = 0
    for one in inputs:
        if not bins or size + _weight(one) > part_bytes or len(bins[-1]) >= PART_INPUTS:
            bins.append([])
            size = 0
        bins[-1].append(one)
        size += _weight(one)
    return [Part(number, _part_digest(recipe, content), tuple(content)) for number, content in enumerate(bins)]


def told_apart(inputs: Iterable[Input]) -> list[Input]:
    """The inputs, each under a uri of its own, sorted by it: keys of rows hang on uris.

    Inputs share a uri where two formats join files of one folder, or a folder bears the name of an archive. The first
    by depth in archives, connector and members keeps it; each further one gets a number before it, as the files of
    several roots do, so that its last names, which some formats take for the log's own, stay as they are.
    """
    ranked = sorted(inputs, key=lambda one: (one.uri, _depth(one), one.connector, *sorted(one.members.items())))
    used = {one.uri for one in ranked}
    found: list[Input] = []
    for _, sharing in groupby(ranked, key=lambda one: one.uri):
        first, *others = sharing
        found.append(first)
        for one in others:
            free = next(uri for number in count(2) if (uri := f"{number}/{one.uri}") not in used)
            used.add(free)
            found.append(replace(one, uri=free))
    return sorted(found, key=lambda one: one.uri)


def _depth(one: Input) -> int:
    return max(len(place.within) for place in one.members.values())


def _part_digest(recipe: Recipe, inputs: Sequence[Input]) -> str:
    """Of everything that a part's output depends on, but for the inputs' bytes, which `stamp` stands for."""
    settings = [recipe.digest("name", "source", "licence", "domains"), recipe.reading_digest()]
    content = [SCHEMA_VERSION, settings, [_identity(one) for one in inputs]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _identity(one: Input) -> list[str | int]:
    licence = [] if one.licence is None else [one.licence]
    return [
        one.uri,
        one.connector,
        one.version,
        one.bytes,
        *licence,
        *([one.begin] if one.file_slice is not None else []),
    ]


def make_plan(
    recipe: Recipe,
    raws: Sequence[str],
    part_bytes: int | None = None,
    limit: int | None = None,
    *,
    strict: bool = False,
    is_known: Callable[[Input], bool] | None = None,
    workers: int = 1,
    found_before: FoundBefore | None = None,
    counts: PlanCounts | None = None,
    deaths: Deaths | None = None,
) -> Plan:
    """The plan of a run.

    Args:
        recipe: names the connectors that are looked for.
        raws: files, folders or globs.
        part_bytes: decompressed bytes that a part holds; None chooses by what there is.
        limit: take only this many inputs, the first by uri.
        strict: raise the exception of a connector that fails at a file instead of noting it in `Plan.withdrawn`.
        is_known: of an input that an earlier generation read, which is left out.
        workers: processes that sniff files where there are many.
        found_before: what files were found to be by earlier plans, if they have not changed since; these are not opened
            again to tell.
        counts: filled on the way, for who shows how far it has come.
        deaths: of the run; a file over which a process died becomes a reject.

    Raises:
        ConfigError: a raw argument names nothing, or a column that the recipe names is not there.
    """
    known: Mapping[str, Connector] = connectors()
    settings = recipe.normalize
    among = {name: known[name] for name in settings.sought} or known
    mapped = ColumnMapping(recipe) if settings.dataset.layout else None
    salt = settings.scrub_salt or ""
    asked = asked_digest(recipe)
    more = strict, workers, None if found_before is None else found_before.among(asked), counts
    recognizer = Recognizer(among, settings.max_member_bytes, salt, mapped, *more, formats=settings.formats)
    found = recognizer.recognize(gather(raws, settings.dataset), deaths or Deaths())
    inputs = [one for one in told_apart(found.inputs) if is_known is None or not is_known(one)]
    parts = binned(sliced(inputs[:limit], recipe, workers, strict=strict), recipe, part_bytes)
    content = [[part.name, [one.stamp for one in part.inputs]] for part in parts]
    digest = hashlib.sha256(json.dumps([content, [one.uri for one in found.rejects]]).encode()).hexdigest()
    claimed = dict(sorted(found.claimed.items()))
    opened = tuple(found.opened) if limit is None or len(inputs) <= limit else ()
    told = tuple(found.rejects), tuple(found.withdrawn), claimed
    return Plan(digest, tuple(parts), *told, opened=opened, asked=asked)


def asked_digest(recipe: Recipe) -> str:
    """Of what decides what a file is, besides the file: the connectors that are asked, and how."""
    known: Mapping[str, Connector] = connectors()
    settings = recipe.normalize
    among = [[name, version_of(name, known)] for name in settings.sought or known]
    values = [among, [*settings.formats.items()], settings.max_member_bytes, settings.dataset.model_dump(mode="json")]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


class FoundBefore(Protocol):
    """What earlier plans found files to be."""

    def among(self, asked: str) -> Callable[[RawFile], Recognized | None]:
        """What a file is by itself, where those are asked of whom `asked` is the digest; None if it is not known."""
