"""How diverse the trajectories of a run are: tasks, environments, places, actions and commands, by domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.judge.judging import units_in
from trajmill.pipelines.judge.measure_files import measure_file
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, read_table, read_transitions, transition_files
from trajmill.quality.diversity import Diversity, diversity
from trajmill.quality.fingerprint import trajectory_starts
from trajmill.quality.signal import Measured
from trajmill.quality.tokens import TokenCounter
from trajmill.quality.variety import KINDS, OF_TRAJECTORIES, VARIETY_SCHEMA, kinds_of, plain

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


def kept_variety(stages: Sequence[Folder]) -> Varieties:
    """The diversity of what judging kept: tasks and environments of kept trajectories, the rest of targets.

    Args:
        stages: the folders of runs, all of which are counted together.

    Raises:
        ShardError: one is not judged.
    """
    counts: dict[str, dict[str, Counter[int]]] = {}
    for folder, unit in [(one, unit) for one in stages for unit in units_in(one)]:
        batches = read_batches(folder / "measures", measure_file(unit.label, "variety"))
        table = pa.Table.from_batches(batches, schema=VARIETY_SCHEMA)
        judged = read_table(folder / "verdicts", unit.name, ["step", "kept", "use"])
        begins = pc.and_(pc.equal(judged["step"], 0), judged["kept"]).to_numpy()
        targets = pc.equal(judged["use"], "target").to_numpy()
        of = counts.setdefault(unit.name.split("/")[0], {kind: Counter[int]() for kind in KINDS})
        for kind in KINDS:
            of[kind].update(_counted(table[kind].to_numpy()[begins if kind in OF_TRAJECTORIES else targets]))
    return {domain: {kind: diversity(some) for kind, some in of.items()} for domain, of in sorted(counts.items())}


def told_variety(found: Varieties) -> dict[str, dict[str, dict[str, float]]]:
    """Diversity as a manifest holds it."""
    return {
        domain: {kind: {name: round(number, 4) for name, number in asdict(one).items()} for kind, one in of.items()}
        for domain, of in found.items()
    }


def _counted(hashes: npt.NDArray[np.uint64]) -> Counter[int]:
    values, rows = np.unique(hashes[hashes > 0], return_counts=True)
    return Counter(dict(zip(values.tolist(), rows.tolist(), strict=True)))
