"""Samples made by columns are those made row by row, whatever the view, the copies and the row groups."""

from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.engine.exchange import BLOCK_BYTES
from pipelines.mix.drawn_rows import WholeRows
from pipelines.mix.keyed import keyed_hash
from pipelines.mix.mix import blocks_by_shard
from pipelines.mix.sample_columns import made_schema
from pipelines.mix.samples import Unlearnable, samples_of
from pipelines.mix.whole_samples import UnitRows, WholeSamples, whole_samples
from pipelines.recipe.recipe import Mix
from pipelines.rendering.turns import View
from quality.tokens import TokenCounter
from tests.conftest import FUZZ
from tests.pipelines.rendering.costed import NEEDED, batch_of, costed, costs_of
from tests.pipelines.rendering.test_costs import MIXES, UNIT
from tests.pipelines.rendering.test_turns import row

COUNTER = TokenCounter()
OWNED = {"group": "g1", "task_hash": "t1", "instance_hash": "i1"}


def draws_of(names: list[str], pool: str, copies: int = 1) -> list[dict[str, Any]]:
    return [{"trajectory_id": name, "pool": pool, "copies": copies, **OWNED} for name in names]


def wholes_of(pool: Any, rows: list[dict[str, Any]], mix: Mix, copies: int = 1) -> WholeSamples:
    """The trajectories of rows of one domain that are made by columns."""
    names = list(dict.fromkeys(one["trajectory_id"] for one in rows))
    ordinal = np.array([names.index(one["trajectory_id"]) for one in rows])
    use = np.array([one["use"] for one in rows], object)
    costs = costs_of(rows, View.of(mix), COUNTER)
    unit = UnitRows(costs, use, ordinal, np.ones(len(rows), np.bool_), rows[0]["domain"])
    found = whole_samples(pool, unit, draws_of(names, pool, copies), mix, COUNTER)
    assert found is not None
    return found


def by_rows(pool: Any, rows: list[dict[str, Any]], mix: Mix) -> dict[str, list[Any]]:
    """What each trajectory becomes, row by row."""
    told = costed([{**one, **OWNED} for one in rows], View.of(mix), COUNTER)
    found: dict[str, list[Any]] = {}
    for name, part in groupby(told, key=itemgetter("trajectory_id")):
        for window, sample in samples_of(pool, list(part), mix, COUNTER):
            if not isinstance(sample, Unlearnable):
                sample |= {"_hash": keyed_hash(f"order:{sample['_id']}", mix.seed), "_row": window[0]["row_id"]}
            found.setdefault(name, []).append(sample)
    return found


def read(pool: str, made: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return pa.Table.from_batches(made, made_schema(pool)).to_pylist()


@pytest.mark.parametrize("pool", ["cpt", "sft"])
@settings(max_examples=24 * FUZZ)
@given(unit=UNIT, mix=MIXES, most=st.sampled_from([None, 2500]), cut=st.integers(0, 30), plain=st.booleans())
def test_a_trajectory_that_is_shown_whole_is_the_same_sample(pool, unit, mix, most, cut, plain):
    mix = mix.model_copy(update={"window_tokens": dict.fromkeys(("cpt", "sft", "rl", "eval"), most)})
    every = [{**one, "row_id": f"{one['trajectory_id']}{one['step']}"} for part in unit for one in part]
    for domain in sorted({one["domain"] for one in every}):
        rows = [one for one in every if one["domain"] == domain]
        batch = batch_of(rows, [*NEEDED, "source"])
        if not plain:  # as they are read from a file
            place = batch.schema.get_field_index("source")
            batch = batch.set_column(place, "source", batch["source"].dictionary_encode())
        wholes, wanted = wholes_of(pool, rows, mix), by_rows(pool, rows, mix)
        made, inside = [], np.zeros(len(rows), np.bool_)
        for first, past in ((0, min(cut, len(rows))), (min(cut, len(rows)), len(rows))):
            inside[first:past] = wholes.within(first, past - first)
            made += list(wholes.of(WholeRows(first, batch.slice(first, past - first))))
        names = [one["trajectory_id"] for one, here in zip(rows, inside, strict=True) if here]
        assert read(pool, made) == [sample for name in dict.fromkeys(names) for sample in wanted[name]]
        for name, some in wanted.items():
            own = [number for number, one in enumerate(rows) if one["trajectory_id"] == name]
            assert inside[own].all() or not inside[own].any()
            is_cut = own[0] < cut <= own[-1]
            keeps = mix.harness == "keep" and any(rows[number]["interleaved"] for number in own)
            is_one = len(some) == 1 and not isinstance(some[0], Unlearnable) and (most is None or is_short(some[0]))
            assert inside[own].all() == (is_one and not is_cut and not keeps)


def is_short(sample: dict[str, Any]) -> bool:
    """Whether a sample is surely no window of a longer trajectory that the bound of the test cuts."""
    return bool(sample["num_tokens"] + 17 * sample["num_turns"] + 4 < 2500)


def test_a_trajectory_that_is_drawn_twice_is_there_twice():
    rows = [{**row(0, "ls", "a"), "trajectory_id": "t", "domain": "web", "source": "s"}]
    group = WholeRows(0, batch_of(rows, [*NEEDED, "source"]))
    (made,) = wholes_of("sft", rows, Mix(), copies=2).of(group)
    assert made.num_rows == 2
    assert made.slice(0, 1).equals(made.slice(1, 1))


def test_samples_go_to_the_shards_of_their_hashes_in_bounded_blocks():
    text = "x" * (BLOCK_BYTES // 5)
    rows = [
        {**row(0, f"ls {n}", text), "trajectory_id": f"t{n}", "row_id": f"r{n}", "domain": "web", "source": "s"}
        for n in range(12)
    ]
    made = list(wholes_of("sft", rows, Mix()).of(WholeRows(0, batch_of(rows, [*NEEDED, "source"]))))
    blocks = [block for batch in made for block in blocks_by_shard(batch, 3)]
    told = [(index, sample["_hash"]) for index, block in blocks for sample in block.to_pylist()]
    assert sorted(told) == sorted((one["_hash"] * 3 >> 64, one["_hash"]) for one in read("sft", made))
    assert len(told) == 12
    assert all(block.nbytes <= BLOCK_BYTES for _, block in blocks)
