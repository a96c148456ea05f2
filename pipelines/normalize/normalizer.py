"""The normalize stage: the raw logs of a part become scrubbed transitions, one file per domain, and rejects.

`normalize_part` does the work without Beam; `PartsToTransitions` wires it.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.connectors.connector import HEAD_BYTES
from trajmill.connectors.reading.attached import hand_to
from trajmill.connectors.registry import connector, sniff_one
from trajmill.pipelines.execution.dying_inputs import WORKER_DIED, InputAtHand
from trajmill.pipelines.execution.environment import program_digest
from trajmill.pipelines.execution.flow import Collection, Map, Transform
from trajmill.pipelines.execution.memory import give_back_memory
from trajmill.pipelines.normalize.attachments import Attachments
from trajmill.pipelines.normalize.connector_errors import add_note, connector_error, is_connectors
from trajmill.pipelines.normalize.forgotten_keys import TRAJECTORY, Tombstones
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.normalize.reasons import DAMAGED, NOTHING_TO_LEARN
from trajmill.pipelines.plan.plan import Input, Part
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import ROW_GROUP_BYTES, ParquetSink, write_parquet
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.pipelines.storage.units import finish_unit
from trajmill.quality.scrub import scrub, scrub_reject
from trajmill.quality.scrubbing.sensitive_values import sensitive_values
from trajmill.schemas import REJECT_SCHEMA, SCHEMA_VERSION, Assembler, Reject, reject_table
from trajmill.schemas.invariants import check
from trajmill.schemas.manifest import FileEntry, Manifest
from trajmill.schemas.row_ids import KEY, RowIds
from trajmill.schemas.transition import encode_schema

STAGE: Final = "normalize"
NO_TRANSITIONS: Final = "no_transitions"
OTHER_DOMAIN: Final = "other_domain"
_SURE: Final = 0.7
"""Score of a recognized format above which more than its shape identifies it."""

FORGOTTEN: Final = "forgotten"
_WHERE: Final = ("uri", "member", "offset", "connector")


@dataclass(frozen=True, slots=True)
class Normalizer:
    """Settings of normalizing that are the same for all parts; picklable.

    Attributes:
        rejects: folder of this stage's rejects.
        strict: whether a connector's exception ends the run instead of costing its input.
        blobs: folder of attachments; None if the recipe leaves them out.
        tombstones: tombstones of forgotten trajectories, which are dropped.
        earlier_blobs: folders of attachments of earlier generations.
        at_hand: folder of files that name the inputs being read; None if the runner handles deaths of workers.
        deadly: by name, the details of inputs that end the process which reads them; they are rejected unread.
    """

    recipe: Recipe
    transitions: Folder
    rejects: Folder
    strict: bool = False
    blobs: Folder | None = None
    tombstones: Tombstones = field(default_factory=Tombstones)
    earlier_blobs: tuple[Folder, ...] = ()
    at_hand: Path | None = None
    deadly: Mapping[str, str] = field(default_factory=dict)

    @property
    def salt(self) -> str:
        """The salt of placeholders."""
        return self.recipe.normalize.scrub_salt or ""

    def scrubbed(self, reject: Reject, sensitive: Iterable[str] = ()) -> Reject:
        """Scrub a reject, named like the transitions. The `sensitive` values of its input are hidden too."""
        return scrub_reject(reject, self.salt, self.recipe.normalize.scrub, sensitive)


@dataclass(slots=True)
class _Flow:
    """Data of a part that was read and not yet written. Attachments are written with their trajectory."""

    attachments: Attachments = field(default_factory=lambda: Attachments(None))
    assemblers: dict[str, Assembler] = field(default_factory=dict)
    row_ids: defaultdict[str, RowIds] = field(default_factory=lambda: defaultdict(RowIds))
    rejects: list[Reject] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    sensitive: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Values to hide, by trajectory, for those that have any."""
    begin: int = 0
    """Begin of the slice that is being read."""

    def begin_slice(self, begin: int) -> None:
        """Count copies within the slice only. No row of another input may be waiting."""
        self.begin = begin
        self.row_ids = defaultdict(lambda: RowIds(begin))


