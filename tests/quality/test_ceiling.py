"""Noise ceilings: sums alike in any order, estimates by cell and by class, errors as if left out by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from trajmill.quality.ceiling import (
    CLASSES,
    FEWEST,
    PRIOR,
    ROWS_SCHEMA,
    Estimates,
    Pool,
    class_shares,
    summed,
    turn_buckets,
)
from trajmill.quality.spans import SPANS_SCHEMA

RATES = np.array([1.0, 0.9, 0.95, 0.5])


def measured(domain_noise: float = 0.0, rows: int = 400, tools: int = 5, seed: int = 1):
    """Histories whose agreement follows from their classes, in thousandths."""
    chance = np.random.default_rng(seed)
    shares = np.floor(chance.dirichlet(np.ones(4), rows) * 1000).astype(np.int64)
    shares[:, -1] = 1000 - shares[:, :-1].sum(axis=1)
    agreement = np.clip(shares @ RATES + 1000 * domain_noise, 0, 1000).round().astype(np.int64)
    tool = chance.integers(1, tools + 1, rows).astype(np.uint64)
    return tool, chance.integers(0, 3, rows), agreement, shares


def rows_of(tool, turn, shares) -> pa.Table:
    columns = [pa.array(tool, pa.uint64()), pa.array(turn, pa.uint8())]
    return pa.Table.from_arrays([*columns, *(pa.array(shares[:, n], pa.int16()) for n in range(4))], schema=ROWS_SCHEMA)


def test_sums_are_the_same_in_whatever_order_and_pieces_they_are_added():
    tool, turn, agreement, shares = measured()
    whole, pieces = Pool(), Pool()
    whole.add("mcp", summed(tool, turn, agreement, shares))
    for some in np.array_split(np.random.default_rng(2).permutation(len(tool)), 7):
        pieces.add("mcp", summed(tool[some], turn[some], agreement[some], shares[some]))
    assert whole.told() == pieces.told()
    again = Pool()
    again.add_told(whole.told())
    assert again.told() == whole.told()
    assert again.estimates("mcp") == whole.estimates("mcp")


def test_without_replicates_the_prior_stands_and_nothing_is_claimed_of_its_error():
    pool = Pool()
    assert pool.rates() == tuple(PRIOR.values())
    found = pool.errors("web")
    assert found["histories"] == 0
    assert {found[name] for name in ("pooled", "extrapolated", "other_domains", "mean")} == {None}


def test_rates_are_found_where_they_can_be():
    pool = Pool()
    pool.add("mcp", summed(*measured(rows=4000)))
    assert pool.rates() == pytest.approx(RATES, abs=0.02)


def test_what_is_measured_comes_first_then_what_was_replayed_then_the_cell_then_the_tool_then_the_classes():
    few = FEWEST
    tool = np.array([1] * few + [2] * (few // 2) + [2] * (few // 2), np.uint64)
    turn = np.array([0] * few + [0] * (few // 2) + [1] * (few // 2))
    agreement = np.array([700] * few + [400] * (few // 2) + [600] * (few // 2))
    shares = np.tile([0, 0, 0, 1000], (2 * few, 1))
    pool = Pool()
    pool.add("mcp", summed(tool, turn, agreement, shares))
    asked = rows_of([1, 1, 1, 1, 2, 3], [0, 0, 0, 3, 0, 0], np.tile([1000, 0, 0, 0], (6, 1)))
    told = np.array([0.25, *[np.nan] * 5])
    again = np.array([0.5, 0.75, *[np.nan] * 4])
    numbers, sources = Estimates.of(pool.estimates("mcp").told()).ceilings(asked, told, again)
    assert sources.tolist() == ["measured", "replayed", "pooled", "pooled", "pooled", "extrapolated"]
    assert numbers.tolist() == pytest.approx([0.25, 0.75, 0.7, 0.7, 0.5, PRIOR["frame"]])


def test_the_pooled_error_is_that_of_leaving_each_history_out():
    tool, turn, agreement, shares = measured(rows=120, tools=3)
    tool[:4], turn[:4] = 1, 9  # a cell of its own, too small: its tool stands for it
    pool = Pool()
    pool.add("mcp", summed(tool, turn, agreement, shares))
    squares = []
    for row in range(len(tool)):
        cell = (tool == tool[row]) & (turn == turn[row])
        mine = cell if cell.sum() >= FEWEST else tool == tool[row]
        mine = mine & (np.arange(len(tool)) != row)
        squares.append((agreement[row] - agreement[mine].mean()) ** 2 / 1e6)
    assert pool.errors("mcp")["pooled"] == pytest.approx(np.sqrt(np.mean(squares)), abs=1e-4)
    assert pool.errors("mcp")["pooled_histories"] == len(tool)


def test_the_extrapolated_errors_are_those_of_leaving_the_tool_and_the_domain_out():
    pool, apart = Pool(), Pool()
    first, second = measured(seed=3), measured(-0.2, seed=4)
    pool.add("mcp", summed(*first))
    pool.add("web", summed(*second))
    apart.add("mcp", summed(*first))
    tool, _, agreement, shares = second
    off = agreement / 1000 - shares / 1000 @ np.array(apart.rates())
    assert pool.errors("web")["other_domains"] == pytest.approx(np.sqrt(np.mean(off**2)), abs=1e-3)
    squares = []
    for one in np.unique(tool):
        rest = Pool()
        rest.add("mcp", summed(*first))
        rest.add("web", summed(*(column[tool != one] for column in second)))
        left = agreement[tool == one] / 1000 - shares[tool == one] / 1000 @ np.array(rest.rates())
        squares += (left**2).tolist()
    assert pool.errors("web")["extrapolated"] == pytest.approx(np.sqrt(np.mean(squares)), abs=1e-3)
    assert pool.errors("web")["extrapolated"] < pool.errors("web")["other_domains"]


def test_shares_are_of_bytes_by_class_and_an_empty_text_is_frame():
    spans = [
        [{"begin": 0, "end": 5, "label": "frame"}, {"begin": 5, "end": 6, "label": "harness"}],
        [{"begin": 2, "end": 4, "label": "history"}, {"begin": 4, "end": 5, "label": "derivable"}],
        [],
        [],
    ]
    found = class_shares(pa.array(spans, SPANS_SCHEMA.field("spans").type), np.array([12, 10, 7, 0]))
    assert list(CLASSES) == ["frame", "copied", "derivable", "new"]
    assert found.tolist() == [[500, 0, 0, 500], [0, 200, 100, 700], [0, 0, 0, 1000], [1000, 0, 0, 0]]


def test_turns_are_told_apart_by_doubling():
    turns = np.array([0, 1, 2, 3, 4, 7, 8, 15, 16, 900], np.int32)
    assert turn_buckets(turns).tolist() == [0, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_of_a_few_histories_no_error_is_told():
    pool = Pool()
    few = FEWEST - 1
    tool = np.array([1] * 30 + [2] * few, np.uint64)
    pool.add("mcp", summed(tool, np.zeros(30 + few), np.full(30 + few, 900), np.tile([0, 0, 0, 1000], (30 + few, 1))))
    found = pool.errors("mcp")
    assert (found["pooled"], found["pooled_histories"]) == (0.0, 30)
    assert (found["extrapolated"], found["extrapolated_histories"]) == (None, few)
