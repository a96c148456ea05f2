"""Writing of shards: ordered samples, one file per shard, with its manifest."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa

from trajmill.pipelines.execution.exchange import Block
from trajmill.pipelines.mix.mixing import STAGE, Mixing, Shard
from trajmill.pipelines.mix.sample_columns import ORDER, SHOWING, sample_schema, unwritten_schema
from trajmill.pipelines.mix.samples import count_eval_kinds, index_of
from trajmill.pipelines.mix.screenshots import with_images
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import write_parquet
from trajmill.pipelines.storage.units import finish_unit
from trajmill.schemas import DOMAINS, SCHEMA_VERSION
from trajmill.schemas.manifest import FileEntry, Manifest


def _batch(pool: str, block: Block) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(block), unwritten_schema(pool)) if isinstance(block, bytes) else block


def _order_samples(pool: str, blocks: Iterable[Block]) -> pa.Table:
    """Sort the samples of a shard in memory of their own, so that the memory of the blocks is freed."""
    batches = [_batch(pool, block) for block in blocks]
    return pa.Table.from_batches(batches).sort_by([(name, "ascending") for name, _ in ORDER])


def write_shard(number: int, blocks: Iterable[Block], mixing: Mixing) -> Manifest:
    """Write one shard from its blocks, in any order, and return its manifest."""
    return _write_files(mixing.shards[number], blocks, mixing)


def _write_files(shard: Shard, blocks: Iterable[Block], mixing: Mixing) -> Manifest:
    ordered = _order_samples(shard.pool, blocks)
    longest, lost = mixing.recipe.mix.images, 0
    if longest is not None and shard.pool in SHOWING:
        ordered, lost = with_images(ordered, shard.pool, mixing.blobs, longest)
    schema = sample_schema(shard.pool, images=longest is not None)
    table = ordered.select(schema.names).replace_schema_metadata(schema.metadata)
    table = _with_own_ids(table, ordered["_id"].to_pylist(), shard.pool, mixing.recipe.mix).combine_chunks()
    entries = [] if shard.pool != "eval" else [_write_jsonl(mixing.stages / "shards", shard.name, table)]
    name = shard.copy or shard.name
    entries.append(write_parquet(mixing.stages / "shards", name, table.schema, _row_groups(table), shard=True))
    key = f"{shard.pool}.{shard.domain}"
    counts = {f"samples.{key}": table.num_rows, **({f"images_lost.{key}": lost} if lost else {})}
    if shard.domain in DOMAINS:
        counts[f"trajectories.{key}"] = _count_trajectories(ordered)
        for measure, name in (("control_turns", "_control_turns"), ("control_samples", "_control")):
            counts[f"{measure}.{key}"] = pa.compute.sum(ordered[name].cast(pa.int64()), min_count=0).as_py()
    if shard.pool == "eval":
        counts |= {f"{name}.{key}": number for name, number in count_eval_kinds(table).items()}
    for measure, values in sample_sizes(table).items():
        counts[f"{measure}.{key}"] = pa.compute.sum(values, min_count=0).as_py()
    return finish_unit(
        mixing.stages / "shards", Manifest(STAGE, shard.label, mixing.digest, SCHEMA_VERSION, tuple(entries), counts)
    )


def sample_sizes(samples: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Return the tokens of each sample, its tokens under loss, and its pictures, as far as the pool has columns."""
    names = samples.schema.names
    picture_counts = {"images": pa.compute.list_value_length(samples["images"])} if "images" in names else {}
    if "extra_info" in names:
        return {"tokens": pa.compute.struct_field(samples["extra_info"], "num_tokens"), **picture_counts}
    size_columns = {"tokens": "num_tokens", "loss_tokens": "num_loss_tokens"}
    return {name: samples[column] for name, column in size_columns.items() if column in names} | picture_counts


def _count_trajectories(ordered: pa.Table) -> int:
    """Count the trajectories of the samples. Later segments, windows and repeated draws do not count."""
    first_samples = ordered.filter(pa.compute.invert(pa.compute.match_substring_regex(ordered["_id"], "-[1-9]|@")))
    return len(first_samples["_row"].unique())


SHARD_ROW_GROUP_BYTES: Final = 16 << 20


def _row_groups(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Cut the table where its rows exceed `SHARD_ROW_GROUP_BYTES`, so that readers can stream it."""
    if not table.num_rows:
        return
    size = max(1, table.nbytes // table.num_rows)
    step = max(1, SHARD_ROW_GROUP_BYTES // size)
    for start in range(0, table.num_rows, step):
        yield from table.slice(start, step).combine_chunks().to_batches()


def _write_jsonl(folder: Folder, name: str, table: pa.Table) -> FileEntry:
    digest, size = hashlib.sha256(), 0
    with folder.writing(name) as path, open(path, "wb") as stream:
        for group in _row_groups(table):
            for row in group.to_pylist():
                line = orjson.dumps(row) + b"\n"
                stream.write(line)
                digest.update(line)
                size += len(line)
    return FileEntry(name, table.num_rows, size, digest.hexdigest())


def _with_own_ids(samples: pa.Table, keys: Sequence[str], pool: str, mix: Mix) -> pa.Table:
    """Give samples with the same id distinct ones: the second becomes `<id>.2`, and so on.

    Exact copies, if the recipe keeps them, share the id of their trajectory. They all go to one shard, so they can be
    numbered there.

    Args:
        samples: samples in the order of the shard.
    """
    counts: Counter[str] = Counter()
    own: dict[int, str] = {}
    for row, key in enumerate(keys):
        counts[key] += 1
        if counts[key] > 1:
            own[row] = f"{key}.{counts[key]}"
    if not own:
        return samples
    numbers = {row: index_of(key, mix.seed) for row, key in own.items()}
    if pool == "eval":
        return _replace_values(_replace_values(samples, "id", numbers), "sample_id", own)
    if pool != "rl":
        return _replace_values(samples, "id", own)
    infos_before = samples["extra_info"].to_pylist()
    turns = {row: infos_before[row]["id"].rpartition(":")[2] for row in own}
    infos = {row: {**infos_before[row], "id": f"{key}:{turns[row]}"} for row, key in own.items()}
    return _replace_values(samples, "extra_info", infos)


def _replace_values(table: pa.Table, name: str, values: Mapping[int, Any]) -> pa.Table:
    """Replace the values in some rows of a column."""
    new_values = [values.get(row, value) for row, value in enumerate(table[name].to_pylist())]
    position = table.schema.get_field_index(name)
    return table.set_column(position, table.schema.field(name), pa.array(new_values, table.schema.field(name).type))
