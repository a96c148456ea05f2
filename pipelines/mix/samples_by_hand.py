"""A share of the mixing in a separate process without a runner, beside others at the same time.

The draw decides over the whole corpus, so a run that stops after it comes first. Shares then make the samples of their
units in `samples/`. Once all units have samples, the same command writes shards: each process its share, from the
samples of all units. The run that follows seals the result and removes `samples/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from trajmill.pipelines.execution.dispatch import run_over
from trajmill.pipelines.execution.execution import Execution, require_openable
from trajmill.pipelines.execution.flow import Map
from trajmill.pipelines.judge.judging import Unit, units_in
from trajmill.pipelines.mix.mix import BLOCKS, sample_blocks, stored_blocks
from trajmill.pipelines.mix.mixing import REPLAYS, SAMPLES, STAGE, Mixing, Shard, lay_out_shards, shard_names
from trajmill.pipelines.mix.shard_writing import write_shard
from trajmill.pipelines.mix.simulation_instructions import read_instructions
from trajmill.pipelines.normalize.parts_by_hand import Share, ShareDone
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import BLOBS, Identity, Ownership
from trajmill.pipelines.storage.parquet import write_parquet
from trajmill.pipelines.storage.units import MANIFEST, done_units, finish_unit, manifest_names, read_manifest
from trajmill.schemas import SCHEMA_VERSION, ConfigError
from trajmill.schemas.manifest import Manifest


def mix_share(recipe: Recipe, raws: Sequence[str], out: str, share: Share, execution: Execution) -> ShareDone:
    """Make the samples of a share of a run's units, or write a share of its shards if all samples are made.

    Args:
        out: output folder of the run that drew, a path or a URL.

    Raises:
        ConfigError: the folder belongs to another run, or nothing is drawn there.
        ShardError: a file of the folder cannot be read or written; repeating the share resumes it.
    """
    require_openable([*raws, out])
    folder = Folder.named(out)
    owner = Ownership(folder, Identity.of(recipe, raws))
    owner.check(raws)
    mixing = _mixing(recipe, folder)
    units = units_in(folder)
    labels = [unit.label for unit in units]
    names = {f"{SAMPLES}/{label}.parquet" for label in labels} | manifest_names(SAMPLES, labels)
    with owner.shared(names | shard_names(mixing.shards, labels)):
        finished_labels = done_units(mixing.stages / SAMPLES, dict.fromkeys(labels, mixing.digest))
        if len(finished_labels) == len(labels) and not recipe.mix.passages:
            shards = mixing.shards[share.number :: share.count]
            written = done_units(mixing.stages / "shards", {shard.label: mixing.digest for shard in shards})
            todo = [shard for shard in shards if shard.label not in written]
            run_over(todo, Map(partial(_write, labels=labels, mixing=mixing)), execution)
            return ShareDone(len(shards), len(written))
        mine = units[share.number :: share.count]
        open_units = [unit for unit in mine if unit.label not in finished_labels]
        run_over(open_units, Map(partial(_make, mixing=mixing)), execution)
    return ShareDone(len(mine), len(mine) - len(open_units))


def _make(unit: Unit, mixing: Mixing) -> None:
    entry = write_parquet(mixing.stages / SAMPLES, f"{unit.label}.parquet", BLOCKS, _batches(unit, mixing))
    finish_unit(mixing.stages / SAMPLES, Manifest(STAGE, unit.label, mixing.digest, SCHEMA_VERSION, (entry,)))


def _batches(unit: Unit, mixing: Mixing) -> Iterator[pa.RecordBatch]:
    for number, block in sample_blocks(unit, mixing):
        yield pa.RecordBatch.from_arrays(
            [pa.array([number], pa.int32()), pa.array([block.serialize().to_pybytes()], pa.large_binary())],
            schema=BLOCKS,
        )


def _write(shard: Shard, labels: Sequence[str], mixing: Mixing) -> None:
    wanted = frozenset([shard.number])
    blocks = (block for label in labels for _, block in stored_blocks(mixing.stages / SAMPLES, label, wanted))
    write_shard(shard.number, blocks, mixing)


def _mixing(recipe: Recipe, folder: Folder) -> Mixing:
    """Build the settings of mixing as a run does."""
    drawn = read_manifest(folder / "draws", MANIFEST)
    if drawn is None:
        raise ConfigError(
            f"{folder.path()} holds no finished draw, which --stage mix makes samples of. Run the same command with "
            "--stop-after draw, without --stage and --part, first."
        )
    shards = lay_out_shards(drawn.counts, recipe.mix)
    instructions = recipe.mix.instructions
    return Mixing(
        recipe,
        folder,
        drawn.digest,
        instructions={} if instructions is None else read_instructions(instructions),
        replays=folder / REPLAYS if recipe.mix.asks_replays else None,
        blobs=(folder / BLOBS,),
        shards=shards,
        open=frozenset(shard.number for shard in shards),
    )
