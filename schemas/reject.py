"""Rejects: what was not carried on, one row each, with its place, its reason and a short excerpt.

Nothing leaves the flow without a row here. The excerpt is scrubbed by whoever writes it to a file; see `quality.scrub`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Final

import pyarrow as pa

from trajmill.schemas.errors import ParseError
from trajmill.schemas.record import record

EXCERPT_BYTES: Final = 4096


@record
class Reject:
    """One thing not carried on.

    Attributes:
        unit: what was dropped: an input, a record within one, a trajectory or a transition.
        reason: snake_case word the counts are kept by.
        detail: one line for a person.
        uri: the input, relative to the raw root.
        member: file within the input; empty for a log of one file.
        offset: byte offset in the decompressed member, in Parquet and Arrow the 0-based row; -1 if the thing has no
            place in it.
        connector: who read it; empty where nothing recognized it.
        trajectory_id: set for trajectories and transitions.
        step: set for transitions, else -1.
        transitions: rows that went with it (1 for a transition, num_steps for a trajectory).
        excerpt: at most `EXCERPT_BYTES` of text around the place.
    """

    unit: str
    reason: str
    detail: str
    uri: str
    member: str = ""
    offset: int = -1
    connector: str = ""
    trajectory_id: str = ""
    step: int = -1
    transitions: int = 0
    excerpt: str = ""

    @classmethod
    def of(cls, error: ParseError, unit: str = "record", connector: str = "") -> Reject:
        """The reject of a parse error, with as much of its excerpt as is kept, decoded leniently."""
        excerpt = error.excerpt[:EXCERPT_BYTES].decode("utf-8", "replace")
        return cls(unit, error.reason, error.detail, error.uri, error.member, error.offset, connector, excerpt=excerpt)


REJECT_SCHEMA: Final = pa.schema(
    [
        pa.field("unit", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("uri", pa.string(), nullable=False),
        pa.field("member", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("connector", pa.string(), nullable=False),
        pa.field("trajectory_id", pa.string(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("transitions", pa.int64(), nullable=False),
        pa.field("excerpt", pa.string(), nullable=False),
    ],
    metadata={b"trajmill.reject_schema": b"1"},
)


def reject_table(rejects: Iterable[Reject]) -> pa.Table:
    """The rejects as a table of `REJECT_SCHEMA`, in the order given; lone surrogates become U+FFFD."""
    rows = list(rejects)
    columns = []
    for field, attribute in zip(REJECT_SCHEMA, fields(Reject), strict=True):
        values = [getattr(row, attribute.name) for row in rows]
        if pa.types.is_string(field.type):
            values = [value.encode("utf-8", "replace").decode() for value in values]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=REJECT_SCHEMA)
