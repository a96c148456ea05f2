"""The mix stage: judged transitions become shards of disjoint pools, through the exchange.

Each group of trajectories has one pool, chosen before anything is rendered. Samples are spread over a pool's shards by
the hash of their id and sorted by it within a shard, so a shard does not depend on how the work was split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.execution.exchange import BLOCK_BYTES, Block, Exchange
from trajmill.pipelines.execution.flow import Collection, Map, MapTuple, Transform
from trajmill.pipelines.execution.memory import give_back_memory
from trajmill.pipelines.judge.judging import Unit, measure_file
from trajmill.pipelines.mix.drawn_rows import stretches
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.mixing import SAMPLES, STAGE, Mixing
from trajmill.pipelines.mix.mixture import read_answers, read_draws
from trajmill.pipelines.mix.passages.drawing import render_passages
from trajmill.pipelines.mix.passages.preparation import PassageUnit
from trajmill.pipelines.mix.questions import turn_powers
from trajmill.pipelines.mix.replay_results import is_certified, read_replays
from trajmill.pipelines.mix.sample_columns import unwritten_schema
from trajmill.pipelines.mix.sample_plan import Plan
from trajmill.pipelines.mix.samples import Assembler, leaves_of
from trajmill.pipelines.mix.shard_writing import write_shard
from trajmill.pipelines.mix.simulation_instructions import costs_with_instructions
from trajmill.pipelines.recipe.recipe import POOLS
from trajmill.pipelines.render.answered import Distractors
from trajmill.pipelines.render.costs import COST_HASHES, COUNTED
from trajmill.pipelines.render.unit_costs import UnitCosts
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, read_table, write_parquet
from trajmill.pipelines.storage.units import check_file, check_unit, finish_unit
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import REJECT_SCHEMA, SCHEMA_VERSION, Reject, reject_table
from trajmill.schemas.manifest import Manifest
from trajmill.schemas.verdict import SIGNAL_PREFIX

PoolSamples: TypeAlias = "tuple[str, str, pa.RecordBatch | Reject]"
"""Pool, domain, and samples as columns (`unwritten_schema`), or a reject of a trajectory that the pool does not use."""


def samples(unit: Unit, mixing: Mixing) -> Iterator[PoolSamples]:
    """Yield the samples of every kept trajectory of a unit, or rejects."""
    check_file(mixing.stages / "transitions", unit.name, unit.sha256)
    check_unit(mixing.stages / "verdicts", unit.label)
    check_unit(mixing.stages / "measures", unit.label, measure_file(unit.label, "costs"))
    mix, counter = mixing.recipe.mix, TokenCounter(mixing.recipe.judge.tokenizer)
    verdicts = read_table(mixing.stages / "verdicts", unit.name, ["step", "kept", "use"])
    costs = read_table(mixing.stages / "measures", measure_file(unit.label, "costs"), COUNTED)
    is_kept, step, segment = verdicts["kept"].to_numpy(), verdicts["step"].to_numpy(), costs["segment"].to_numpy()
    use, draws = np.array(verdicts["use"].to_pylist(), object), list(read_draws(mixing.stages / "draws", unit.label))
    ordinal = np.cumsum(is_kept & (step == 0)) - 1
    sizes = np.bincount(ordinal[is_kept & (segment == 0)], minlength=len(draws))
    for drawn, size in zip(draws, sizes.tolist(), strict=True):
        if not drawn["copies"]:
            detail = f"the mixture of pool {drawn['pool']} has no place for it"
            where = (drawn["trajectory_id"], -1, size)
            yield drawn["pool"], unit.domain, Reject("trajectory", "not_drawn", detail, "", "", -1, "", *where)
    wanted, beside = np.zeros(len(step), np.bool_), _read_columns(unit, mixing)
    assemblers: list[Assembler] = []
    pools = [pool for pool in POOLS if any(draw["copies"] and draw["pool"] == pool for draw in draws)]
    for pool in pools:
        mine = np.array([draw["pool"] == pool and draw["copies"] > 0 for draw in draws], np.bool_)
        # a trajectory gives one turn, from its first segment
        row_numbers = np.flatnonzero(is_kept & (segment == 0) if pool in ("rl", "eval") else is_kept)
        row_numbers = row_numbers[mine[ordinal[row_numbers]]]
        wanted[row_numbers] = True
        instructions = {} if pool == "eval" else mixing.instructions
        own = costs_with_instructions(costs.take(pa.array(row_numbers)).combine_chunks(), instructions, counter)
        plan = Plan(UnitCosts(own, use[row_numbers], unit.domain, counter), pool, mix, counter)
        other_answers = read_answers(mixing.stages / "draws") if pool in ("rl", "eval") else Distractors()
        trajectory_draws = [draws[number] for number in ordinal[row_numbers[plan.unit.begins]].tolist()]
        assemblers.append(Assembler(plan, row_numbers, trajectory_draws, beside, instructions, other_answers))
    parts = np.cumsum((step == 0) | (np.diff(segment, prepend=-1) != 0))
    hashes = tuple(costs[name].to_numpy() for name in COST_HASHES)
    leaves = leaves_of(pools, mix)
    for stretch in stretches(mixing.stages / "transitions", unit.name, parts, wanted, hashes, leaves) if pools else ():
        for pool, assembler in zip(pools, assemblers, strict=True):
            for batch in assembler.of(stretch):
                yield pool, unit.domain, batch


def _read_columns(unit: Unit, mixing: Mixing) -> dict[str, pa.ChunkedArray]:
    """Read the columns beside the rows of a unit that an `Assembler` takes."""
    mix, columns = mixing.recipe.mix, dict[str, pa.ChunkedArray]()
    if weighing := [SIGNAL_PREFIX + name for name in turn_powers(mix)]:
        table = read_table(mixing.stages / "verdicts", unit.name, weighing)
        columns |= {name: table[name] for name in weighing}
    if mixing.recipe.judge.spans:
        check_unit(mixing.stages / "spans", unit.label)
        columns["spans"] = read_table(mixing.stages / "spans", unit.name, ["spans"])["spans"]
    if mixing.replays is not None:
        replays = read_replays(mixing.replays, mixing.stages / "verdicts", unit)
        columns |= {"certified": is_certified(replays)} if mix.rl == "certified" else {}
        columns |= {"written": replays["written"]} if mix.databases else {}
    return columns


def _unit_samples(unit: Unit | PassageUnit, mixing: Mixing) -> Iterator[PoolSamples]:
    if isinstance(unit, Unit):
        return samples(unit, mixing)
    assert mixing.passages is not None
    return render_passages(unit, mixing.passages, read_draws(mixing.stages / "draws", unit.label))


BLOCKS: Final = pa.schema([("shard", pa.int32()), ("block", pa.large_binary())])
"""Schema of stored blocks of samples: one row, and one row group, per block."""


def stored_blocks(samples: Folder, label: str, wanted: Set[int]) -> Iterator[tuple[int, bytes]]:
    """Read a unit's stored blocks of the wanted shards."""
    name = f"{label}.parquet"
    numbers = read_table(samples, name, ["shard"])["shard"].to_pylist()
    groups = [group_number for group_number, number in enumerate(numbers) if number in wanted]
    for batch in read_batches(samples, name, groups=groups):
        yield batch["shard"][0].as_py(), batch["block"][0].as_py()


