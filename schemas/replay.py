"""Replays: what came of each transition when its action was run again, beside the payload and aligned to it row by row.

A file holds as many rows as its transitions file, in the same order, as verdicts do.
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
"""same: what came is what the log says; volatile: but for what differs each time, such as times and process ids;
differs: it is something else; not_run: nothing came that could be held against the log, `reason` says why."""

CERTIFIED: Final = (SAME, VOLATILE)
"""Results of transitions whose answer a world gave again."""

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
"""One row a transition."""
