import re
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, origin, trajectory
from trajmill.schemas import Assembler, ContractError
from trajmill.schemas.invariants import check
from trajmill.schemas.row_ids import KEY, RowIds


def ids(batch: pa.RecordBatch) -> list[str]:
    return batch[KEY].to_pylist()


def inputs(*logs: tuple[str, list[str]]) -> pa.RecordBatch:
    """The trajectories of several inputs, (uri, what each shows), as one batch."""
    assembler = Assembler()
    for uri, texts in logs:
        for text in texts:
            assembler.add(trajectory(*text), origin(uri), {})
    return check(assembler.take())


def test_exact_copies_of_a_trajectory_have_rows_with_ids_of_their_own():
    batch = batch_of(*[trajectory("a", "b")] * 3)
    assert len(set(batch["trajectory_id"].to_pylist())) == 1
    assert len(set(ids(batch))) == 6
    for row in batch.to_pylist():
        key, copy, step = row[KEY].split("-")
        assert (key, int(step)) == (row["trajectory_id"], row["step"])
        assert re.fullmatch("[0-9a-f]{16}", copy)


def test_copies_in_two_domains_of_one_input_are_told_apart():
    assembler = Assembler()
    for domain in ("web", "os"):
        assembler.add(trajectory("a", domain=domain), origin("log"), {})
    rows = assembler.take().to_pylist()
    assert rows[0]["trajectory_id"] == rows[1]["trajectory_id"]
    assert rows[0][KEY] != rows[1][KEY]


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.lists(st.sampled_from(["a", "ab", "ba"]), max_size=4)), max_size=4),
    st.lists(st.integers(0, 40)),
)
def test_ids_are_the_same_however_the_rows_are_cut_into_batches(logs, cuts):
    batch = inputs(*[(uri + str(number), texts) for number, (uri, texts) in enumerate(logs)])
    bounds = [0, *sorted(min(cut, batch.num_rows) for cut in cuts), batch.num_rows]
    row_ids = RowIds()
    again = [id_ for low, high in pairwise(bounds) for id_ in ids_of(row_ids, batch, low, high)]
    assert again == ids(batch)
    assert len(set(again)) == batch.num_rows


def ids_of(row_ids: RowIds, batch: pa.RecordBatch, low: int, high: int) -> list[str]:
    keys: list[str] = row_ids.of(batch.slice(low, high - low)).to_pylist()
    return keys


def test_a_long_trajectory_that_is_taken_in_blocks_is_one_copy():
    assembler = Assembler(segment_bytes=4000, block_bytes=1000)
    copies = (trajectory(*["x" * 900] * 8) for _ in range(2))
    batches = [check(assembler.take()) for copy in copies for _ in assembler.add_blocks(copy, origin(), {})]
    assert len(batches) > 8
    keys = [key for batch in batches for key in ids(batch)]
    assert len(set(keys)) == 16
    assert len({key.rsplit("-", 1)[0] for key in keys}) == 2


def changed(batch: pa.RecordBatch, keys: list[str | None]) -> pa.RecordBatch:
    field = batch.schema.field(KEY)
    return batch.set_column(batch.schema.get_field_index(KEY), field, pa.array(keys, pa.string()))


@pytest.mark.parametrize("fault", ["null", "of another trajectory", "of another step", "copy", "twice", "copy changes"])
def test_an_id_that_is_none_is_a_breach(fault):
    batch = batch_of(trajectory("a", "b"), trajectory("a", "b"))
    keys: list[str | None] = list(ids(batch))
    first = str(keys[0])
    columns = {
        "null": [None, *keys[1:]],
        "of another trajectory": ["0" * 32 + first[32:], *keys[1:]],
        "of another step": [first[:-1] + "7", *keys[1:]],
        "copy": [first[:33] + "X" * 16 + first[49:], *keys[1:]],
        "twice": keys[:2] * 2,
        "copy changes": [first[:33] + "0" * 16 + first[49:], *keys[1:]],
    }[fault]
    with pytest.raises(ContractError, match=KEY):
        check(changed(batch, columns))


def test_the_id_of_a_row_is_pinned():
    log = replace(trajectory("a"), native_id="n")
    key = "7c7b0631814cbd26047db16e9d0b11c1"
    assert ids(batch_of(log, log)) == [f"{key}-bfc7c42c8db5a197-0", f"{key}-652d08a5c8aa24ed-0"]
