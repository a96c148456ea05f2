"""Verdicts: the measures and decisions of each transition, stored beside the transitions and aligned by row.

A verdict file has as many rows as its transitions file, in the same order; `row_id` names the transition of a row.
Signals follow the fixed columns, one float32 column each, named `signal.<name>`; a signal of a whole trajectory repeats
on its rows. Signals that explain themselves also have a text column `why.<name>`, after the numbers. Measures are
stored separately as well, so that rules can change without measuring again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from trajmill.schemas.row_ids import KEY

VERDICT_VERSION: Final = "2"
"""Version of the row format, in the metadata of every file; version 1 had no `row_id`."""

USES: Final = ("target", "context", "omit")
"""target: shown with loss; context: shown without loss; omit: not shown (or its trajectory was dropped)."""

SIGNAL_PREFIX: Final = "signal."
REASON_PREFIX: Final = "why."

KEY_FIELDS: Final = (
    pa.field(KEY, pa.string(), nullable=False, metadata={"doc": "of the transition that it is about; the key"}),
    pa.field("trajectory_id", pa.string(), nullable=False),
    pa.field("step", pa.int32(), nullable=False),
)
"""Fields that identify the transition of a row in files beside the transitions."""

MEASURE_FIELDS: Final = (
    *KEY_FIELDS,
    pa.field("trajectory_hash", pa.binary(16), nullable=False, metadata={"doc": "of the content alone"}),
    pa.field("transition_hash", pa.binary(16), nullable=False, metadata={"doc": "of (observation, action, next)"}),
    pa.field("task_node", pa.uint64(), nullable=False, metadata={"doc": "hash that trajectories of one task share"}),
    pa.field("instance_node", pa.uint64(), nullable=False, metadata={"doc": "the same for an environment instance"}),
    pa.field("own_node", pa.uint64(), nullable=False, metadata={"doc": "hash of the trajectory's id"}),
    pa.field("parent_node", pa.uint64(), nullable=False, metadata={"doc": "of its parent's id; its own without one"}),
    pa.field("rank", pa.uint64(), nullable=False, metadata={"doc": "of equal trajectories the smallest is kept"}),
    pa.field("origin", pa.uint64(), nullable=False, metadata={"doc": "hash of the trajectory's provenance"}),
    pa.field("has_text", pa.bool_(), nullable=False, metadata={"doc": "whether the next observation holds text"}),
    pa.field("text_bytes", pa.int64(), nullable=False, metadata={"doc": "UTF-8 bytes of action and next observation"}),
    pa.field("tokens", pa.int64(), nullable=False, metadata={"doc": "tokens of action and next observation"}),
)
"""Measures of every row, independent of the recipe's rules."""

DECISION_FIELDS: Final = (
    pa.field("kept", pa.bool_(), nullable=False, metadata={"doc": "whether the row's trajectory is carried on"}),
    pa.field("use", pa.string(), nullable=False, metadata={"options": ",".join(USES)}),
    pa.field("reason", pa.string(), metadata={"doc": "why use is not target", "null": "it is target"}),
    pa.field("group", pa.string(), nullable=False, metadata={"doc": "connected component; has one pool for ever"}),
)


def measure_schema(signals: Sequence[str], telling: Sequence[str] = ()) -> pa.Schema:
    """Return the schema of measure files: the fixed columns, the given signals, and the explanations of those in
    `telling`.
    """
    columns = [pa.field(SIGNAL_PREFIX + name, pa.float32(), nullable=False) for name in signals]
    columns += [pa.field(REASON_PREFIX + name, pa.string()) for name in telling]
    return pa.schema([*MEASURE_FIELDS, *columns], metadata={b"trajmill.verdict_schema": VERDICT_VERSION.encode()})


def verdict_schema(signals: Sequence[str], telling: Sequence[str] = ()) -> pa.Schema:
    """Return the schema of a verdict file: the decision about each row, then its measures."""
    measured = measure_schema(signals, telling)
    rest = list(measured)[len(KEY_FIELDS) :]
    return pa.schema([*KEY_FIELDS, *DECISION_FIELDS, *rest], metadata=measured.metadata)
