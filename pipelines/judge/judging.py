"""A unit of judging, and what judging one needs besides it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trajmill.pipelines.execution.exchange import Key, Span, carried, fetched
from trajmill.pipelines.judge.earlier import Earlier
from trajmill.pipelines.judge.packed_rows import PARTITIONS
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.quality.measure import tells
from trajmill.quality.signal import Signal
from trajmill.schemas import SCHEMA_VERSION


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

    @property
    def domain(self) -> str:
        """The domain of all its rows."""
        return self.name.split("/", 1)[0]


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
    benchmarks: str = ""
    """Digest of the index of benchmarks; empty without benchmarks."""
    models: tuple[tuple[str, str], ...] = ()
    """Names and digests of the files that the recipe names: tokenizer and models."""
    partitions: int = PARTITIONS
    """Into how many packed records are cut; no verdict depends on it."""
    spill: Folder | None = None
    """Where hashes on their way lie; None leaves them to the runner."""
    earlier: Earlier | None = None
    """The generations before the one that is judged; None for the first."""
    likeness: Folder | None = None
    """Where it is written whom trajectories are like, for pools to be given by it; None for the first generation."""

    def work(self, units: Sequence[Unit]) -> list[Unit]:
        """The units that are judged, and those of earlier generations that take part."""
        if self.earlier is None:
            return [*units]
        numbers = self.earlier.taking_part()
        return [*units, *(Unit(number, self.earlier.place(number).name, "") for number in numbers)]

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
        """The signals that the recipe measures, sorted."""
        return self.recipe.judge.measured()

    @property
    def made(self) -> dict[str, Signal]:
        """The same with what measures them."""
        return {name: self.recipe.judge.made(name) for name in self.signals}

    @property
    def telling(self) -> tuple[str, ...]:
        """Those of them that give reasons."""
        return tuple(name for name, one in self.made.items() if tells(one))


def packed_records(recipe: Recipe, transitions: Folder) -> int:
    """How many packed records the largest exchange of a corpus holds: one a row, or one a band of a trajectory."""
    sealed = read_manifest(transitions, MANIFEST)
    if sealed is None:
        return 0
    near = recipe.judge.near_duplicates
    bands = 0 if near is None else near.bands * sealed.counts.get("trajectories", 0)
    return max(sum(file.rows for file in sealed.files), bands)


def judging_digest(
    recipe: Recipe,
    units: Sequence[Unit],
    benchmarks: str = "",
    models: Sequence[tuple[str, str]] = (),
    earlier: Earlier | None = None,
) -> str:
    """Digest everything verdicts depend on: the recipe's judgement, benchmarks, models, rows, earlier generations."""
    content: list[Any] = [SCHEMA_VERSION, recipe.digest("judge"), benchmarks, models]
    content.append([[unit.name, unit.sha256] for unit in units])
    if earlier is not None:
        content.append([earlier.parent, earlier.withdrawn])
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
