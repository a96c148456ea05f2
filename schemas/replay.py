"""Replays: the result of running each transition's action again, stored beside the transitions and aligned by row.

A replay file has as many rows as its transitions file, in the same order, like a verdict file.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from trajmill.schemas.verdict import KEY_FIELDS

REPLAY_VERSION: Final = "1"
"""Version of the row format, in the metadata of every file."""

SAME: Final = "same"
VOLATILE: Final = "volatile"
DIFFERS: Final = "differs"
NOT_RUN: Final = "not_run"
REPLAYED: Final = (SAME, VOLATILE, DIFFERS, NOT_RUN)
"""same: the answer equals the logged one; volatile: it differs only in values that change with each run, such as times
and process ids; differs: it is another answer; not_run: no answer could be compared with the log, for the `reason`
given.
"""

CERTIFIED: Final = (SAME, VOLATILE)
"""Results of transitions whose logged answer a world reproduced."""

REPLAY_SCHEMA: Final = pa.schema(
    [
        *KEY_FIELDS,
        pa.field("replayed", pa.string(), nullable=False, metadata={"options": ",".join(REPLAYED)}),
        pa.field("reason", pa.string(), metadata={"doc": "why it was not run", "null": "it was"}),
        pa.field("world", pa.string(), metadata={"doc": "that answered", "null": "none was asked"}),
        pa.field("tool", pa.string(), metadata={"doc": "name of the action"}),
        pa.field(
            "written",
            pa.list_(pa.field("item", pa.string(), nullable=False)),
            metadata={"doc": "scrubbed values that the run wrote into its database", "null": "it is not known"},
        ),
        pa.field(
            "agreement",
            pa.float32(),
            metadata={"doc": "share of the words of both answers that they agree on", "null": "it is not known"},
        ),
        pa.field("difference", pa.string(), metadata={"doc": "unified, scrubbed and cut; logged against replayed"}),
    ],
    metadata={b"trajmill.replay_schema": REPLAY_VERSION.encode()},
)
"""Schema of replay files: one row a transition."""
