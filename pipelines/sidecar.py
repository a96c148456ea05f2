"""The measurements that lie beside the transitions of each unit of judging: written once, read by every decision."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.parquet import ParquetSink, read_batches, read_transitions
from pipelines.recipe import Recipe
from pipelines.storage import Folder
from pipelines.units import finish_unit, is_done
from quality.measure import Measuring
from quality.rule import Decision, decided
from quality.sketch import SKETCH_SCHEMA, Sketches, Sketching
from quality.tokens import TokenCounter
from schemas import SCHEMA_VERSION
from schemas.invariants import check
from schemas.manifest import Manifest
from schemas.verdict import SIGNAL_PREFIX, measure_schema

LOSER: Final = np.dtype([("row", "<u4"), ("kept", "<u8")])
"""A row that loses against another, and the first 64 bits of the id of the trajectory that is kept."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A file of transitions to judge: its number among all, its name in the transitions folder, and its digest."""

    number: int
    name: str
    sha256: str

    @property
    def label(self) -> str:
        """The unit's name without folders."""
        return self.name.removesuffix(".parquet").replace("/", "-")


@dataclass(frozen=True, slots=True)
class Judging:
    """What judging a unit needs besides the unit: picklable, the same for all units."""

    recipe: Recipe
    transitions: Folder
    measures: Folder
    verdicts: Folder
    rejects: Folder
    digest: str
    labels: tuple[str, ...]
    """Of all units, by number."""

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals that the recipe's rules need, sorted."""
        return tuple(sorted({rule.signal for rule in self.recipe.judge.rules.values()}))


def judging_digest(recipe: Recipe, units: Sequence[Unit]) -> str:
    """Of everything verdicts depend on: the recipe's judgement and all transitions."""
    content = [SCHEMA_VERSION, recipe.digest("judge"), [[unit.name, unit.sha256] for unit in units]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def measure_unit(unit: Unit, judging: Judging) -> Unit:
    """Measures a unit's transitions into a file beside the verdicts, unless that was done; returns the unit."""
    rules = judging.recipe.judge
    sketching = rules.near_duplicates is not None
    settings = [unit.sha256, judging.signals, rules.tokenizer, rules.prefer, sketching, SCHEMA_VERSION]
    digest = hashlib.sha256(json.dumps(settings).encode()).hexdigest()
    if not is_done(judging.measures, unit.label, digest):
        sinks = [ParquetSink(judging.measures, f"{unit.label}.parquet", measure_schema(judging.signals))]
        if sketching:
            sinks.append(ParquetSink(judging.measures, f"{unit.label}.sketch.parquet", SKETCH_SCHEMA))
        try:
            _measure_into(sinks, unit, judging)
        except BaseException:
            for sink in sinks:
                sink.abandon()
            raise
        entries = tuple(sink.close() for sink in sinks)
        finish_unit(judging.measures, Manifest("measure", unit.label, digest, SCHEMA_VERSION, entries))
    return unit


def _measure_into(sinks: Sequence[ParquetSink], unit: Unit, judging: Judging) -> None:
    rules = judging.recipe.judge
    counter = TokenCounter(rules.tokenizer)
    measuring = Measuring(judging.signals, counter, rules.prefer)
    kinds: list[tuple[ParquetSink, Measuring | Sketching]] = [(sinks[0], measuring)]
    kinds += [(sink, Sketching()) for sink in sinks[1:]]
    for batch in read_transitions(judging.transitions, unit.name):
        check(batch)
        for sink, kind in kinds:
            for done in kind.add(batch):
                sink.write(done)
    for sink, kind in kinds:
        for done in kind.rest():
            sink.write(done)


def read_sketches(label: str, judging: Judging, starts: npt.NDArray[np.int64] | None = None) -> Sketches:
    """The sketches of the unit with that label; `starts` are the first rows of its trajectories, if known."""
    if starts is None:
        step = pa.Table.from_batches(read_batches(judging.measures, f"{label}.parquet", ["step"]))["step"]
        starts = np.flatnonzero(step.combine_chunks().to_numpy(zero_copy_only=False) == 0)
    batches = read_batches(judging.measures, f"{label}.sketch.parquet")
    return Sketches.of(pa.Table.from_batches(batches, schema=SKETCH_SCHEMA), starts)


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What was measured of a unit, and what the rules say of it."""

    table: pa.Table
    decision: Decision
    starts: npt.NDArray[np.int64]

    def column(self, name: str) -> npt.NDArray[Any]:
        """A numeric column."""
        return self.table[name].combine_chunks().to_numpy(zero_copy_only=False)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Rows of each trajectory."""
        return np.diff(np.append(self.starts, self.table.num_rows))


def read_sidecar(unit: Unit, judging: Judging) -> Sidecar:
    """The measurements of a unit, judged by the recipe's rules."""
    table = pa.Table.from_batches(
        read_batches(judging.measures, f"{unit.label}.parquet"), schema=measure_schema(judging.signals)
    ).combine_chunks()
    numbers = {
        name: table[SIGNAL_PREFIX + name].combine_chunks().to_numpy(zero_copy_only=False) for name in judging.signals
    }
    decision = decided(judging.recipe.judge.ordered_rules(), numbers, table.num_rows)
    starts = np.flatnonzero(table["step"].combine_chunks().to_numpy(zero_copy_only=False) == 0)
    return Sidecar(table, decision, starts)


def partitioned(keys: npt.NDArray[np.void], by: str) -> Iterator[tuple[int, bytes]]:
    """The records as bytes, by partition (0 to 63) of a hash among their fields."""
    partition = (keys[by] >> np.uint64(58)).astype(np.int64)
    for number in np.unique(partition):
        yield int(number), keys[partition == number].tobytes()


def by_unit(records: npt.NDArray[np.void]) -> Iterator[tuple[int, bytes]]:
    """The records as bytes, by the unit that they name."""
    for unit in np.unique(records["unit"]):
        yield int(unit), records[records["unit"] == unit].tobytes()


def losers_of(packed: Iterable[bytes]) -> npt.NDArray[np.void]:
    """What loses in a unit, of dtype `LOSER`, by row."""
    return np.sort(np.concatenate([np.zeros(0, LOSER), *(np.frombuffer(data, LOSER) for data in packed)]))


def kept_rows(sidecar: Sidecar, lost: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """One boolean a row: whether its trajectory is neither dropped by a rule nor among the lost."""
    first = sidecar.decision.trajectory[sidecar.starts] < 0
    first &= ~np.isin(sidecar.starts, lost["row"])
    return np.repeat(first, sidecar.lengths)


def identities(keys: Sequence[str]) -> npt.NDArray[np.uint64]:
    """The first 64 bits of trajectory ids."""
    return np.array([int(key[:16], 16) for key in keys], np.uint64)
