"""Simulation instructions that were made for logged trajectories, which their prompts then hold.

What a table of them holds, how it is read, and costs with them. Who makes one is the matter of
`trajmill.synthesis`; a table of the user's own with the same first two columns does as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import ConfigError

SYNTHESIZED: Final = "synthesized"
"""The origin of a context that holds one."""

INSTRUCTION_SCHEMA: Final = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("simulation_instruction", pa.string()),
        ("origin", pa.string()),
        ("domain", pa.string()),
        ("kinds", pa.list_(pa.string())),
        ("score", pa.float64()),
        ("model", pa.string()),
        ("sampling", pa.string()),
        ("judge", pa.string()),
        ("prompts", pa.list_(pa.string())),
    ]
)
"""Columns of the table: a row a trajectory."""

_COST: Final = "simulation_instruction_tokens"
_NEEDED: Final = ("trajectory_id", "simulation_instruction")


def read_instructions(path: str | Path) -> dict[str, str]:
    """Trajectory id → its simulation instruction, from a Parquet file.

    Raises:
        ConfigError: the file cannot be read, lacks a column, or has two instructions for one trajectory.
    """
    try:
        table = pq.read_table(path, columns=list(_NEEDED))
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"mix.instructions: {path} cannot be read: {error}") from error
    lacking = [name for name in _NEEDED if name not in table.column_names]
    if lacking:
        raise ConfigError(f"mix.instructions: {path} has no column {', '.join(lacking)}.")
    instructions: dict[str, str] = {}
    for key, text in zip(*(table[name].to_pylist() for name in _NEEDED), strict=True):
        if not isinstance(key, str) or not isinstance(text, str) or not text.strip():
            raise ConfigError(f"mix.instructions: {path} has a row without a trajectory or an instruction.")
        if instructions.setdefault(key, text) != text:
            raise ConfigError(f"mix.instructions: {path} has two instructions for trajectory {key}.")
    return instructions


def costs_with_instructions(costs: pa.Table, instructions: Mapping[str, str], counter: TokenCounter) -> pa.Table:
    """The costs of rows, with those of the instructions made for trajectories whose context has none."""
    if not instructions:
        return costs
    ids, sizes = costs["trajectory_id"].to_pylist(), costs[_COST].to_pylist()
    known = {key: counter.of(instructions[key]) for key in {*ids} & instructions.keys()}
    new_sizes = [size or known.get(key, 0) for key, size in zip(ids, sizes, strict=True)]
    column_index = costs.schema.get_field_index(_COST)
    return costs.set_column(
        column_index, costs.schema.field(column_index), pa.array(new_sizes, costs.schema.field(column_index).type)
    )