class _FailedError(Exception):
    """Failure of a connector in a pass, on this input, or on an unknown input of a batch."""

    def __init__(self, error: Exception, source: Input | None) -> None:
        super().__init__(error, source)
        self.error, self.one = error, source


def _take_input(source: Input, normalizer: Normalizer, flow: _Flow) -> Iterator[str]:
    """Take an input into the flow; yield a domain whenever a trajectory, or a block of one, was added."""
    recipe = normalizer.recipe
    parents: dict[str, str] = {}
    rejects: list[Reject] = []
    values: dict[str, None] = {}
    trajectories = records = transitions = elsewhere = 0
    for item, origin in read_input(source, recipe):
        if isinstance(item, Reject):
            rejects.append(replace(item, connector=source.connector))
        elif item.domain not in recipe.domains:
            detail = f"domain {item.domain} is not among the recipe's domains"
            rejects.append(Reject("trajectory", OTHER_DOMAIN, detail, source.uri, transitions=len(item.steps)))
            records_elsewhere = len({(step.member, step.offset) for step in item.steps})
            elsewhere += records_elsewhere if records_elsewhere > 1 else len(item.steps)
        else:
            assembler = flow.assemblers.setdefault(item.domain, Assembler())
            before = assembler.records
            sensitive = sensitive_values(item)
            values.update(dict.fromkeys(sensitive))
            for key in assembler.add_blocks(item, origin, parents):
                if sensitive:
                    flow.sensitive[key] = sensitive
                yield item.domain
            flow.attachments.settle(assembler.attached)
            trajectories += 1
            records += assembler.records - before
            transitions += len(item.steps)
    flow.counts["trajectories"] += trajectories
    flow.counts["transitions"] += transitions
    flow.counts["records"] += records if records > 1 else transitions
    if elsewhere:
        flow.counts[f"rejected.record.{OTHER_DOMAIN}"] += elsewhere
    flow.attachments.forget()
    _settle(source, trajectories, rejects, values, normalizer, flow)


def _settle(
    source: Input,
    trajectories: int,
    rejects: list[Reject],
    sensitive: Iterable[str],
    normalizer: Normalizer,
    flow: _Flow,
) -> None:
    """Record an input's rejects. An input without a trajectory is rejected itself.

    The reason is another domain, if that is why, else the first fault. An input that was recognized by its shape only,
    and holds no record of that format, was misrecognized; its records do not count.
    """
    said_of_rows = [reject for reject in rejects if reject.reason != NO_TRANSITIONS or reject.offset >= 0]
    if not trajectories and source.begin and not said_of_rows:  # no row begins in this slice
        rejects = []
    elif not trajectories:
        none = Reject("input", NO_TRANSITIONS, "the log holds no transition", source.uri, connector=source.connector)
        faults = [reject for reject in rejects if reject.reason != NO_TRANSITIONS] or rejects or [none]
        first = next((reject for reject in faults if reject.reason == OTHER_DOMAIN), faults[0])
        if _is_misrecognized(source, faults, normalizer.recipe.normalize.max_member_bytes):
            detail = f"{source.why}, and no record is such a one; the first: {first.reason}, {first.detail}"
            rejects, first = [], replace(first, reason="misrecognized", detail=detail)
        rejects = [reject for reject in rejects if reject is not first]
        rejects.append(replace(first, unit="input"))
    flow.counts["inputs"] += 1
    flow.counts["bytes"] += source.bytes
    for reject in rejects:
        flow.counts[f"rejected.{reject.unit}.{reject.reason}"] += 1
        flow.rejects.append(normalizer.scrubbed(reject, sensitive))


def _is_misrecognized(source: Input, rejects: Sequence[Reject], limit: int) -> bool:
    """Return True if only the shape of a file's beginning indicated its format, and every record of it was refused."""
    if len(source.members) > 1 or any(reject.reason in (*NOTHING_TO_LEARN, *DAMAGED) for reject in rejects):
        return False
    with StoredBlob(source.uri, source.members, limit) as blob:
        sniffed = sniff_one(connector(source.connector), blob.head("", HEAD_BYTES), source.uri)
    return sniffed is not None and sniffed.score < _SURE


