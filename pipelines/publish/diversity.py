"""How diverse the trajectories of a run are: tasks, environments, places, actions and commands, by domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.engine.parquet import read_batches, read_transitions, transition_files
from pipelines.engine.storage import Folder
from pipelines.judge.judging import Unit
from pipelines.judge.measure_files import variety_name
from quality.diversity import Diversity, diversity
from quality.fingerprint import trajectory_starts
from quality.signal import Measured
from quality.tokens import TokenCounter
from quality.variety import KINDS, OF_TRAJECTORIES, VARIETY_SCHEMA, kinds_of, plain

Varieties: TypeAlias = dict[str, dict[str, Diversity]]
"""The diversity of each of `quality.variety.KINDS`, by domain."""


def _tally(texts: pa.Array) -> Counter[str]:
    counts = pc.value_counts(texts.drop_null())
    return Counter({entry["values"]: entry["counts"] for entry in counts.to_pylist()})


def kinds_in(batch: pa.RecordBatch) -> dict[str, Counter[str]]:
    """How often each thing of each of `KINDS` occurs in a batch of whole trajectories."""
    found = {kind: plain(texts) for kind, texts in kinds_of(Measured.of(batch, TokenCounter())).items()}
    begins = pa.array(trajectory_starts(batch))
    return {kind: _tally(texts.take(begins) if kind in OF_TRAJECTORIES else texts) for kind, texts in found.items()}


def variety(path: str) -> Varieties:
    """The diversity of all that was read, of a run's folder or of its transitions folder.

    Raises:
        ConfigError: there are no transitions.
    """
    folder, names = transition_files(path)
    counts: dict[str, dict[str, Counter[str]]] = {}
    for name in names:
        of = counts.setdefault(name.split("/")[0], {kind: Counter[str]() for kind in KINDS})
        for batch in read_transitions(folder, name):
            for kind, some in kinds_in(batch).items():
                of[kind].update(some)
    return {domain: {kind: diversity(some) for kind, some in of.items()} for domain, of in counts.items()}


def kept_variety(units: Sequence[Unit], measures: Folder, verdicts: Folder) -> Varieties:
    """The diversity of what judging kept: tasks and environments of kept trajectories, the rest of targets."""
    counts: dict[str, dict[str, Counter[int]]] = {}
    for unit in units:
        table = pa.Table.from_batches(read_batches(measures, variety_name(unit.label)), schema=VARIETY_SCHEMA)
        judged = pa.Table.from_batches(read_batches(verdicts, unit.name, ["step", "kept", "use"]))
        begins = pc.and_(pc.equal(judged["step"], 0), judged["kept"]).to_numpy()
        targets = pc.equal(judged["use"], "target").to_numpy()
        of = counts.setdefault(unit.name.split("/")[0], {kind: Counter[int]() for kind in KINDS})
        for kind in KINDS:
            of[kind].update(_counted(table[kind].to_numpy()[begins if kind in OF_TRAJECTORIES else targets]))
    return {domain: {kind: diversity(some) for kind, some in of.items()} for domain, of in sorted(counts.items())}


def _counted(hashes: npt.NDArray[np.uint64]) -> Counter[int]:
    values, rows = np.unique(hashes[hashes > 0], return_counts=True)
    return Counter(dict(zip(values.tolist(), rows.tolist(), strict=True)))
