"""A unit of judging, and what judging one needs besides it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from trajmill.pipelines.execution.exchange import Key, Span, carried, fetched
from trajmill.pipelines.judge.packed_rows import PARTITIONS
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.quality.measure import tells
from trajmill.quality.signal import Signal
from trajmill.schemas import SCHEMA_VERSION, ShardError

DECIDED: Final = 1 << 31
"""The number of the first unit that is decided already: those that are to be judged come before."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A file of transitions.

    Attributes:
        number: among all units.
        name: in the folder of transitions.
        sha256: of the file.
        folder: where the stages of the earlier run lie that judged it; None for one that is to be judged.
    """

    number: int
    name: str
    sha256: str
    folder: Folder | None = None

    def measured_in(self, judging: Judging) -> Folder:
        """The folder of what was measured of it."""
        return judging.measures if self.folder is None else self.folder / "measures"

    @property
    def is_decided(self) -> bool:
        """Whether an earlier run judged it, whose verdicts stay."""
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
    """The units of a run whose stages lie in a folder.

    Raises:
        ShardError: its transitions have no manifest.
    """
    sealed = read_manifest(folder / "transitions", MANIFEST)
    if sealed is None:
        raise ShardError(f"{(folder / 'transitions').path(MANIFEST)} is missing or damaged.")
    return [Unit(number, file.name, file.sha256) for number, file in enumerate(sealed.files)]


Withdrawn: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""Unit's label and first rows of its trajectories that would join two pools, which go before all others."""


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
    likeness: Folder | None = None
    """Where it is written whom trajectories are like; None where nobody asks."""
    withdrawn: Withdrawn = ()

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


def packed_records(recipe: Recipe, transitions: Iterable[Folder]) -> int:
    """How many packed records the largest exchange of a corpus holds: one a row, or one a band of a trajectory."""
    sealed = [manifest for folder in transitions if (manifest := read_manifest(folder, MANIFEST)) is not None]
    near = recipe.judge.near_duplicates
    bands = 0 if near is None else near.bands * sum(one.counts.get("trajectories", 0) for one in sealed)
    return max(sum(file.rows for one in sealed for file in one.files), bands)


def judging_digest(
    recipe: Recipe,
    units: Sequence[Unit],
    benchmarks: str = "",
    models: Sequence[tuple[str, str]] = (),
    known: str = "",
    withdrawn: Withdrawn = (),
) -> str:
    """Digest everything verdicts depend on: the recipe's judgement, benchmarks, models, rows, and what is known."""
    content: list[Any] = [SCHEMA_VERSION, recipe.digest("judge"), benchmarks, models]
    content.append([[unit.name, unit.sha256] for unit in units])
    content.append([known, withdrawn])
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