def _batch(domain: str, normalizer: Normalizer, flow: _Flow) -> pa.RecordBatch:
    """Return the waiting rows of a domain, scrubbed and checked."""
    taken = _drop_forgotten(flow.assemblers[domain].take(), normalizer, flow)
    kinds, salt = normalizer.recipe.normalize.scrub, normalizer.salt
    batch, replaced = scrub(taken, kinds, salt=salt, per_trajectory=False, sensitive=flow.sensitive)
    flow.counts["scrubbed"] += pc.sum(replaced, min_count=0).as_py()
    for name, values in (("scrubbed", replaced), (KEY, flow.row_ids[domain].of(batch))):
        batch = batch.set_column(batch.schema.get_field_index(name), batch.schema.field(name), values)
    return check(batch)


def _drop_forgotten(taken: pa.RecordBatch, normalizer: Normalizer, flow: _Flow) -> pa.RecordBatch:
    """Drop the rows of forgotten trajectories, which become rejects."""
    if not normalizer.tombstones.keys:
        return taken
    ids = taken["trajectory_id"].to_pylist()
    gone = {trajectory_id for trajectory_id in set(ids) if normalizer.tombstones.hold(TRAJECTORY, trajectory_id)}
    forgotten = pa.array([trajectory_id in gone for trajectory_id in ids], pa.bool_())
    for row in taken.select(["step", "num_steps", "provenance"]).filter(forgotten).to_pylist():
        flow.counts["transitions"] -= 1
        if row["step"] == 0:
            flow.counts["trajectories"] -= 1
            flow.counts[f"rejected.trajectory.{FORGOTTEN}"] += 1
            uri, member, offset, connector = (row["provenance"][name] for name in _WHERE)
            detail, count = "it was taken out of this folder, for good", row["num_steps"]
            flow.rejects.append(
                Reject("trajectory", FORGOTTEN, detail, uri, member, offset, connector, transitions=count)
            )
    return taken.filter(pc.invert(forgotten))


def normalize_part(part: Part, normalizer: Normalizer) -> Manifest:
    """Write the transitions and rejects of a part and return its manifest.

    A file holds whole trajectories in the order of inputs. A row group ends with the trajectory, or the block of a long
    one, that makes it exceed `ROW_GROUP_BYTES`. The same part and recipe give the same bytes. An input on which its
    connector fails becomes one reject, and all others come out as if it were not there.

    Raises:
        Exception: in a strict run, a connector's exception, with a note that names the input.
        ContractError: a bug of trajmill.
        ShardError: a file cannot be read or written; the part can be tried again.
    """
    failed = {
        source.name: Reject(
            "input", WORKER_DIED, normalizer.deadly[source.name], source.uri, connector=source.connector
        )
        for source in part.inputs
        if source.name in normalizer.deadly
    }
    while True:
        rest = [source for source in part.inputs if source.name not in failed]
        try:
            files, flow = _write_transitions(part.name, rest, normalizer)
            break
        except _FailedError as failure:
            if failure.one is not None and normalizer.strict:
                raise failure.error from None
            failed |= _failures(failure, rest, normalizer)
    give_back_memory()
    flow.counts.update(flow.attachments.counts)
    for source in part.inputs:
        if source.name in failed:
            flow.counts.update({"inputs": 1, "bytes": source.bytes, f"rejected.input.{failed[source.name].reason}": 1})
    rejects = [*flow.rejects, *failed.values()]
    rejects.sort(key=lambda reject: (reject.uri, reject.member, reject.offset, reject.reason, reject.step))
    entry = write_parquet(
        normalizer.rejects, f"{part.name}.parquet", REJECT_SCHEMA, reject_table(rejects).combine_chunks().to_batches()
    )
    manifest = Manifest(STAGE, part.name, unit_digest(part), SCHEMA_VERSION, code=program_digest() if failed else "")
    finish_unit(normalizer.rejects, replace(manifest, files=(entry,)))
    if normalizer.blobs is not None:
        finish_unit(normalizer.blobs, replace(manifest, files=flow.attachments.files))
    return finish_unit(normalizer.transitions, replace(manifest, files=files, counts=dict(sorted(flow.counts.items()))))


