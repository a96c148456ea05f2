"""Mix: judged transitions to shards of disjoint pools, through the exchange.

A group of trajectories is given one pool by the hash of its name, before anything is expanded. Samples are spread over
a pool's shards by the hash of their id and sorted by it within a shard, so a shard does not depend on how the work was
cut.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from pipelines.engine.exchange import BLOCK_BYTES, Block, Exchange
from pipelines.engine.flow import Collection, Map, MapTuple, Transform
from pipelines.engine.garbage_collection import give_back_memory, keeping_freed, rare_collections
from pipelines.engine.parquet import read_batches, read_table, write_parquet
from pipelines.engine.storage import Folder, sha256_of
from pipelines.engine.units import check_file, check_unit, finish_unit
from pipelines.judge.judging import Unit
from pipelines.judge.measure_files import costs_name
from pipelines.mix.certified import certified, replayed
from pipelines.mix.drawn_rows import WholeRows, rows_and_wholes
from pipelines.mix.keyed import keyed_hash
from pipelines.mix.mixture import read_answers, read_draws
from pipelines.mix.passages.drawing import drawn_passages
from pipelines.mix.passages.preparation import PassageUnit, Preparation
from pipelines.mix.questions import turn_powers
from pipelines.mix.sample_columns import ORDER, SAMPLE_SCHEMAS, made_schema
from pipelines.mix.samples import Unlearnable, held_out_kinds, samples_of, with_own_ids
from pipelines.mix.shard_layout import Shard
from pipelines.mix.simulation_instructions import instructed
from pipelines.mix.whole_samples import WHOLE_POOLS, UnitRows, WholeSamples, whole_samples
from pipelines.recipe.recipe import Pool, Recipe
from pipelines.recipe.templates import templates_digest
from pipelines.rendering.answered import Distractors
from pipelines.rendering.costs import COST_COLUMNS, COST_HASHES, COSTS_SCHEMA
from pipelines.rendering.turns import Rows
from quality.tokens import TokenCounter
from schemas import DOMAINS, REJECT_SCHEMA, SCHEMA_VERSION, Reject, reject_table
from schemas.manifest import FileEntry, Manifest
from schemas.verdict import SIGNAL_PREFIX

STAGE: Final = "mix"

_VERSION: Final = 3
"""Raised when equal rows become other files than before."""


@dataclass(frozen=True, slots=True)
class Mixing:
    """What mixing needs besides the units: picklable, the same for all.

    Attributes:
        passages: rows of other corpora that are passed through.
        instructions: to the simulator, by trajectory id.
        replays: where it stands which turns RL may ask for; None where it may ask for any.
        shards: every shard of the dataset.
        open: numbers of the shards still to be written.
    """

    recipe: Recipe
    transitions: Folder
    verdicts: Folder
    measures: Folder
    spans: Folder
    draws: Folder
    shards_folder: Folder
    rejects: Folder
    digest: str
    passages: Preparation | None = None
    instructions: Mapping[str, str] = field(default_factory=dict)
    replays: Folder | None = None
    shards: tuple[Shard, ...] = ()
    open: frozenset[int] = frozenset()


def mixing_digest(
    recipe: Recipe, verdicts: Manifest, passages: Manifest | None = None, replays: Manifest | None = None
) -> str:
    """Of all that shards depend on: recipe, templates, verdicts, by them the transitions, passages and replays."""
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


Made: TypeAlias = "tuple[str, str, dict[str, Any] | pa.RecordBatch | Reject]"
"""Pool, domain, and a sample, or many as columns (`made_schema`), or a reject where a pool has no use for it."""


def samples(unit: Unit, mixing: Mixing) -> Iterator[Made]:
    """The samples of every kept trajectory of a unit, or rejects.

    Raises:
        ShardError: transitions or verdicts are not those that were written.
    """
    check_file(mixing.transitions, unit.name, unit.sha256)
    kept, beside = _beside(unit, mixing)
    with keeping_freed() if _tokens(beside) < _LONG else nullcontext():
        yield from _samples(unit, kept, beside, mixing)


def _tokens(beside: pa.Table) -> int:
    shown = (pa.compute.sum(beside[name], min_count=0).as_py() for name in ("user_tokens", "answer_tokens"))
    return int(sum(shown))


def _samples(unit: Unit, kept: npt.NDArray[np.bool_], beside: pa.Table, mixing: Mixing) -> Iterator[Made]:
    draws = list(read_draws(mixing.draws, unit.label))
    asked, sizes = _asked(kept, beside, draws)
    for drawn, size in zip(draws, sizes.tolist(), strict=True):
        if not drawn["copies"]:
            detail = f"the mixture of pool {drawn['pool']} has no place for it"
            where = (drawn["trajectory_id"], -1, size)
            yield drawn["pool"], unit.domain, Reject("trajectory", "not_drawn", detail, "", "", -1, "", *where)
    mix, counter = mixing.recipe.mix, TokenCounter(mixing.recipe.judge.tokenizer)
    wholes = _wholes(unit, asked, beside, draws, mixing, counter)

    def whole(first: int, number: int) -> npt.NDArray[np.bool_]:
        return np.logical_or.reduce(
            [np.zeros(number, np.bool_), *(one.within(first, number) for one in wholes.values())]
        )

    others = _others(draws, mixing)
    envelopes = mix.mcp == "envelope"
    for rows in rows_and_wholes(mixing.transitions, unit.name, beside, asked, whole, envelopes=envelopes):
        if isinstance(rows, WholeRows):
            yield from ((pool, unit.domain, batch) for pool, one in wholes.items() for batch in one.of(rows))
        else:
            yield from _of_rows(rows, draws, mixing, counter, others)


def _wholes(
    unit: Unit,
    asked: npt.NDArray[np.bool_],
    beside: pa.Table,
    draws: Sequence[Mapping[str, Any]],
    mixing: Mixing,
    counter: TokenCounter,
) -> dict[Pool, WholeSamples]:
    """The trajectories of a unit that become samples by columns, by pool."""
    pools = {one["pool"] for one in draws if one["copies"]}
    if "spans" in beside.column_names or pools.isdisjoint(WHOLE_POOLS):
        return {}
    costs = pa.Table.from_batches(read_batches(mixing.measures, costs_name(unit.label)), COSTS_SCHEMA)
    use = np.array(beside["use"].to_pylist(), object)
    rows = UnitRows(costs.combine_chunks(), use, beside["ordinal"].to_numpy(), asked, unit.domain)
    told = mixing.instructions.keys()
    return {
        pool: whole_samples(pool, rows, draws, mixing.recipe.mix, counter, told)
        for pool in WHOLE_POOLS
        if pool in pools
    }


def _of_rows(
    rows: Rows, draws: Sequence[Mapping[str, Any]], mixing: Mixing, counter: TokenCounter, others: Distractors | None
) -> Iterator[Made]:
    """What a trajectory, or a segment of one, becomes, row by row."""
    mix, drawn = mixing.recipe.mix, draws[rows[0]["ordinal"]]
    first, pool = {**rows[0], **{name: drawn[name] for name in _OF_DRAWS}}, drawn["pool"]
    told = [first, *rows[1:]]
    shown = told if pool == "eval" else instructed(told, mixing.instructions, counter)
    for part, sample in samples_of(pool, shown, mix, counter, others):
        if isinstance(sample, Unlearnable):
            # a later segment or a window is no trajectory: its first row stands for it
            is_part = first["segment"] or part is not shown
            what, step = ("transition", part[0]["step"]) if is_part else ("trajectory", -1)
            where = (first["trajectory_id"], step, len(part))
            yield pool, first["domain"], Reject(what, sample.reason, sample.detail, "", "", -1, "", *where)
        else:
            sample["_hash"], sample["_row"] = keyed_hash(f"order:{sample['_id']}", mix.seed), part[0]["row_id"]
            for _ in range(drawn["copies"]):
                yield pool, first["domain"], sample


def _others(draws: Sequence[Mapping[str, Any]], mixing: Mixing) -> Distractors | None:
    """Answers by which checks of RL are tried; None for a unit that has no sample of RL."""
    return read_answers(mixing.draws) if any(one["pool"] == "rl" and one["copies"] for one in draws) else None


_OF_DRAWS: Final = ("group", "number", "task_hash", "instance_hash", "familiarity")
"""What the first row of a trajectory bears of what is drawn of it."""


def _beside(unit: Unit, mixing: Mixing) -> tuple[npt.NDArray[np.bool_], pa.Table]:
    """Which rows of a unit are kept, and what lies beside all of them, as `drawn_rows` takes it, with their segments.

    Raises:
        ShardError: it is not what was written.
    """
    check_unit(mixing.verdicts, unit.label)
    check_unit(mixing.measures, unit.label, costs_name(unit.label))
    costs = ["segment", *COST_COLUMNS, *COST_HASHES]
    weighing = [SIGNAL_PREFIX + name for name in turn_powers(mixing.recipe.mix)]
    judged = ["step", "kept", "use", *weighing]
    files = [(mixing.verdicts, unit.name, judged), (mixing.measures, costs_name(unit.label), costs)]
    if mixing.recipe.judge.spans:
        check_unit(mixing.spans, unit.label)
        files.append((mixing.spans, unit.name, ["spans"]))
    tables = [read_table(*file) for file in files]
    columns = {name: table[name] for table in tables for name in table.column_names}
    kept, step = columns.pop("kept").to_numpy(), columns.pop("step").to_numpy()
    if mixing.replays is not None:
        told = replayed(mixing.replays, mixing.verdicts, unit)
        mix = mixing.recipe.mix
        columns |= {"certified": certified(told)} if mix.rl == "certified" else {}
        columns |= {"written": told["written"]} if mix.databases else {}
    columns["ordinal"] = pa.chunked_array([np.cumsum(kept & (step == 0)) - 1])
    return kept, pa.table(columns)


def _asked(
    kept: npt.NDArray[np.bool_], beside: pa.Table, draws: Sequence[Mapping[str, Any]]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which rows samples are made of, and how many rows each trajectory has, or the first segment of a split one."""
    drawn = np.array([one["copies"] > 0 for one in draws], np.bool_)
    # one turn of a trajectory, and its first segment gives it
    has_one = np.array([one["pool"] in ("rl", "eval") for one in draws], np.bool_)
    of, is_first = beside["ordinal"].to_numpy()[kept], beside["segment"].to_numpy()[kept] == 0
    asked = kept.copy()
    asked[kept] = drawn[of] & (is_first | ~has_one[of])
    return asked, np.bincount(of[is_first], minlength=len(draws))


