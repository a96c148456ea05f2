"""Which files the dataset has: shards by pool and domain, as many as what is drawn of both asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trajmill.pipelines.recipe.recipe import POOLS, Mix


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of the dataset: its number among all, pool, domain, number among those of both, generation."""

    number: int
    pool: str
    domain: str
    index: int
    count: int
    generation: int = 1

    @property
    def name(self) -> str:
        """Its name in the dataset folder."""
        if self.pool == "eval":
            of = [f"g{self.generation:04d}"] * (self.generation > 1) + [f"{self.index:05d}"] * (self.count > 1)
            return f"eval/{'_'.join(filter(None, (self.domain, '-'.join(of))))}_test.jsonl"
        return f"{self.pool}/{self.domain}/train-{self._place}.parquet"

    @property
    def copy(self) -> str:
        """Of eval, the name of the same rows as Parquet, which `datasets` loads beside other pools; empty of others."""
        return f"eval/{self.domain}/test-{self._place}.parquet" if self.pool == "eval" else ""

    @property
    def _place(self) -> str:
        if self.generation > 1:
            return f"g{self.generation:04d}-{self.index:05d}"
        return f"{self.index:05d}-of-{self.count:05d}"

    @property
    def names(self) -> tuple[str, ...]:
        """Of all files that it is."""
        return (self.name, self.copy) if self.copy else (self.name,)

    @property
    def label(self) -> str:
        """Its name without folders."""
        added = f"g{self.generation:04d}-" if self.generation > 1 else ""
        return f"{added}{self.pool}-{self.domain}-{self.index:05d}"


def laid_out(counts: Mapping[str, int], mix: Mix, generation: int = 1) -> tuple[Shard, ...]:
    """Every shard that a generation adds, from the bytes of text that are drawn of each pool and domain."""
    shards: list[Shard] = []
    for pool in POOLS:
        for key in sorted(counts):
            kind, *where = key.split(".")
            if kind == "text_bytes" and where[0] == pool:
                count = max(1, -(-counts[key] // mix.shard_bytes))
                shards += [Shard(len(shards) + i, pool, where[1], i, count, generation) for i in range(count)]
    return tuple(shards)
