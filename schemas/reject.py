"""Rejects: one row for each dropped input, record, trajectory or transition, with its position, reason and a short
excerpt.

Nothing is dropped without a row here. The excerpt is scrubbed by the code that writes it to a file; see
`quality.scrub`.
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
    """One reject.

    Attributes:
        unit: Kind of the dropped thing: an input, a record within an input, a trajectory or a transition.
        reason: snake_case word under which rejects are counted.
        detail: One line for a person.
        uri: Input, relative to the raw root.
        member: File within the input; empty for a log of one file.
        offset: Byte offset in the decompressed member, in Parquet and Arrow the 0-based row; -1 if there is no
            position.
        connector: Connector that read the input; empty if none recognized it.
        trajectory_id: Trajectory, for trajectories and transitions.
        step: Step, for transitions; -1 otherwise.
        transitions: Number of dropped rows (1 for a transition, num_steps for a trajectory).
        excerpt: At most `EXCERPT_BYTES` of text around the position.
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
        """Return the reject of a parse error, with its excerpt cut to `EXCERPT_BYTES` and decoded leniently."""
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
    """Return the rejects as a table of `REJECT_SCHEMA`, in the given order. Lone surrogates become U+FFFD."""
    rows = list(rejects)
    columns = []
    for field, attribute in zip(REJECT_SCHEMA, fields(Reject), strict=True):
        values = [getattr(row, attribute.name) for row in rows]
        if pa.types.is_string(field.type):
            values = [value.encode("utf-8", "replace").decode() for value in values]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=REJECT_SCHEMA)
