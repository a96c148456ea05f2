"""Units of judging, the settings of judging, and a unit's measures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.execution.exchange import GatheredBlocks, Key, Span, spill_or_pass
from trajmill.pipelines.judge.packed_rows import PARTITIONS
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder, sha256_of
from trajmill.pipelines.storage.parquet import read_rows, read_table
from trajmill.pipelines.storage.units import MANIFEST, read_manifest, require_manifest
from trajmill.quality.fingerprint import as_lanes, mixed
from trajmill.quality.measure import tells
from trajmill.quality.rule import Decision, apply_rules
from trajmill.quality.signal import Signal
from trajmill.quality.sketch import Sketches
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.verdict import SIGNAL_PREFIX, measure_schema

FileKind: TypeAlias = Literal["benchmarks", "replicates", "variety", "spans", "sketch", "costs", "answers", "edges"]
"""Kinds of measure files, by their content.

They hold benchmark matches, row histories, variety of texts, spans, sketches, sample costs, answers that RL checks are
tried on, and lines at the edges of answers.
"""


def measure_file(label: str, kind: FileKind) -> str:
    """Return the name of a unit's measure file of a kind."""
    return f"{label}.{kind}.parquet"


def measure_files(label: str) -> tuple[str, ...]:
    """Return the names of all files that measuring a unit can write."""
    return (f"{label}.parquet", *(measure_file(label, kind) for kind in get_args(FileKind)))


_SKETCHES_AT_ONCE: Final = 1 << 10
"""Rows of sketches that are read at once. The arrays of whole row groups would be asked from the system each time."""

DECIDED: Final = 1 << 31
"""Number of the first decided unit. Units to be judged have smaller numbers."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A file of transitions.

    Attributes:
        folder: folder of the stages of the earlier run that judged the unit; None if the unit is to be judged.
    """

    number: int
    name: str
    sha256: str
    folder: Folder | None = None

    def measures_folder(self, judging: Judging) -> Folder:
        """Return the folder of the unit's measures."""
        return judging.measures if self.folder is None else self.folder / "measures"

    @property
    def is_decided(self) -> bool:
        """True if an earlier run judged the unit. Its verdicts stay."""
        return self.folder is not None

    @property
    def label(self) -> str:
        """The unit's name without folders."""
        return self.name.removesuffix(".parquet").replace("/", "-")

    @property
    def domain(self) -> str:
        """The domain of all its rows."""
        return self.name.split("/", 1)[0]


def units_in(folder: Folder) -> list[Unit]:
    """List the units of a run whose stages are in a folder.

    Raises:
        ShardError: its transitions have no manifest.
    """
    files = require_manifest(folder / "transitions").files
    return [Unit(number, file.name, file.sha256) for number, file in enumerate(files)]


Withdrawn: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""A unit's label, and first rows of its trajectories that would join two pools. They are dropped before all others."""


