"""Simulation instructions that were made for logged trajectories, for use in their prompts.

The table of instructions, its reading, and token counts with them. `trajmill.synthesis` makes the instructions; a
user's own table with the same first two columns works as well.
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
"""Origin of a context with a made instruction."""

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
"""Columns of the table, one row per trajectory."""

_COST: Final = "simulation_instruction_tokens"
_NEEDED: Final = ("trajectory_id", "simulation_instruction")


def read_instructions(path: str | Path) -> dict[str, str]:
    """Read simulation instructions by trajectory id from a Parquet file.

    Raises:
        ConfigError: the file cannot be read, lacks a column or a value, or has two instructions for one trajectory.
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
    """Add the tokens of made instructions to the costs of trajectories whose context has none."""
    if not instructions:
        return costs
    ids, sizes = costs["trajectory_id"].to_pylist(), costs[_COST].to_pylist()
    known = {key: counter.of(instructions[key]) for key in {*ids} & instructions.keys()}
    new_sizes = [size or known.get(key, 0) for key, size in zip(ids, sizes, strict=True)]
    column_index = costs.schema.get_field_index(_COST)
    return costs.set_column(
        column_index, costs.schema.field(column_index), pa.array(new_sizes, costs.schema.field(column_index).type)
    )
