"""A dataset whose shards are written: what its card and its Croissant description are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trajmill.pipelines.publish.diversity import Varieties
from trajmill.pipelines.recipe.recipe import POOLS, Recipe
from trajmill.pipelines.run_record.conservation import Line
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas.manifest import FileEntry

ROWS: Final[Mapping[str, str]] = {
    "cpt": "a whole trajectory as text",
    "sft": "a conversation: user turn = action, assistant turn = observation, `loss` per message",
    "rl": "one turn of a trajectory as prompt, its observation as ground truth (`exact` is false where scrubbing "
    "touched the turn)",
    "eval": "one turn of a held-out trajectory, in AgentWorldBench's form",
}
"""What a row of each pool is."""

_FOUND: Final[Mapping[str, tuple[str, str]]] = {
    "cpt": ("train", "cpt/*/train-*.parquet"),
    "sft": ("train", "sft/*/train-*.parquet"),
    "rl": ("train", "rl/*/train-*.parquet"),
    "eval": ("test", "eval/*/test-*.parquet"),
}


@dataclass(frozen=True, slots=True)
class Config:
    """One loadable configuration of the dataset, which is a pool.

    Attributes:
        name: of the pool.
        split: its only one.
        path: glob of its files.
        files: that the glob finds.
        samples: in them.
        tokens: of the samples, 0 where they do not tell.
        loss_tokens: of those, the ones that bear the loss.
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
        """What a row is."""
        return ROWS[self.name]


@dataclass(frozen=True, slots=True)
class RuleSet:
    """What some generations in a row were made by.

    Attributes:
        first: the number of the first of them.
        last: the number of the last.
        recipe: the first 16 digits of the recipe's digest.
        connectors: that read their logs, and their versions.
        changed: what differs from the rule set before, a text each.
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
    """Everything that is told of a dataset.

    Attributes:
        recipe: by which it was made.
        shards: its folder.
        files: of samples, in it.
        counts: `samples.<pool>.<domain>`, `tokens.…`, `control_samples.…` and so on, summed over shards.
        flow: what went in and came out, by unit.
        digest: of what it holds.
        kept: the diversity of what was kept.
        mixture: what its pools and stages were given (`Mixture.told`).
        licences: samples by licence; that of rows which state none is empty.
        generations: of which it is.
        rules: by which these were made; empty where nothing was added.
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
        """In all pools."""
        return samples_in(self.counts)

    def domains(self, pool: str) -> list[str]:
        """Of a pool, the domains, and the components of passages, that it has samples of."""
        return sorted({key.split(".", 2)[2] for key, count in self.counts.items() if count and _is_of(key, pool)})

    def figure(self, what: str, pool: str, domain: str) -> int:
        """One of the counts."""
        return self.counts.get(f"{what}.{pool}.{domain}", 0)

    def configs(self) -> list[Config]:
        """The pools that hold a sample and files that load, `sft` first, since it is the default."""
        found = []
        for pool in sorted(POOLS, key=lambda pool: pool != "sft"):
            of = [file for file in self.files if file.name.startswith(f"{pool}/")]
            files = tuple(file for file in of if file.name.endswith(".parquet"))
            has_lines_alone = pool == "eval" and len(files) * 2 != len(of)  # an earlier version wrote them
            figures = [
                sum(self.figure(what, pool, domain) for domain in self.domains(pool))
                for what in ("samples", "tokens", "loss_tokens")
            ]
            if figures[0] and not has_lines_alone:
                found.append(Config(pool, *_FOUND[pool], files, *figures))
        return found


def samples_in(counts: Mapping[str, int]) -> int:
    """Samples of all pools, by the counts of a manifest."""
    return sum(count for key, count in counts.items() if key.startswith("samples."))


def _is_of(key: str, pool: str) -> bool:
    return key.startswith(f"samples.{pool}.")
