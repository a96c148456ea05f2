"""The measurements that lie beside the transitions of each unit of judging: written once, read by every decision."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.engine.exchange import Key, Span, carried, fetched
from pipelines.engine.parquet import ParquetSink, read_batches, read_transitions
from pipelines.engine.storage import Folder
from pipelines.engine.units import check_file, finish_unit, is_done
from pipelines.judge.evaluation_index import read_index
from pipelines.recipe.recipe import Recipe
from quality.exposure import MATCH_SCHEMA, Exposing
from quality.measure import Measuring, tells
from quality.replicate import REPLICATE_SCHEMA, Following
from quality.rule import Decision, decided
from quality.signal import Signal
from quality.sketch import HASHED, SKETCH_SCHEMA, VERSION, Sketches, Sketching
from quality.spans import SPANS_SCHEMA, Labelling
from quality.tokens import TokenCounter
from quality.variety import VARIETY_SCHEMA, Varying
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
    spans: Folder
    digest: str
    labels: tuple[str, ...]
    """Of all units, by number."""
    benchmarks: str = ""
    """Digest of the index of benchmarks; empty without benchmarks."""
    models: tuple[tuple[str, str], ...] = ()
    """Names and digests of the files that the recipe names: tokenizer and models."""
    spill: Folder | None = None
    """Where hashes on their way lie; None leaves them to the runner."""

    def carried(
        self, name: str, number: int, blocks: Iterable[tuple[Key, bytes]]
    ) -> Iterator[tuple[Key, bytes | Span]]:
        """See `exchange.carried`."""
        return carried(name, number, blocks, self.spill)

    def fetched(self, values: Iterable[bytes | Span]) -> Iterator[bytes]:
        """See `exchange.fetched`."""
        return fetched(values, self.spill)

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals that the recipe's rules need, sorted."""
        return tuple(sorted({rule.signal for rule in self.recipe.judge.rules.values()}))

    @property
    def made(self) -> dict[str, Signal]:
        """The same with what measures them."""
        return {name: self.recipe.judge.made(name) for name in self.signals}

    @property
    def telling(self) -> tuple[str, ...]:
        """Those of them that give reasons."""
        return tuple(name for name, one in self.made.items() if tells(one))


def judging_digest(
    recipe: Recipe, units: Sequence[Unit], benchmarks: str = "", models: Sequence[tuple[str, str]] = ()
) -> str:
    """Of everything verdicts depend on: the recipe's judgement, benchmarks, models and all transitions."""
    content = [SCHEMA_VERSION, recipe.digest("judge"), benchmarks, models, [[unit.name, unit.sha256] for unit in units]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


class Kind(Protocol):
    """What is measured of a unit's rows, batch by batch, each batch following those before."""

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What is known now that the batch is there."""

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What waited for the end of the file."""


def matches_name(label: str) -> str:
    """The file of what a unit shows of benchmarks."""
    return f"{label}.benchmarks.parquet"


def replicates_name(label: str) -> str:
    """The file of the histories of a unit's rows."""
    return f"{label}.replicates.parquet"


def variety_name(label: str) -> str:
    """The file of what a unit's rows are about."""
    return f"{label}.variety.parquet"


def spans_name(label: str) -> str:
    """The file of what a unit's trajectories tell of parts of their texts."""
    return f"{label}.spans.parquet"


def sketch_name(label: str) -> str:
    """The file of the sketches of a unit's trajectories."""
    return f"{label}.sketch.parquet"


def measure_names(label: str) -> tuple[str, ...]:
    """Every file that measuring a unit can write."""
    told = (matches_name, replicates_name, variety_name, spans_name, sketch_name)
    return (f"{label}.parquet", *(name(label) for name in told))


def measuring_digest(unit: Unit, judging: Judging) -> str:
    """Of everything that a unit's measures depend on."""
    rules = judging.recipe.judge
    near = rules.near_duplicates
    chosen = [
        judging.signals,
        rules.tokenizer,
        rules.prefer,
        [near is not None and VERSION, near is not None and near.part_names],
        rules.replicates is not None,
        judging.benchmarks,
    ]
    chosen += [rules.spans, judging.models, [rules.signals.get(name) for name in judging.signals]]
    settings = [unit.sha256, *chosen, VARIETY_SCHEMA.names, SCHEMA_VERSION]
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()


def measure_unit(unit: Unit, judging: Judging) -> Unit:
    """Measures a unit's transitions into a file beside the verdicts, unless that was done; returns the unit.

    Raises:
        ShardError: the transitions are not those that were written.
    """
    rules = judging.recipe.judge
    digest = measuring_digest(unit, judging)
    if not is_done(judging.measures, unit.label, digest):
        check_file(judging.transitions, unit.name, unit.sha256)
        files = {"measures": (f"{unit.label}.parquet", measure_schema(judging.signals, judging.telling))}
        files["variety"] = (variety_name(unit.label), VARIETY_SCHEMA)
        files |= {"sketch": (sketch_name(unit.label), SKETCH_SCHEMA)} if rules.near_duplicates is not None else {}
        files |= {"replicates": (replicates_name(unit.label), REPLICATE_SCHEMA)} if rules.replicates is not None else {}
        files |= {"spans": (spans_name(unit.label), SPANS_SCHEMA)} if rules.spans else {}
        files |= {"benchmarks": (matches_name(unit.label), MATCH_SCHEMA)} if judging.benchmarks else {}
        hashed = {"sketch": HASHED}
        sinks = {
            what: ParquetSink(judging.measures, *file, hashed=hashed.get(what, ())) for what, file in files.items()
        }
        try:
            _measure_into(sinks, unit, judging)
        except BaseException:
            for sink in sinks.values():
                sink.abandon()
            raise
        entries = tuple(sink.close() for sink in sinks.values())
        finish_unit(judging.measures, Manifest("measure", unit.label, digest, SCHEMA_VERSION, entries))
    return unit


def _measure_into(sinks: Mapping[str, ParquetSink], unit: Unit, judging: Judging) -> None:
    rules = judging.recipe.judge
    counter = TokenCounter(rules.tokenizer)
    kinds: dict[str, Kind] = {
        "measures": Measuring(judging.made, counter, rules.prefer),
        "sketch": Sketching(parted=rules.near_duplicates is not None and rules.near_duplicates.part_names),
        "replicates": Following(),
        "variety": Varying(),
        "spans": Labelling(),
    }
    if judging.benchmarks:
        kinds["benchmarks"] = Exposing(read_index(judging.measures, judging.benchmarks))
    for batch in read_transitions(judging.transitions, unit.name):
        check(batch)
        for name, sink in sinks.items():
            for done in kinds[name].add(batch):
                sink.write(done)
    for name, sink in sinks.items():
        for done in kinds[name].rest():
            sink.write(done)


def read_sketches(label: str, judging: Judging, starts: npt.NDArray[np.int64] | None = None) -> Sketches:
    """The sketches of the unit with that label; `starts` are the first rows of its trajectories, if known."""
    if starts is None:
        step = pa.Table.from_batches(read_batches(judging.measures, f"{label}.parquet", ["step"]))["step"]
        starts = np.flatnonzero(step.combine_chunks().to_numpy(zero_copy_only=False) == 0)
    batches = read_batches(judging.measures, sketch_name(label))
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
        read_batches(judging.measures, f"{unit.label}.parquet"), schema=measure_schema(judging.signals, judging.telling)
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
