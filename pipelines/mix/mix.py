"""Mix: judged transitions to shards of disjoint pools, through the exchange.

A group of trajectories is given one pool by the hash of its name, before anything is expanded. Samples are spread over
a pool's shards by the hash of their id and sorted by it within a shard, so a shard does not depend on how the work was
cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.execution.exchange import BLOCK_BYTES, Exchange
from trajmill.pipelines.execution.flow import Collection, Map, MapTuple, Transform
from trajmill.pipelines.execution.memory import give_back_memory
from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.mix.drawn_samples import Made, samples
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.mixing import STAGE, Mixing
from trajmill.pipelines.mix.mixture import read_draws
from trajmill.pipelines.mix.passages.drawing import drawn_passages
from trajmill.pipelines.mix.passages.preparation import PassageUnit
from trajmill.pipelines.mix.sample_columns import made_schema
from trajmill.pipelines.mix.shard_writing import write_shard
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import write_parquet
from trajmill.pipelines.storage.units import finish_unit
from trajmill.schemas import REJECT_SCHEMA, SCHEMA_VERSION, Reject, reject_table
from trajmill.schemas.manifest import Manifest


def _drawn(unit: Unit | PassageUnit, mixing: Mixing) -> Iterator[Made]:
    if isinstance(unit, Unit):
        return samples(unit, mixing)
    assert mixing.passages is not None
    return drawn_passages(unit, mixing.passages, read_draws(mixing.draws, unit.label))


def sample_blocks(unit: Unit | PassageUnit, mixing: Mixing) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Blocks of a unit's samples with the number of the shard they belong to; rejects are written on the way.

    The first unit also gives every shard a block without rows, so that a shard which no sample falls to is written too.
    """
    if unit.number == 0:
        for number in sorted(mixing.open):
            yield number, pa.RecordBatch.from_pylist([], schema=made_schema(mixing.shards[number].pool))
    by_place = {(shard.pool, shard.domain, shard.index): shard for shard in mixing.shards}
    rejects: list[Reject] = []
    made = 0
    for pool, domain, sample in _drawn(unit, mixing):
        if isinstance(sample, Reject):
            rejects.append(sample)
            continue
        for index, block in blocks_by_shard(sample, by_place[pool, domain, 0].count, mixing.recipe.mix.seed):
            made += block.nbytes
            shard = by_place[pool, domain, index]
            if shard.number in mixing.open:
                yield shard.number, block
    _write_rejects(unit, mixing, rejects)
    if made >= _LARGE:
        give_back_memory()


def blocks_by_shard(made: pa.RecordBatch, count: int, seed: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The samples of each of `count` shards with its index, in blocks of bounded size and with memory of their own."""
    hashes, many = made["_hash"].to_numpy(), np.uint64(count)
    if "sample_id" in made.schema.names:  # held-out turns of a trajectory stand in one file
        hashes = np.array([keyed_hash(f"file:{row}", seed) for row in made["_row"].to_pylist()], np.uint64)
    above, below = hashes >> _HALF, hashes & np.uint64(0xFFFFFFFF)
    index = (above * many + (below * many >> _HALF) >> _HALF).astype(np.int64)  # the upper 64 bits of hash * count
    order = np.argsort(index, kind="stable")
    ordered, weights = index[order], np.cumsum(_weights(made)[order])
    cut = (ordered[1:] != ordered[:-1]) | (np.diff(weights // (BLOCK_BYTES // 2)) > 0)
    if not cut.any():
        yield int(index[0]), made
        return
    for rows in np.split(order, np.flatnonzero(cut) + 1):
        yield int(index[rows[0]]), made.take(pa.array(rows))


_HALF: Final = np.uint64(32)
_LEAST: Final = 512
"""What a sample weighs besides its texts."""


def _weights(made: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """What each sample weighs, by the bytes of its texts."""
    sizes: npt.NDArray[np.int64] = np.full(made.num_rows, _LEAST)
    for name in ("text", "messages", "prompt", "response"):
        if name not in made.schema.names:
            continue
        column = made[name]
        if pa.types.is_string(column.type):
            sizes += pc.binary_length(column).to_numpy()
            continue
        texts = column.values.field("content") if pa.types.is_struct(column.type.value_type) else column.values
        ends = np.append(0, np.cumsum(pc.binary_length(texts).to_numpy()))
        sizes += np.diff(ends[column.offsets.to_numpy()])
    return sizes


def _write_rejects(unit: Unit | PassageUnit, mixing: Mixing, rejects: list[Reject]) -> None:
    table = reject_table(sorted(rejects, key=lambda one: (one.trajectory_id, one.step))).combine_chunks()
    entry = write_parquet(mixing.rejects, f"{unit.label}.parquet", REJECT_SCHEMA, table.to_batches())
    dropped = Counter(reject.reason for reject in rejects if reject.unit == "trajectory")
    counts = {f"trajectories.dropped.{name}": number for name, number in sorted(dropped.items())}
    finish_unit(mixing.rejects, Manifest(STAGE, unit.label, mixing.digest, SCHEMA_VERSION, (entry,), counts))


_LARGE: Final = 32 << 20
"""Characters of a unit's samples from which on what was freed of them goes back to the system: that of smaller ones is
sooner used again than had anew."""


def _numbered(unit: Unit | PassageUnit) -> tuple[int, Unit | PassageUnit]:
    return unit.number, unit


class UnitsToShards(Transform):
    """Unit → the manifests of all open shards.

    Args:
        mixing: with its shards laid out.
        spill_folder: as of `Exchange`.
    """

    def __init__(self, mixing: Mixing, spill_folder: Folder | None) -> None:
        super().__init__()
        self._mixing = mixing
        self._spill = spill_folder

    def expand(self, units: Collection[Unit | PassageUnit]) -> Collection[Manifest]:
        mixing = self._mixing
        return (
            units
            | "Number" >> Map(_numbered)
            | "Exchange" >> Exchange(partial(sample_blocks, mixing=mixing), self._spill)
            | "Write" >> MapTuple(partial(write_shard, mixing=mixing))
        )
