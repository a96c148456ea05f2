"""The plan: the connector of each raw file, and the part of each input.

It is made before anything is parsed, from names, sizes and the first bytes of files (see `raw_files` and
`recognition`). It depends on the files and on the recipe, never on the order in which they were named or listed. The
content of logs is not judged here.
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
from trajmill.pipelines.plan.file_slices import slice_inputs
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

__all__ = ["UNRECOGNIZED_REASONS", "Input", "Part", "Plan", "Withdrawn", "make_plan"]

PART_INPUTS: Final = 20_000

PART_BYTES: Final = 256 << 20
"""Decompressed bytes of raw input in one part of a large corpus, estimated from file sizes."""

LEAST_PART_BYTES: Final = 16 << 20
_PARTS: Final = 8
"""Least number of parts of a small corpus, so that several workers share it."""

_EXPANSION: Final = 8
"""Assumed ratio of decompressed to compressed logs, for sizing parts only."""


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
        return sum(source.bytes for source in self.inputs)


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a run: parts to normalize, and the files that are no inputs.

    Attributes:
        digest: digest of everything that the run's output depends on.
        unrecognized: rejects of files that are no inputs, with a reason of `recognition.UNRECOGNIZED_REASONS`, or that
            could not be read. Their excerpts are scrubbed.
        withdrawn: connectors that failed on a file because of a bug.
        claimed: by connector, the number of files that belong to its logs and are not read; neither inputs nor rejects.
        passages: files of other corpora that are passed through (`mix.passages`), once they are known; not in parts.
        opened: files that are no logs by themselves, so that they are not opened again; empty if a limit left inputs
            out.
        asked: digest of the connectors that were tried and their settings.
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
        """Every recognized input, in order of uri. The slices of an input count as one."""
        by_uri: dict[str, Input] = {}
        for source in (source for part in self.parts for source in part.inputs):
            if source.file_slice is not None:
                size = source.bytes + (by_uri[source.uri].bytes if source.begin else 0)
                by_uri[source.uri] = replace(source, bytes=size, file_slice=None)
            else:
                by_uri[source.uri] = source
        return list(by_uri.values())

    def to_json(self) -> bytes:
        """Serialize the plan as JSON. A member is the list of its path and, in archives, of the names leading to it."""
        values = asdict(self)
        passages = values.pop("passages")
        if passages:
            values["passages"] = passages
        del values["opened"]
        if self.opened:
            values["opened"] = [[archive.place.to_json(), archive.stamp, archive.inputs] for archive in self.opened]
        listed = [(written["inputs"], part.inputs) for written, part in zip(values["parts"], self.parts, strict=True)]
        for written, inputs in [*listed, (passages, self.passages)]:
            for shown, source in zip(written, inputs, strict=True):
                shown["members"] = {member: location.to_json() for member, location in source.members.items()}
        return json.dumps(values, indent=1, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Plan:
        """Parse the plan that `to_json` wrote."""
        values: dict[str, Any] = json.loads(data)
        parts = tuple(
            Part(part["number"], part["digest"], tuple(_input_of(item) for item in part["inputs"]))
            for part in values["parts"]
        )
        rejects = tuple(Reject(**item) for item in values["unrecognized"])
        withdrawn = tuple(Withdrawn(**item) for item in values["withdrawn"])
        passages = tuple(_input_of(item) for item in values.get("passages", ()))
        opened = tuple(Opened(Place.from_json(item), *more) for item, *more in values.get("opened", ()))
        other_values = values["claimed"], passages, opened, values.get("asked", "")
        return cls(values["digest"], parts, rejects, withdrawn, *other_values)


def _input_of(values: dict[str, Any]) -> Input:
    members = {name: Place.from_json(location) for name, location in values["members"].items()}
    file_slice = FileSlice(**values["file_slice"]) if values.get("file_slice") else None
    return Input(**values | {"members": members, "file_slice": file_slice})


def _weight(source: Input) -> int:
    grows = any(location.name.endswith(COMPRESSIONS) for location in source.members.values())
    return source.bytes * (_EXPANSION if grows else 1)


def part_bytes_of(inputs: Iterable[Input]) -> int:
    """Return the default number of decompressed bytes in a part of these inputs.

    It depends only on their total size, and is a power of two, so that one more log mostly leaves earlier parts
    unchanged.
    """
    share = sum(map(_weight, inputs)) // _PARTS
    return min(PART_BYTES, max(LEAST_PART_BYTES, 1 << share.bit_length() >> 1))


def bin_inputs(inputs: Sequence[Input], recipe: Recipe, part_bytes: int | None = None) -> list[Part]:
    """Bin the inputs, or slices of them, into parts of about `part_bytes`, in order."""
    part_bytes = part_bytes_of(inputs) if part_bytes is None else part_bytes
    bins: list[list[Input]] = []
    size = 0
    for source in inputs:
        if not bins or size + _weight(source) > part_bytes or len(bins[-1]) >= PART_INPUTS:
            bins.append([])
            size = 0
        bins[-1].append(source)
        size += _weight(source)
    return [Part(number, _part_digest(recipe, content), tuple(content)) for number, content in enumerate(bins)]


def make_uris_distinct(inputs: Iterable[Input]) -> list[Input]:
    """Give each input a distinct uri, and sort by it. Keys of rows depend on uris.

    Inputs share a uri if two formats join files of one folder, or if a folder has the name of an archive. The first by
    depth in archives, connector and members keeps the uri. Each further one gets a number before it, like the files of
    several roots, so that its last names stay unchanged, which some formats use as the log's own.
    """
    ranked = sorted(
        inputs, key=lambda source: (source.uri, _depth(source), source.connector, *sorted(source.members.items()))
    )
    used = {source.uri for source in ranked}
    distinct: list[Input] = []
    for _, sharing in groupby(ranked, key=lambda source: source.uri):
        first, *namesakes = sharing
        distinct.append(first)
        for source in namesakes:
            free = next(uri for number in count(2) if (uri := f"{number}/{source.uri}") not in used)
            used.add(free)
            distinct.append(replace(source, uri=free))
    return sorted(distinct, key=lambda source: source.uri)


def _depth(source: Input) -> int:
    return max(len(location.within) for location in source.members.values())


def _part_digest(recipe: Recipe, inputs: Sequence[Input]) -> str:
    """Digest everything that a part's output depends on, except the inputs' bytes, which `stamp` stands for."""
    settings = [recipe.digest("name", "source", "licence", "domains"), recipe.reading_digest()]
    content = [SCHEMA_VERSION, settings, [_identity(source) for source in inputs]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _identity(source: Input) -> list[str | int]:
    licence = [] if source.licence is None else [source.licence]
    return [
        source.uri,
        source.connector,
        source.version,
        source.bytes,
        *licence,
        *([source.begin] if source.file_slice is not None else []),
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
    """Plan a run: gather raw files, recognize them, and bin them into parts.

    Args:
        part_bytes: decompressed bytes in a part; None chooses by the size of the inputs.
        limit: largest number of inputs, the first by uri.
        strict: raise the exception of a connector that fails at a file instead of noting it in `Plan.withdrawn`.
        is_known: function that tells whether an earlier generation read an input, which is then left out.
        workers: processes that sniff files if there are many.
        found_before: results of earlier plans; files that have not changed since are not opened again.
        counts: counts that are updated for the display of progress.
        deaths: deaths of workers in the run; a file over which a process died becomes a reject.

    Raises:
        ConfigError: a raw argument names nothing, or a column that the recipe names is missing.
    """
    known: Mapping[str, Connector] = connectors()
    settings = recipe.normalize
    among = {name: known[name] for name in settings.sought} or known
    mapped = ColumnMapping(recipe) if settings.dataset.layout else None
    salt = settings.scrub_salt or ""
    asked = recognition_digest(recipe)
    more = strict, workers, None if found_before is None else found_before.among(asked), counts
    recognizer = Recognizer(among, settings.max_member_bytes, salt, mapped, *more, formats=settings.formats)
    recognized = recognizer.recognize(gather(raws, settings.dataset), deaths or Deaths())
    inputs = [source for source in make_uris_distinct(recognized.inputs) if is_known is None or not is_known(source)]
    parts = bin_inputs(slice_inputs(inputs[:limit], recipe, workers, strict=strict), recipe, part_bytes)
    content = [[part.name, [source.stamp for source in part.inputs]] for part in parts]
    digest = hashlib.sha256(json.dumps([content, [source.uri for source in recognized.rejects]]).encode()).hexdigest()
    claimed = dict(sorted(recognized.claimed.items()))
    opened = tuple(recognized.opened) if limit is None or len(inputs) <= limit else ()
    findings = tuple(recognized.rejects), tuple(recognized.withdrawn), claimed
    return Plan(digest, tuple(parts), *findings, opened=opened, asked=asked)


def recognition_digest(recipe: Recipe) -> str:
    """Digest the settings that, besides the file, decide its recognition: the connectors that are tried, and how."""
    known: Mapping[str, Connector] = connectors()
    settings = recipe.normalize
    among = [[name, version_of(name, known)] for name in settings.sought or known]
    values = [among, [*settings.formats.items()], settings.max_member_bytes, settings.dataset.model_dump(mode="json")]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


class FoundBefore(Protocol):
    """Results of earlier plans on files."""

    def among(self, asked: str) -> Callable[[RawFile], Recognized | None]:
        """Return a function that looks up the recognition of a single file; None for an unknown file.

        Args:
            asked: digest of the settings under which the file must have been recognized.
        """
