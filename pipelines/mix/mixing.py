"""Settings of mixing, and the digest of everything that shards depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trajmill.pipelines.mix.passages.preparation import Preparation
from trajmill.pipelines.recipe.recipe import POOLS, Mix, Recipe
from trajmill.pipelines.recipe.templates import templates_digest
from trajmill.pipelines.storage.folders import Folder, sha256_of
from trajmill.pipelines.storage.units import manifest_names
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of the dataset: its number among all shards, pool, domain, index and count of these, generation."""

    number: int
    pool: str
    domain: str
    index: int
    count: int
    generation: int = 1

    @property
    def name(self) -> str:
        """Name of the file in the dataset folder."""
        if self.pool == "eval":
            parts = [f"g{self.generation:04d}"] * (self.generation > 1) + [f"{self.index:05d}"] * (self.count > 1)
            return f"eval/{'_'.join(filter(None, (self.domain, '-'.join(parts))))}_test.jsonl"
        return f"{self.pool}/{self.domain}/train-{self._place}.parquet"

    @property
    def copy(self) -> str:
        """In eval, the name of the same rows as Parquet, which `datasets` loads beside other pools; else empty."""
        return f"eval/{self.domain}/test-{self._place}.parquet" if self.pool == "eval" else ""

    @property
    def _place(self) -> str:
        if self.generation > 1:
            return f"g{self.generation:04d}-{self.index:05d}"
        return f"{self.index:05d}-of-{self.count:05d}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all files of the shard."""
        return (self.name, self.copy) if self.copy else (self.name,)

    @property
    def label(self) -> str:
        """Name of the shard without folders."""
        added = f"g{self.generation:04d}-" if self.generation > 1 else ""
        return f"{added}{self.pool}-{self.domain}-{self.index:05d}"


def lay_out_shards(counts: Mapping[str, int], mix: Mix, generation: int = 1) -> tuple[Shard, ...]:
    """Lay out the shards that a generation adds, from the bytes of text drawn for each pool and domain."""
    shards: list[Shard] = []
    for pool in POOLS:
        for key in sorted(counts):
            kind, *where = key.split(".")
            if kind == "text_bytes" and where[0] == pool:
                count = max(1, -(-counts[key] // mix.shard_bytes))
                shards += [Shard(len(shards) + i, pool, where[1], i, count, generation) for i in range(count)]
    return tuple(shards)


STAGE: Final = "mix"
REPLAYS: Final = "replays"

SAMPLES: Final = "samples"
"""Folder of samples that shares of the mixing store before their shards are written."""


def shard_names(shards: Sequence[Shard], labels: Sequence[str]) -> set[str]:
    """Return the names of all files that mixing units to shards writes, relative to the output folder."""
    names = {f"shards/{name}" for shard in shards for name in shard.names}
    names |= {f"rejects/{STAGE}/{label}.parquet" for label in labels}
    names |= manifest_names("shards", [shard.label for shard in shards])
    return names | manifest_names(f"rejects/{STAGE}", labels)


_VERSION: Final = 8
"""Version of the shards' content. It is raised when equal rows become other files than before."""


@dataclass(frozen=True, slots=True)
class Mixing:
    """Settings of mixing besides the units: picklable, the same for all.

    Attributes:
        stages: folder of the run's stages.
        passages: settings of passages, rows of other corpora that are passed through.
        instructions: simulation instructions by trajectory id.
        replays: folder of the replays that determine which turns RL may ask for; None if it may ask for any.
        blobs: folders of attachments.
        shards: every shard of the dataset.
        open: numbers of the shards still to be written.
        made: labels of the units whose samples are stored already.
    """

    recipe: Recipe
    stages: Folder
    digest: str
    passages: Preparation | None = None
    instructions: Mapping[str, str] = field(default_factory=dict)
    replays: Folder | None = None
    blobs: tuple[Folder, ...] = ()
    shards: tuple[Shard, ...] = ()
    open: frozenset[int] = frozenset()
    made: frozenset[str] = frozenset()


def mixing_digest(
    recipe: Recipe, verdicts: Manifest, passages: Manifest | None = None, replays: Manifest | None = None
) -> str:
    """Digest everything that shards depend on.

    This is the recipe, templates, verdicts and with them transitions, passages and replays.
    """
    templates = templates_digest(None if recipe.mix.templates is None else Path(recipe.mix.templates))
    content: list[Any] = [
        _VERSION,
        SCHEMA_VERSION,
        recipe.digest(),
        templates,
        verdicts.digest,
        [[f.name, f.sha256] for f in verdicts.files],
    ]
    if recipe.mix.instructions is not None:
        content.append(sha256_of(recipe.mix.instructions))
    if recipe.mix.values is not None:
        content.append(["values", sha256_of(recipe.mix.values)])
    if passages is not None:
        content += [passages.digest, [[file.name, file.sha256] for file in passages.files]]
    if replays is not None:
        content.append([[file.name, file.sha256] for file in replays.files])
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