def _block(pool: str, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=made_schema(pool))


def _batch(pool: str, block: Block) -> pa.RecordBatch:
    """A block as `sample_blocks` gave it."""
    return pa.ipc.read_record_batch(pa.py_buffer(block), made_schema(pool)) if isinstance(block, bytes) else block


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
        yield from ((number, _block(mixing.shards[number].pool, [])) for number in sorted(mixing.open))
    by_place = {(shard.pool, shard.domain, shard.index): shard for shard in mixing.shards}
    waiting: dict[int, list[dict[str, Any]]] = {}
    sizes: Counter[int] = Counter()
    rejects: list[Reject] = []
    made = 0
    with rare_collections():
        for pool, domain, sample in _drawn(unit, mixing):
            if isinstance(sample, Reject):
                rejects.append(sample)
                continue
            count = by_place[pool, domain, 0].count
            if isinstance(sample, pa.RecordBatch):
                for index, block in _by_shard(sample, count):
                    made += block.nbytes
                    shard = by_place[pool, domain, index]
                    if shard.number in mixing.open:
                        yield shard.number, block
                continue
            # held-out turns of a trajectory stand in one file
            place = keyed_hash(f"file:{sample['_row']}", mixing.recipe.mix.seed) if pool == "eval" else sample["_hash"]
            shard = by_place[pool, domain, place * count >> 64]
            if shard.number not in mixing.open:
                continue
            waiting.setdefault(shard.number, []).append(sample)
            weight = _weight(sample)
            sizes[shard.number] += weight
            made += weight
            if sizes[shard.number] >= BLOCK_BYTES // 2:
                yield shard.number, _block(pool, waiting.pop(shard.number))
                sizes[shard.number] = 0
    for number, rows in sorted(waiting.items()):
        yield number, _block(mixing.shards[number].pool, rows)
    _write_rejects(unit, mixing, rejects)
    if made >= _LARGE:
        give_back_memory()


