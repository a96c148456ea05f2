"""Datasets with written shards, as described by their card and Croissant metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from trajmill.pipelines.judge.judging import measure_file, units_in
from trajmill.pipelines.recipe.recipe import POOLS, Recipe
from trajmill.pipelines.run_record.conservation import Line
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.quality.diversity import Diversity, diversity
from trajmill.quality.variety import KINDS, OF_TRAJECTORIES
from trajmill.schemas.manifest import FileEntry

Varieties: TypeAlias = dict[str, dict[str, Diversity]]
"""Diversity of each of `quality.variety.KINDS`, by domain."""


def measure_variety(stages: Sequence[Folder]) -> Varieties:
    """Measure the diversity of kept data: tasks and environments of kept trajectories, other kinds of targets.

    Args:
        stages: folders of runs, which are counted together.

    Raises:
        ShardError: a run is not judged.
    """
    counts: dict[str, dict[str, Counter[int]]] = {}
    for folder, unit in [(stage, unit) for stage in stages for unit in units_in(stage)]:
        table = read_table(folder / "measures", measure_file(unit.label, "variety"), KINDS)
        judged = read_table(folder / "verdicts", unit.name, ["step", "kept", "use"])
        begins = pc.and_(pc.equal(judged["step"], 0), judged["kept"]).to_numpy()
        targets = pc.equal(judged["use"], "target").to_numpy()
        by_kind = counts.setdefault(unit.name.split("/")[0], {kind: Counter[int]() for kind in KINDS})
        for kind in KINDS:
            by_kind[kind].update(_count_hashes(table[kind].to_numpy()[begins if kind in OF_TRAJECTORIES else targets]))
    return {
        domain: {kind: diversity(some) for kind, some in by_kind.items()} for domain, by_kind in sorted(counts.items())
    }


def variety_values(varieties: Varieties) -> dict[str, dict[str, dict[str, float]]]:
    """Convert diversity to plain values for a manifest."""
    return {
        domain: {
            kind: {name: round(number, 4) for name, number in asdict(variety).items()}
            for kind, variety in by_kind.items()
        }
        for domain, by_kind in varieties.items()
    }


def _count_hashes(hashes: npt.NDArray[np.uint64]) -> Counter[int]:
    values, rows = np.unique(hashes[hashes > 0], return_counts=True)
    return Counter(dict(zip(values.tolist(), rows.tolist(), strict=True)))


ROWS: Final[Mapping[str, str]] = {
    "cpt": "a whole trajectory as text",
    "sft": "a conversation: user turn = action, assistant turn = observation, `loss` per message",
    "rl": "one turn of a trajectory as prompt, its observation as ground truth (`exact` is false where scrubbing "
    "touched the turn)",
    "eval": "one turn of a held-out trajectory, in AgentWorldBench's form",
}
"""Description of a row of each pool."""

_FOUND: Final[Mapping[str, tuple[str, str]]] = {
    "cpt": ("train", "cpt/*/train-*.parquet"),
    "sft": ("train", "sft/*/train-*.parquet"),
    "rl": ("train", "rl/*/train-*.parquet"),
    "eval": ("test", "eval/*/test-*.parquet"),
}


@dataclass(frozen=True, slots=True)
class Config:
    """A loadable configuration of the dataset, which is a pool.

    Attributes:
        path: glob of its files.
        files: files that match the glob.
        tokens: tokens of the samples, 0 if they do not state them.
        loss_tokens: tokens under loss among them.
    """

    name: str
    split: str
    path: str
    files: tuple[FileEntry, ...]
    samples: int
    tokens: int
    loss_tokens: int

    @property
    def row(self) -> str:
        """Description of a row."""
        return ROWS[self.name]


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Recipe and versions of consecutive generations.

    Attributes:
        recipe: the first 16 digits of the recipe's digest.
        connectors: connectors that read their logs, with their versions.
        changed: differences from the previous rule set, a text each.
    """

    first: int
    last: int
    recipe: str
    connectors: Mapping[str, str]
    changed: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The numbers of its generations: `2` or `2 to 5`."""
        return f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"


@dataclass(frozen=True, slots=True)
class Dataset:
    """Facts of a dataset for its card and metadata.

    Attributes:
        files: files of samples in the folder.
        counts: `samples.<pool>.<domain>`, `tokens.…`, `control_samples.…` and so on, summed over shards.
        flow: balance of inputs and outputs, by unit.
        kept: diversity of the kept data.
        mixture: draws of its pools and stages (`Mixture.told`).
        licences: samples by licence; the licence of rows without one is empty.
        rules: rules of the generations; empty if nothing was appended.
    """

    recipe: Recipe
    shards: Folder
    files: tuple[FileEntry, ...]
    counts: Mapping[str, int]
    flow: Sequence[Line]
    digest: str
    kept: Varieties
    mixture: Mapping[str, Any]
    licences: Mapping[str, int]
    generations: int = 1
    rules: Sequence[RuleSet] = ()

    @property
    def samples(self) -> int:
        """Number of samples in all pools."""
        return samples_in(self.counts)

    def domains(self, pool: str) -> list[str]:
        """Return the domains, and the components of passages, of which a pool has samples."""
        return sorted(
            {key.split(".", 2)[2] for key, count in self.counts.items() if count and key.startswith(f"samples.{pool}.")}
        )

    def figure(self, name: str, pool: str, domain: str) -> int:
        """Return one of the counts."""
        return self.counts.get(f"{name}.{pool}.{domain}", 0)

    def configs(self) -> list[Config]:
        """List the pools with samples and loadable files, starting with `sft`, which is the default."""
        configs = []
        for pool in sorted(POOLS, key=lambda pool: pool != "sft"):
            pool_files = [file for file in self.files if file.name.startswith(f"{pool}/")]
            files = tuple(file for file in pool_files if file.name.endswith(".parquet"))
            has_lines_alone = pool == "eval" and len(files) * 2 != len(pool_files)  # an earlier version wrote them
            figures = [
                sum(self.figure(name, pool, domain) for domain in self.domains(pool))
                for name in ("samples", "tokens", "loss_tokens")
            ]
            if figures[0] and not has_lines_alone:
                configs.append(Config(pool, *_FOUND[pool], files, *figures))
        return configs


def samples_in(counts: Mapping[str, int]) -> int:
    """Return the number of samples in all pools, from the counts of a manifest."""
    return sum(count for key, count in counts.items() if key.startswith("samples."))