def read_or_make_blocks(unit: Unit | PassageUnit, mixing: Mixing) -> Iterator[tuple[int, Block]]:
    """Make the blocks of a unit, or read them if a share of the mixing has stored them."""
    if unit.label in mixing.made:
        return stored_blocks(mixing.stages / SAMPLES, unit.label, mixing.open)
    return sample_blocks(unit, mixing)


def sample_blocks(unit: Unit | PassageUnit, mixing: Mixing) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield blocks of a unit's samples with the number of their shard. Rejects are written on the way.

    The first unit also gives every shard a block without rows, so that a shard without samples is written too.
    """
    if unit.number == 0:
        for number in sorted(mixing.open):
            yield number, pa.RecordBatch.from_pylist([], schema=unwritten_schema(mixing.shards[number].pool))
    by_place = {(shard.pool, shard.domain, shard.index): shard for shard in mixing.shards}
    rejects: list[Reject] = []
    total_bytes = 0
    for pool, domain, sample in _unit_samples(unit, mixing):
        if isinstance(sample, Reject):
            rejects.append(sample)
            continue
        for index, block in blocks_by_shard(sample, by_place[pool, domain, 0].count, mixing.recipe.mix.seed):
            total_bytes += block.nbytes
            shard = by_place[pool, domain, index]
            if shard.number in mixing.open:
                yield shard.number, block
    _write_rejects(unit, mixing, rejects)
    if total_bytes >= _LARGE:
        give_back_memory()


def blocks_by_shard(batch: pa.RecordBatch, count: int, seed: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the samples of each of `count` shards with its index, in blocks of bounded size with their own memory."""
    hashes, many = batch["_hash"].to_numpy(), np.uint64(count)
    if "sample_id" in batch.schema.names:  # held-out turns of a trajectory stand in one file
        hashes = np.array([keyed_hash(f"file:{row}", seed) for row in batch["_row"].to_pylist()], np.uint64)
    above, below = hashes >> _HALF, hashes & np.uint64(0xFFFFFFFF)
    index = (above * many + (below * many >> _HALF) >> _HALF).astype(np.int64)  # the upper 64 bits of hash * count
    order = np.argsort(index, kind="stable")
    ordered, weights = index[order], np.cumsum(_weights(batch)[order])
    cut = (ordered[1:] != ordered[:-1]) | (np.diff(weights // (BLOCK_BYTES // 2)) > 0)
    if not cut.any():
        yield int(index[0]), batch
        return
    for rows in np.split(order, np.flatnonzero(cut) + 1):
        yield int(index[rows[0]]), batch.take(pa.array(rows))


_HALF: Final = np.uint64(32)
_LEAST: Final = 512
"""Weight of a sample besides its texts."""


def _weights(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Weigh each sample by the bytes of its texts."""
    sizes: npt.NDArray[np.int64] = np.full(batch.num_rows, _LEAST)
    for name in ("text", "messages", "prompt", "response"):
        if name not in batch.schema.names:
            continue
        column = batch[name]
        if pa.types.is_string(column.type):
            sizes += pc.binary_length(column).to_numpy()
            continue
        texts = column.values.field("content") if pa.types.is_struct(column.type.value_type) else column.values
        ends = np.append(0, np.cumsum(pc.binary_length(texts).to_numpy()))
        sizes += np.diff(ends[column.offsets.to_numpy()])
    return sizes


def _write_rejects(unit: Unit | PassageUnit, mixing: Mixing, rejects: list[Reject]) -> None:
    table = reject_table(sorted(rejects, key=lambda reject: (reject.trajectory_id, reject.step))).combine_chunks()
    folder = mixing.stages / "rejects" / STAGE
    entry = write_parquet(folder, f"{unit.label}.parquet", REJECT_SCHEMA, table.to_batches())
    dropped = Counter(reject.reason for reject in rejects if reject.unit == "trajectory")
    counts = {f"trajectories.dropped.{name}": number for name, number in sorted(dropped.items())}
    finish_unit(folder, Manifest(STAGE, unit.label, mixing.digest, SCHEMA_VERSION, (entry,), counts))


_LARGE: Final = 32 << 20
"""Bytes of a unit's samples above which freed memory is returned to the system.

Smaller amounts are reused sooner than they could be allocated anew.
"""


def _with_number(unit: Unit | PassageUnit) -> tuple[int, Unit | PassageUnit]:
    return unit.number, unit


class UnitsToShards(Transform):
    """Unit → the manifests of all open shards.

    Args:
        mixing: settings, with the shards laid out.
        spill_folder: as in `Exchange`.
    """

    def __init__(self, mixing: Mixing, spill_folder: Folder | None) -> None:
        super().__init__()
        self._mixing = mixing
        self._spill = spill_folder

    def expand(self, units: Collection[Unit | PassageUnit]) -> Collection[Manifest]:
        mixing = self._mixing
        return (
            units
            | "Number" >> Map(_with_number)
            | "Exchange" >> Exchange(partial(read_or_make_blocks, mixing=mixing), self._spill)
            | "Write" >> MapTuple(partial(write_shard, mixing=mixing))
        )