def _by_shard(made: pa.RecordBatch, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The samples of each of `count` shards with its index, in blocks of bounded size and with memory of their own."""
    hashes, many = made["_hash"].to_numpy(), np.uint64(count)
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
    if "text" in made.schema.names:
        return pa.compute.binary_length(made["text"]).to_numpy().astype(np.int64) + _LEAST
    sizes = np.append(0, np.cumsum(pa.compute.binary_length(made["messages"].values.field("content")).to_numpy()))
    return np.diff(sizes[made["messages"].offsets.to_numpy()]) + _LEAST


def _weight(sample: Mapping[str, Any]) -> int:
    texts: list[Any] = sample.get("messages") or sample.get("prompt") or [sample.get("text")]
    size = sum(len(text["content"] if isinstance(text, dict) else text or "") for text in texts)
    return size + sum(map(len, sample.get("response", ()))) + _LEAST


def _write_rejects(unit: Unit | PassageUnit, mixing: Mixing, rejects: list[Reject]) -> None:
    table = reject_table(sorted(rejects, key=lambda one: (one.trajectory_id, one.step))).combine_chunks()
    entry = write_parquet(mixing.rejects, f"{unit.label}.parquet", REJECT_SCHEMA, table.to_batches())
    dropped = Counter(reject.reason for reject in rejects if reject.unit == "trajectory")
    counts = {f"trajectories.dropped.{name}": number for name, number in sorted(dropped.items())}
    finish_unit(mixing.rejects, Manifest(STAGE, unit.label, mixing.digest, SCHEMA_VERSION, (entry,), counts))


def _ordered(pool: str, blocks: Iterable[Block]) -> pa.Table:
    """The samples of a shard in their order, in memory of their own: what was read of blocks is free again."""
    batches = [_batch(pool, block) for block in blocks]
    return pa.Table.from_batches(batches).sort_by([(name, "ascending") for name, _ in ORDER])


def write_shard(number: int, blocks: Iterable[Block], mixing: Mixing) -> Manifest:
    """Writes one shard from its blocks, in whatever order they come, and returns its manifest."""
    with keeping_freed():
        return _written(mixing.shards[number], blocks, mixing)


def _written(shard: Shard, blocks: Iterable[Block], mixing: Mixing) -> Manifest:
    ordered = _ordered(shard.pool, blocks)
    table = ordered.select(SAMPLE_SCHEMAS[shard.pool].names)
    table = with_own_ids(table, ordered["_id"].to_pylist(), shard.pool, mixing.recipe.mix).combine_chunks()
    entries = [] if shard.pool != "eval" else [_write_jsonl(mixing.shards_folder, shard.name, table)]
    name = shard.copy or shard.name
    entries.append(write_parquet(mixing.shards_folder, name, table.schema, _row_groups(table), shard=True))
    key = f"{shard.pool}.{shard.domain}"
    counts = {f"samples.{key}": table.num_rows}
    if shard.domain in DOMAINS:
        counts[f"trajectories.{key}"] = _begun(ordered)
        for what, name in (("control_turns", "_control_turns"), ("control_samples", "_control")):
            counts[f"{what}.{key}"] = pa.compute.sum(ordered[name].cast(pa.int64()), min_count=0).as_py()
    if shard.pool == "eval":
        counts |= {f"{name}.{key}": number for name, number in held_out_kinds(table).items()}
    for what, values in told_tokens(table).items():
        counts[f"{what}.{key}"] = pa.compute.sum(values, min_count=0).as_py()
    return finish_unit(
        mixing.shards_folder, Manifest(STAGE, shard.label, mixing.digest, SCHEMA_VERSION, tuple(entries), counts)
    )


def told_tokens(samples: pa.Table) -> dict[str, pa.ChunkedArray]:
    """The tokens of each sample, and those that bear the loss, as far as its pool tells them."""
    if "extra_info" in samples.schema.names:
        return {"tokens": pa.compute.struct_field(samples["extra_info"], "num_tokens")}
    told = {"tokens": "num_tokens", "loss_tokens": "num_loss_tokens"}
    return {name: samples[column] for name, column in told.items() if column in samples.schema.names}


def _begun(ordered: pa.Table) -> int:
    """How many trajectories the samples are of: a later segment, a window and what is drawn again count none."""
    first = ordered.filter(pa.compute.invert(pa.compute.match_substring_regex(ordered["_id"], "-[1-9]|@")))
    return len(first["_row"].unique())


_LONG: Final = 64 << 20
"""Tokens of a unit from which on memory is taken sparingly: one log may fill it."""

_LARGE: Final = 32 << 20
"""Characters of a unit's samples from which on what was freed of them goes back to the system: that of smaller ones is
sooner used again than had anew."""

SHARD_ROW_GROUP_BYTES: Final = 16 << 20


def _row_groups(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The table cut where its rows pass `SHARD_ROW_GROUP_BYTES`, so that readers can stream."""
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
            | "Number" >> Map(lambda unit: (unit.number, unit))
            | "Exchange" >> Exchange(lambda unit: sample_blocks(unit, mixing), self._spill)
            | "Write" >> MapTuple(lambda number, blocks: write_shard(number, blocks, mixing))
        )
