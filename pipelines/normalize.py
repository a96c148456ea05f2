"""Normalize: raw logs of a part to scrubbed transitions, one file a domain, and the rejects.

`normalize_part` does the work and knows nothing of Beam; `PartsToTransitions` wires it.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import apache_beam as beam
import pyarrow.compute as pc

from pipelines.collector import rare_collections
from pipelines.parquet import ROW_GROUP_BYTES, ParquetSink, write_parquet
from pipelines.plan import Input, Part
from pipelines.reading import read_input
from pipelines.recipe import Recipe
from pipelines.storage import Folder
from pipelines.units import finish_unit
from quality.scrub import scrub, scrub_text
from schemas import REJECT_SCHEMA, SCHEMA_VERSION, Assembler, Reject, reject_table
from schemas.invariants import check
from schemas.manifest import FileEntry, Manifest
from schemas.row_ids import KEY, RowIds
from schemas.transition import encoded_schema

STAGE: Final = "normalize"
NO_TRANSITIONS: Final = "no_transitions"


@dataclass(frozen=True, slots=True)
class Normalizer:
    """What normalizing a part needs besides the part: picklable, the same for all parts.

    Attributes:
        recipe: how logs are read.
        transitions: folder of the transitions.
        rejects: folder of this stage's rejects.
    """

    recipe: Recipe
    transitions: Folder
    rejects: Folder


@dataclass(slots=True)
class _Flow:
    """What has been read of a part and not yet written."""

    assemblers: dict[str, Assembler] = field(default_factory=dict)
    row_ids: defaultdict[str, RowIds] = field(default_factory=lambda: defaultdict(RowIds))
    rejects: list[Reject] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def _take_input(one: Input, recipe: Recipe, flow: _Flow) -> Iterator[str]:
    """Takes an input into the flow; yields a domain whenever a trajectory or a block of one was added."""
    parents: dict[str, str] = {}
    rejects: list[Reject] = []
    trajectories = 0
    for found, origin in read_input(one, recipe):
        if isinstance(found, Reject):
            rejects.append(replace(found, connector=one.connector))
        elif found.domain not in recipe.domains:
            detail = f"domain {found.domain} is not among the recipe's domains"
            rejects.append(Reject("trajectory", "other_domain", detail, one.uri, transitions=len(found.steps)))
        else:
            if found.domain not in flow.assemblers:
                flow.assemblers[found.domain] = Assembler()
            for _ in flow.assemblers[found.domain].add_parts(found, origin, parents):
                yield found.domain
            trajectories += 1
            flow.counts["transitions"] += len(found.steps)
    flow.counts["inputs"] += 1
    flow.counts["bytes"] += one.bytes
    flow.counts["trajectories"] += trajectories
    _settle(one, trajectories, rejects, flow)


def _settle(one: Input, trajectories: int, rejects: list[Reject], flow: _Flow) -> None:
    """Records an input's rejects; an input without a trajectory is itself rejected, for the first fault that is one."""
    if not trajectories:
        none = Reject("input", NO_TRANSITIONS, "the log holds no transition", one.uri, connector=one.connector)
        faults = [reject for reject in rejects if reject.reason != NO_TRANSITIONS] or rejects or [none]
        rejects = [reject for reject in rejects if reject is not faults[0]]
        rejects.append(replace(faults[0], unit="input"))
    for reject in rejects:
        flow.counts[f"rejected.{reject.unit}.{reject.reason}"] += 1
    flow.rejects += rejects


def normalize_part(part: Part, normalizer: Normalizer) -> Manifest:
    """Writes the transitions and rejects of a part and returns its manifest.

    A file holds whole trajectories in the order of inputs; a row group is closed at the end of the trajectory, or of
    the block of a long one, with which it passes `ROW_GROUP_BYTES`. The same part and recipe give the same bytes.

    Raises:
        ContractError: a connector made rows that the schema does not allow.
        ShardError: a file cannot be read or written; the part can be tried again.
    """
    flow = _Flow()
    with rare_collections():
        files = _write_transitions(part, normalizer, flow)
    salt = normalizer.recipe.normalize.scrub_salt or ""
    rejects = [replace(one, excerpt=scrub_text(one.excerpt, one.uri, salt=salt)) for one in flow.rejects]
    rejects.sort(key=lambda one: (one.uri, one.member, one.offset, one.reason, one.step))
    entry = write_parquet(
        normalizer.rejects, f"{part.name}.parquet", REJECT_SCHEMA, reject_table(rejects).combine_chunks().to_batches()
    )
    digest = unit_digest(part)
    finish_unit(normalizer.rejects, Manifest(STAGE, part.name, digest, SCHEMA_VERSION, (entry,)))
    counts = dict(sorted(flow.counts.items()))
    return finish_unit(normalizer.transitions, Manifest(STAGE, part.name, digest, SCHEMA_VERSION, files, counts))


def unit_digest(part: Part) -> str:
    """Of everything a part's output depends on; it changes when a raw file is changed."""
    return hashlib.sha256("".join([part.digest, *(one.stamp for one in part.inputs)]).encode()).hexdigest()


def _write_transitions(part: Part, normalizer: Normalizer, flow: _Flow) -> tuple[FileEntry, ...]:
    sinks: dict[str, ParquetSink] = {}

    def flush(domain: str) -> None:
        settings = normalizer.recipe.normalize
        taken = flow.assemblers[domain].take()
        batch, replaced = scrub(taken, settings.scrub, salt=settings.scrub_salt or "", per_trajectory=False)
        flow.counts["scrubbed"] += pc.sum(replaced, min_count=0).as_py()
        for name, values in (("scrubbed", replaced), (KEY, flow.row_ids[domain].of(batch))):
            batch = batch.set_column(batch.schema.get_field_index(name), batch.schema.field(name), values)
        if domain not in sinks:
            sinks[domain] = ParquetSink(normalizer.transitions, f"{domain}/{part.name}.parquet", encoded_schema())
        sinks[domain].write(check(batch))

    try:
        for one in part.inputs:
            for domain in _take_input(one, normalizer.recipe, flow):
                if flow.assemblers[domain].nbytes >= ROW_GROUP_BYTES:
                    flush(domain)
        for domain in sorted(flow.assemblers):
            flush(domain)
    except BaseException:
        for sink in sinks.values():
            sink.abandon()
        raise
    return tuple(sinks[domain].close() for domain in sorted(sinks))


class PartsToTransitions(beam.PTransform):
    """Part → the manifest of its transitions."""

    def __init__(self, normalizer: Normalizer) -> None:
        super().__init__()
        self._normalizer = normalizer

    def expand(self, parts: beam.PCollection[Part]) -> beam.PCollection[Manifest]:
        return parts | "Normalize" >> beam.Map(normalize_part, self._normalizer)
