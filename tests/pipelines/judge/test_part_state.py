"""State of a part during judging: which rows bear the loss, given what was measured and decided so far."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.pipelines.judge.packed_rows import partition_records
from trajmill.pipelines.judge.part_state import LIMITS, Standing
from trajmill.pipelines.judge.reasons import REASONS

OMITS = [reason.name for reason in REASONS if not reason.whole]
DROPS = [reason.name for reason in REASONS if reason.whole]


def standing(lengths: list[int], **values: Any) -> Standing:
    """The state of trajectories of these lengths; what is not given takes nothing away."""
    rows, starts = sum(lengths), np.cumsum([0, *lengths[:-1]])
    decision = SimpleNamespace(
        trajectory=np.array(values.get("trajectory", [-1] * rows)),
        transition=np.array(values.get("transition", [-1] * rows)),
    )
    text = np.array(values.get("has_text", [True] * rows))
    state = Standing(None, None)  # type: ignore[arg-type]
    vars(state)["measures"] = SimpleNamespace(
        decision=decision, starts=starts, lengths=np.array(lengths), column={"has_text": text}.__getitem__
    )
    lost = {reason.name: {"row": np.array(values.get("lost", {}).get(reason.name, []), np.int64)} for reason in REASONS}
    vars(state)["losers"] = lost
    vars(state)["over"] = np.array(values.get("over", [-1] * rows), np.int16)
    return state


@pytest.mark.parametrize(
    ("values", "targets"),
    [
        ({}, [True] * 5),
        ({"has_text": [True, False, True, True, False]}, [True, False, True, True, False]),
        ({"transition": [-1, 0, -1, 3, -1]}, [True, False, True, False, True]),
        ({"over": [0, -1, -1, -1, 1]}, [False, True, True, True, False]),
        ({"trajectory": [-1, -1, 0, 0, 0]}, [True, True, False, False, False]),
        ({"lost": {DROPS[0]: [0]}}, [False, False, True, True, True]),
        ({"lost": {OMITS[0]: [0, 3]}}, [False, True, True, False, True]),
    ],
)
def test_a_row_bears_the_loss_unless_something_takes_it(values, targets):
    assert standing([2, 3], **values).targets().tolist() == targets


@given(st.lists(st.sampled_from([*DROPS, None]), min_size=1, max_size=6), st.data())
def test_a_trajectory_is_kept_unless_a_rule_or_a_reason_for_wholes_drops_it(reasons, data):
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=len(reasons), max_size=len(reasons)))
    starts = np.cumsum([0, *lengths[:-1]]).tolist()
    lost = {name: [start for start, value in zip(starts, reasons, strict=True) if value == name] for name in DROPS}
    is_kept = standing(lengths, lost=lost).kept().tolist()
    assert is_kept == [value is None for value, length in zip(reasons, lengths, strict=True) for _ in range(length)]


@pytest.mark.parametrize(
    ("reason", "left"),
    [
        *((name, 0) for name in ("simulated", "bridges_pools", "contaminated", "duplicate_trajectory")),
        *((name, 0) for name in ("near_duplicate", "harness_share", "no_target")),
        *((name, 1) for name in ("harness_text", "duplicate_transition", "replicate", "no_text")),
    ],
)
def test_a_reason_takes_the_loss_of_a_trajectory_or_of_one_row(reason, left):
    assert standing([2, 3], lost={reason: [0]}).targets().sum() == left + 3


def test_rows_over_the_cap_of_a_domain_count_for_no_cap_of_their_trajectory():
    rules = [SimpleNamespace(cap=0.2, of="domain"), SimpleNamespace(cap=0.5, of="trajectory")]
    stub: Any = SimpleNamespace(
        fetch_blocks=iter, recipe=SimpleNamespace(judge=SimpleNamespace(ordered_rules=lambda: rules))
    )
    none_of_the_first = np.array([0, 1 << 40], "<i8").tobytes()
    state = Standing(None, stub, {LIMITS: [none_of_the_first]})  # type: ignore[arg-type]
    base = standing([5])
    decision = SimpleNamespace(**vars(base.measures.decision), capped=np.array([0, 0, 1, 1, -1]))
    measures = SimpleNamespace(
        decision=decision,
        table=pa.table({"trajectory_id": ["t"] * 5, "step": range(5)}),
        column={"step": np.arange(5), "has_text": np.array([True] * 5)}.__getitem__,
        starts=base.measures.starts,
        lengths=base.measures.lengths,
    )
    vars(state).update(measures=measures, losers=base.losers)
    over = state.over.tolist()
    assert over[:2] == [0, 0]
    assert sorted(over[2:4]) == [-1, 1]  # one target is left, beside which as many may break the second rule
    assert over[4] == -1


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.sampled_from([1, 2, 64, 4096]))
def test_partitions_are_equal_ranges_of_the_key(keys, count):
    records = np.array([(key, number) for number, key in enumerate(keys)], [("key", "<u8"), ("row", "<u8")])
    parts = {number: np.frombuffer(data, records.dtype) for number, data in partition_records(records, "key", count)}
    assert {number: part["row"].tolist() for number, part in parts.items()} == {
        number: [row for row, key in enumerate(keys) if key * count >> 64 == number]
        for number in {key * count >> 64 for key in keys}
    }