def unit_digest(part: Part) -> str:
    """Digest everything that a part's output depends on. The digest changes when a raw file changes."""
    return hashlib.sha256("".join([part.digest, *(source.stamp for source in part.inputs)]).encode()).hexdigest()


def _failures(failure: _FailedError, inputs: Sequence[Input], normalizer: Normalizer) -> dict[str, Reject]:
    """Return the rejects, by name, of the failing inputs: a known one, and those that fail when they are read alone.

    Raises:
        Exception: no input fails alone, so the bug is trajmill's; in a strict run the first failure.
    """
    failures: dict[str, Reject] = {}
    for source in inputs:
        error = failure.error if source is failure.one else fault_alone(source, normalizer)
        if error is not None and normalizer.strict:
            raise error
        if error is not None:
            failures[source.name] = normalizer.scrubbed(connector_error(source, error, normalizer.salt))
    if not failures:
        raise failure.error
    return failures


def fault_alone(source: Input, normalizer: Normalizer) -> Exception | None:
    """Return the exception of a connector's bug when the input alone is read, checked and scrubbed.

    Nothing is written.
    """
    flow = _Flow()
    try:
        for domain in _take_input(source, normalizer, flow):
            if flow.assemblers[domain].nbytes >= ROW_GROUP_BYTES:
                _batch(domain, normalizer, flow)
        for domain in flow.assemblers:
            _batch(domain, normalizer, flow)
    except Exception as error:
        if not is_connectors(error):
            raise
        add_note(error, source)
        return error
    return None


def _take_or_fail(source: Input, normalizer: Normalizer, flow: _Flow) -> Iterator[str]:
    """Call `_take_input`.

    Raises:
        _FailedError: the connector fails; it holds the input.
    """
    try:
        yield from _take_input(source, normalizer, flow)
    except Exception as error:
        if not is_connectors(error):
            raise
        add_note(error, source)
        raise _FailedError(error, source) from error


def _write_transitions(
    name: str, inputs: Sequence[Input], normalizer: Normalizer
) -> tuple[tuple[FileEntry, ...], _Flow]:
    """Write the transitions of the inputs. If that fails, nothing is left of them."""
    flow = _Flow(Attachments(normalizer.blobs, normalizer.earlier_blobs))
    sinks: dict[str, ParquetSink] = {}
    waiting: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def flush(*domains: str) -> None:
        for domain in domains:
            at_hand.note(*waiting.pop(domain, ()))
            try:
                batch = _batch(domain, normalizer, flow)
            except Exception as error:
                if not is_connectors(error):
                    raise
                raise _FailedError(error, None) from error
            if domain not in sinks:
                sinks[domain] = ParquetSink(normalizer.transitions, f"{domain}/{name}.parquet", encode_schema())
            sinks[domain].write(batch)

    try:
        with InputAtHand(normalizer.at_hand) as at_hand:
            with hand_to(flow.attachments if normalizer.blobs is not None else None):
                for source in inputs:
                    if source.begin or flow.begin:  # the ids of its rows have their own count
                        flush(*sorted(waiting))
                        flow.begin_slice(source.begin)
                    at_hand.note(source.name)
                    for domain in _take_or_fail(source, normalizer, flow):
                        waiting[domain].setdefault(source.name)
                        if flow.assemblers[domain].nbytes >= ROW_GROUP_BYTES:
                            flush(domain)
                            at_hand.note(source.name)
            flush(*sorted(flow.assemblers))
    except BaseException:
        for sink in sinks.values():
            sink.abandon()
        raise
    return tuple(sinks[domain].close() for domain in sorted(sinks)), flow


class PartsToTransitions(Transform):
    """Part → the manifest of its transitions."""

    def __init__(self, normalizer: Normalizer) -> None:
        super().__init__()
        self._normalizer = normalizer

    def expand(self, parts: Collection[Part]) -> Collection[Manifest]:
        return parts | "Normalize" >> Map(normalize_part, self._normalizer)
