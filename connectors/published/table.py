"""Tables of published data sets (Parquet, Arrow; JSON Lines where a recipe maps its columns) to trajectories.

>>> show(PublishedTable(), b"".join(part.serialize().to_pybytes() for rows in [tables.pa.RecordBatch.from_pylist([
...     {"id": "1", "messages": [
...         {"role": "user", "content": "Add 2 and 3."},
...         {"role": "assistant", "tool_calls": [
...             {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}]},
...         {"role": "tool", "tool_call_id": "a", "content": "5"}]}])] for part in (rows.schema, rows)))
action  | {"name": "add", "arguments": {"a": 2, "b": 3}}
after   | 5

The recipe says what the columns hold (`normalize.dataset`, see `column_mapping`). Without that, published layouts are
recognized: rows of a format that is published as JSON Lines too are read as such lines (see `row_lines`), others by
their columns (see `layouts`, and `web.mind2web.rows` for rows that are actions of a task). The example is an Arrow
stream of a schema and one batch. The offset of a step is the 0-based number of
its row in the file, in JSON Lines the byte offset of its line. A file is read in order, in batches; see `tables`. Which
files of a data set are read is decided where a run is planned, not here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.published import tables
from trajmill.connectors.published.cells import completed
from trajmill.connectors.published.layouts import known, mapped
from trajmill.connectors.published.row_lines import format_of, read_lines
from trajmill.connectors.registry import connector
from trajmill.connectors.web.mind2web import read_tasks
from trajmill.connectors.web.mind2web.rows import COLUMNS, is_row
from trajmill.schemas import DOMAINS, ParseError, Reject, Trajectory

NAMES = {"parquet": "a Parquet file", "arrow": "an Arrow file", "stream": "an Arrow stream"}


class PublishedTable(Connector):
    """Rows of a table."""

    name: ClassVar[str] = "table"
    version: ClassVar[str] = "13"
    domains: ClassVar[tuple[str, ...]] = DOMAINS
    title: ClassVar[str] = "tables of published data sets (Parquet, Arrow; columns mapped by the recipe)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        kind = tables.kind_of(head)
        return None if kind is None else Sniff(0.9, NAMES[kind])

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        table = tables.Table(blob)
        inner = None if blob.choices.rows.layout is not None or table.schema is None else format_of(table)
        empty = inner is None
        found_in = self._found(blob, table) if inner is None else self._in_lines(blob, table, inner)
        for found in found_in:
            empty = empty and isinstance(found, Reject)
            yield found
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no row of the table holds a transition")

    def _in_lines(self, blob: Blob, table: tables.Table, inner: Connector) -> Iterator[Trajectory | Reject]:
        for found in read_lines(blob, self.name, table, inner):
            yield completed(found, {}, blob.choices.rows) if isinstance(found, Trajectory) else found

    def _found(self, blob: Blob, table: tables.Table) -> Iterator[Trajectory | Reject]:
        rows = blob.choices.rows
        if rows.layout is not None:
            inner = connector(rows.format).parse if rows.format is not None else None
            yield from mapped(blob, self.name, table, rows, inner)
            return
        held = columns(table, blob)
        if is_row(held):
            wanted = [column for column in COLUMNS if column in held]
            yield from read_tasks(table.rows(wanted), blob, self.name)
            return
        read = known(blob, self.name, held)
        for place, row in table.rows():
            if isinstance(row, ParseError):
                yield Reject.of(row, "record", self.name)
                continue
            for found in read(place, row):
                yield completed(found, {}, rows) if isinstance(found, Trajectory) else found


def columns(table: tables.Table, blob: Blob) -> list[str]:
    """The columns of a table; of JSON Lines those of the first row.

    Raises:
        ParseError: the file has no row, so its columns are not known.
    """
    if table.schema is not None:
        return list(table.schema.names)
    for _, row in table.rows():
        if not isinstance(row, ParseError):
            return list(row)
    raise ParseError(blob.uri, 0, "no_rows", "the file holds no row")
