"""Trajectories from tables of published data sets (Parquet, Arrow; JSON Lines if a recipe maps its columns).

>>> show(PublishedTable(), b"".join(part.serialize().to_pybytes() for rows in [tables.pa.RecordBatch.from_pylist([
...     {"id": "1", "messages": [
...         {"role": "user", "content": "Add 2 and 3."},
...         {"role": "assistant", "tool_calls": [
...             {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}]},
...         {"role": "tool", "tool_call_id": "a", "content": "5"}]}])] for part in (rows.schema, rows)))
action  | {"name": "add", "arguments": {"a": 2, "b": 3}}
after   | 5

The recipe states the content of the columns (`normalize.dataset`, see `column_mapping` and `layouts`). Without that,
rows are recognized and read as the equivalent lines of JSON (see `row_lines`). The example is an Arrow stream of a
schema and one batch. The offset of a step is the 0-based number of its row in the file; in JSON Lines it is the byte
offset of its line. A file is read in order, in batches; see `tables`. The plan of a run, not this module, decides which
files of a data set are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.published import tables
from trajmill.connectors.published.cells import complete_trajectory
from trajmill.connectors.published.layouts import map_rows
from trajmill.connectors.published.row_lines import RowLines
from trajmill.connectors.reading.documents import holds_rows
from trajmill.connectors.registry import connector
from trajmill.connectors.web.mind2web.rows import columns_read
from trajmill.schemas import DOMAINS, ParseError, Reject, Trajectory

_OURS: Final = frozenset({"trajectory_id", "next_observation", "provenance"})
"""Columns of trajmill's own output."""

NAMES = {"parquet": "a Parquet file", "arrow": "an Arrow file", "stream": "an Arrow stream"}


class PublishedTable(Connector):
    """Rows of a table."""

    name: ClassVar[str] = "table"
    version: ClassVar[str] = "14"
    domains: ClassVar[tuple[str, ...]] = DOMAINS
    title: ClassVar[str] = "tables of published data sets (Parquet, Arrow; columns mapped by the recipe)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        kind = tables.kind_of(head)
        return None if kind is None else Sniff(0.9, NAMES[kind])

    def is_sliceable(self, blob: Blob) -> bool:
        table, rows = tables.Table(blob), blob.choices.rows
        if rows.layout is not None:
            return rows.layout != "transitions" and (table.schema is not None or holds_rows(blob))
        if table.schema is None:
            return False
        lines = RowLines(blob, table, columns_read(table.schema.names))
        inner = lines.format()
        return inner is not None and inner.is_sliceable(lines)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        table, rows = tables.Table(blob), blob.choices.rows
        if rows.layout is None:
            for result in _read_unmapped(blob, table, self.name):
                yield complete_trajectory(result, {}, rows) if isinstance(result, Trajectory) else result
            return
        empty = True
        inner = connector(rows.format).parse if rows.format is not None else None
        for result in map_rows(blob, self.name, table, rows, inner):
            empty = empty and isinstance(result, Reject)
            yield result
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no row of the table holds a transition")


def _read_unmapped(blob: Blob, table: tables.Table, name: str) -> Iterator[Trajectory | Reject]:
    """Yield the results of a table without a mapping, read as lines in the format of its first rows.

    Raises:
        ParseError: `own_output` or `unknown_columns`; reading cannot continue.
    """
    names = table.schema.names if table.schema is not None else []
    if _OURS.issubset(names):
        raise ParseError(blob.uri, 0, "own_output", "transitions that trajmill wrote are no raw log")
    lines = RowLines(blob, table, columns_read(names))
    inner = lines.format()
    if inner is None and lines.faults:
        yield from (Reject.of(fault, "record", name) for fault in lines.faults.values())
        raise ParseError(blob.uri, -1, "no_transitions", "no row of the table holds a transition")
    if inner is None:
        listing = ", ".join(names[:20])
        detail = f"no known format has the columns {listing}; normalize.dataset of the recipe says what they hold"
        raise ParseError(blob.uri, 0, "unknown_columns", detail[:400])
    yield from lines.read_by(inner, name)
