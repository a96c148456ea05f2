"""Rows of tests with what they cost, as they come to be made samples of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from trajmill.pipelines.render.costs import COST_COLUMNS, Costing
from trajmill.pipelines.render.pieces import View
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas.transition import encoded_schema

DEFAULTS: dict[str, Any] = {"row_id": "r", "num_segments": 1, "segment": 0}
NEEDED = (
    *("row_id", "trajectory_id", "step", "segment", "num_segments", "turn", "domain", "context", "observation"),
    *("action", "next_observation", "interleaved", "exit_code", "time_limit_s", "timed_out"),
)


def batch_of(rows: Sequence[dict[str, Any]], names: Sequence[str] = NEEDED) -> pa.RecordBatch:
    """Some columns of rows, as transitions have them."""
    fields = [pa.field(one.name, _nullable(one.type)) for one in map(encoded_schema().field, names)]
    told = [{name: {**DEFAULTS, **one}[name] for name in names} for one in rows]
    return pa.RecordBatch.from_pylist(told, schema=pa.schema(fields))


def costs_of(rows: Sequence[dict[str, Any]], view: View, counter: TokenCounter) -> pa.Table:
    """The costs of rows that hold what rendering needs."""
    return pa.Table.from_batches(Costing(view, counter).add(batch_of(rows)))


def costed(rows: Sequence[dict[str, Any]], view: View, counter: TokenCounter) -> list[dict[str, Any]]:
    """The rows with their costs."""
    costs = costs_of(rows, view, counter).select(COST_COLUMNS).to_pylist()
    return [{**row, **cost} for row, cost in zip(rows, costs, strict=True)]


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.struct([pa.field(one.name, _nullable(one.type)) for one in kind]) if pa.types.is_struct(kind) else kind
