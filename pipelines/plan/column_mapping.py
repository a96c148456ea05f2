"""Recognition of tables whose columns a recipe maps, and a check of the columns that the recipe names.

It runs at planning time, so that a missing column ends the run before anything is read. JSON Lines are checked by their
first rows, other tables by their schema.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice, takewhile
from typing import Any, Final

from trajmill.connectors.column_mapping import OF_STEP, Rows
from trajmill.connectors.connector import HEAD_BYTES
from trajmill.connectors.published.tables import Table, kind_of, names_in
from trajmill.connectors.reading.documents import opening
from trajmill.connectors.reading.head_outline import OUTLINED_BYTES, make_outline
from trajmill.connectors.reading.values import json_value
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.paths import Place
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.schemas import ConfigError, ParseError

TABLE: Final = "table"
"""Name of the connector that reads tables."""

_LOOKED_AT: Final = 256
_LOOKED_BYTES: Final = 16 << 20
"""Largest number of bytes of JSON Lines that are read to learn the columns."""


class ColumnMapping:
    """Recognizer of the tables that a recipe with a layout describes.

    Args:
        recipe: a recipe with `normalize.dataset.layout`.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._files = recipe.normalize.dataset.files
        self._rows: Rows = recipe.normalize.choices(recipe.domains).rows
        self._limit = recipe.normalize.max_member_bytes

    def __call__(self, name: str, location: Place, head: bytes) -> str | None:
        """Explain why the file is one of these tables; return None if it is none.

        Args:
            name: name relative to the raw root.
            head: its first bytes, decompressed.

        Raises:
            ConfigError: it is one, and lacks a column that the recipe names.
        """
        if not (self._files == "**" or fnmatch.fnmatchcase(name, self._files)):
            return None
        kind = kind_of(head) or ("json" if _holds_rows(head) or self._begins_long(name, location, head) else None)
        if kind is None:
            return None
        with suppress(ParseError):  # it is met again, and told as a reject, when the file is read
            self._compare(name, Table(StoredBlob(name, {"": location}, self._limit)))
        return f"the recipe maps the columns of {kind} tables"

    def _begins_long(self, name: str, location: Place, head: bytes) -> bool:
        """Return True if the file holds rows of which the first is longer than the head."""
        if len(head) < HEAD_BYTES:
            return False
        return _holds_rows(make_outline(StoredBlob(name, {"": location}, self._limit).head("", OUTLINED_BYTES)))

    def _compare(self, name: str, table: Table) -> None:
        names = _value_names(table) if table.schema is None else set(names_in(table.schema))
        if not names:
            return
        steps = self._rows.column("steps") if self._rows.layout == "steps" else None
        for role, column in self._rows.columns:
            if steps is not None and role in OF_STEP:
                within = {
                    column_name.removeprefix(f"{steps}.")
                    for column_name in names
                    if column_name.startswith(f"{steps}.")
                }
                if within:
                    _require(name, f"{steps} has no field", role, column, within)
            else:
                _require(name, "there is no column", role, column, names)


def _require(name: str, fault: str, role: str, column: str, names: set[str]) -> None:
    opaque = any(column.startswith(f"{column_name}.") and not _has_fields(column_name, names) for column_name in names)
    if column in names or opaque:
        return
    top = ", ".join(sorted(column_name for column_name in names if "." not in column_name))
    message = f"normalize.dataset.columns.{role}: in {name}, {fault} '{column}'; it has {top}."
    raise ConfigError(message, *get_close_matches(column, sorted(names), 1))


def _has_fields(column: str, names: set[str]) -> bool:
    """Return True if fields below the column are known."""
    return any(column_name.startswith(f"{column}.") for column_name in names)


def _holds_rows(head: bytes) -> bool:
    beginning = opening(head)
    if beginning is None:
        return False
    values = (
        beginning.values
        if beginning.lines
        else beginning.values[0]
        if isinstance(beginning.values[0], list)
        else beginning.values
    )
    return bool(values) and isinstance(values[0], dict)


def _value_names(table: Table) -> set[str]:
    """Collect the names in the first rows of JSON Lines, including those of nested structs."""
    first = takewhile(lambda numbered_row: numbered_row[0] < _LOOKED_BYTES, islice(table.rows(), _LOOKED_AT))
    rows = [row for _, row in first if not isinstance(row, ParseError)]
    return {name for row in rows for name in _names_within("", row, 0)}


def _names_within(prefix: str, value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str) and value[:2] in ("[{", '{"'):
        try:
            value = json_value(value)
        except ValueError:
            return
    for element in value[:_LOOKED_AT] if isinstance(value, list) else [value]:
        if isinstance(element, Mapping) and depth < 4:
            for key, within in element.items():
                yield prefix + key
                yield from _names_within(f"{prefix}{key}.", within, depth + 1)