@dataclass(frozen=True, slots=True)
class Judging:
    """Settings of judging that are the same for all units; picklable."""

    recipe: Recipe
    transitions: Folder
    measures: Folder
    verdicts: Folder
    rejects: Folder
    spans: Folder
    digest: str
    benchmarks: str = ""
    """Digest of the index of benchmarks; empty without benchmarks."""
    models: tuple[tuple[str, str], ...] = ()
    """Names and digests of the files that the recipe names: tokenizer and models."""
    partitions: int = PARTITIONS
    """Number of partitions of packed records. No verdict depends on it."""
    spill: Folder | None = None
    """Folder of hashes in exchange between rounds; None leaves them to the runner."""
    likeness: Folder | None = None
    """Folder of the similar trajectories of each trajectory; None if they are not needed."""
    withdrawn: Withdrawn = ()

    def carried(
        self, name: str, number: int, blocks: Iterable[tuple[Key, bytes]]
    ) -> Iterator[tuple[Key, bytes | Span]]:
        """Spill blocks or pass them on; see `exchange`."""
        return spill_or_pass(name, number, blocks, self.spill)

    def fetch_blocks(self, values: Iterable[bytes | Span]) -> Iterator[bytes]:
        """Read blocks that were spilled; see `exchange`."""
        return iter(GatheredBlocks(self.spill, values))

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the signals that the recipe measures, sorted."""
        return self.recipe.judge.measured()

    @property
    def made(self) -> dict[str, Signal]:
        """The signals that the recipe measures, by name."""
        return {name: self.recipe.judge.made(name) for name in self.signals}

    @property
    def telling(self) -> tuple[str, ...]:
        """Names of the measured signals that give reasons."""
        return tuple(name for name, signal in self.made.items() if tells(signal))


def count_packed_records(recipe: Recipe, transitions: Iterable[Folder]) -> int:
    """Count the packed records of a corpus's largest exchange: one per row, or one per band of a trajectory."""
    sealed = [manifest for folder in transitions if (manifest := read_manifest(folder, MANIFEST)) is not None]
    near = recipe.judge.near_duplicates
    bands = 0 if near is None else near.bands * sum(manifest_.counts.get("trajectories", 0) for manifest_ in sealed)
    return max(sum(file.rows for manifest_ in sealed for file in manifest_.files), bands)


def judging_digest(
    recipe: Recipe,
    units: Sequence[Unit],
    benchmarks: str = "",
    models: Sequence[tuple[str, str]] = (),
    known: str = "",
    withdrawn: Withdrawn = (),
) -> str:
    """Digest everything verdicts depend on.

    This is the section `judge`, benchmarks, models, units, the known generations, and withdrawn trajectories.
    """
    content: list[Any] = [SCHEMA_VERSION, recipe.digest("judge"), benchmarks, models]
    content.append([[unit.name, unit.sha256] for unit in units])
    content.append([known, withdrawn])
    content += [[key, sha256_of(path)] for key, path in recipe.judge.selections().items()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Measures:
    """Measures of a unit, and the decisions of the recipe's rules on it."""

    table: pa.Table
    decision: Decision
    starts: npt.NDArray[np.int64]

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a numeric column."""
        return self.table[name].combine_chunks().to_numpy(zero_copy_only=False)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of rows of each trajectory."""
        return np.diff(np.append(self.starts, self.table.num_rows))


def read_measures(unit: Unit, judging: Judging) -> Measures:
    """Read the measures of a unit and apply the recipe's rules."""
    columns = measure_schema(judging.signals, judging.telling).names
    table = read_table(judging.measures, f"{unit.label}.parquet", columns)
    numbers = {
        name: table[SIGNAL_PREFIX + name].combine_chunks().to_numpy(zero_copy_only=False) for name in judging.signals
    }
    rules = judging.recipe.judge.ordered_rules()
    keys = _keys(table) if any(rule.spare for rule in rules) else None
    decision = apply_rules(rules, numbers, table.num_rows, keys, unit.domain)
    starts = np.flatnonzero(table["step"].to_numpy() == 0)
    return Measures(table, decision, starts)


def _keys(table: pa.Table) -> Mapping[str, npt.NDArray[np.uint64]]:
    """Hash trajectories and transitions by content.

    A transition's hash includes its step, so that equal steps of a trajectory differ.
    """
    whole = as_lanes(table["trajectory_hash"].combine_chunks())[:, 0]
    step = table["step"].to_numpy()
    return {"trajectory": whole, "transition": mixed(whole + step.astype(np.uint64))}


def read_sketches(label: str, measures: Folder, starts: npt.NDArray[np.int64] | None = None) -> Sketches:
    """Read the sketches of a unit. `starts` are the first rows of its trajectories, if known."""
    if starts is None:
        starts = np.flatnonzero(read_table(measures, f"{label}.parquet", ["step"])["step"].to_numpy() == 0)
    name = measure_file(label, "sketch")
    return Sketches.of(read_rows(measures, name, _SKETCHES_AT_ONCE), starts, max(measures.size(name), 0))
