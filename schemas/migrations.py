"""Migrations of transition files from older schema versions to the newest.

A new version adds columns, or fields at the end of a struct, and removes none. Migrated rows hold null in each added
column, except `row_id`, which is computed. Migrations serve commands and functions that people read older runs with;
stages write files of an older version again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from trajmill.schemas.errors import ConfigError
from trajmill.schemas.row_ids import KEY, RowIds
from trajmill.schemas.transition import SCHEMA_VERSION, TRANSITION_SCHEMA, VERSION_KEY

_ADDED_IN_5: Final = ("observation.envelope", "next_observation.envelope")
_ADDED_FROM_4: Final = ("time_limit_s", "timed_out", *_ADDED_IN_5)

LACKING: Final[Mapping[str, tuple[str, ...]]] = {
    "1": (KEY, "scrubbed", *_ADDED_FROM_4),
    "2": (KEY, *_ADDED_FROM_4),
    "3": _ADDED_FROM_4,
    "4": _ADDED_IN_5,
    SCHEMA_VERSION: (),
}
"""Schema version of a file → columns that it lacks, or fields of them (`observation.envelope`)."""


def lacking(metadata: Mapping[bytes, bytes] | None, where: str) -> tuple[str, ...]:
    """List the columns that a file of transitions lacks, from its schema metadata; `where` names it in errors.

    Raises:
        ConfigError: it holds no transitions, or those of a version that is not known.
    """
    version = (metadata or {}).get(VERSION_KEY)
    if version is None:
        raise ConfigError(f"{where} holds no transitions: it does not name a transition schema.")
    if version.decode() not in LACKING:
        known = ", ".join(LACKING)
        raise ConfigError(
            f"{where} was written under transition schema {version.decode()}, this trajmill reads {known}."
        )
    return LACKING[version.decode()]


class Migration:
    """Conversion of a file's rows, block by block in their order, to rows of the newest version.

    Args:
        metadata: of the file's schema.
        where: names the file in errors.

    Raises:
        ConfigError: as of `lacking`.
    """

    def __init__(self, metadata: Mapping[bytes, bytes] | None, where: str) -> None:
        self._columns = lacking(metadata, where)
        self._row_ids = RowIds()

    @property
    def is_needed(self) -> bool:
        """True if the file lacks columns."""
        return bool(self._columns)

    def migrate(self, table: pa.Table) -> pa.Table:
        """Convert the next rows of the file; columns come in the order of `TRANSITION_SCHEMA`."""
        for path in self._columns:
            name, _, inner = path.partition(".")
            field = TRANSITION_SCHEMA.field(name)
            if inner:
                field_number = table.schema.get_field_index(name)
                if field_number >= 0:
                    table = table.set_column(field_number, name, _with_field(table[name], field.type, inner))
                continue
            values = self._row_ids.of(table) if name == KEY else pa.nulls(table.num_rows, field.type)
            table = table.append_column(field, values)
        return table.select(TRANSITION_SCHEMA.names) if self._columns else table


def _with_field(column: pa.ChunkedArray, kind: pa.StructType, name: str) -> pa.Array:
    """Append a further field, which is null everywhere, to a column of structs."""
    structs = column.combine_chunks()
    children = [structs.field(field_number) for field_number in range(structs.type.num_fields)]
    fields = [*structs.type.fields, kind.field(name)]
    mask = structs.is_null() if structs.null_count else None
    return pa.StructArray.from_arrays([*children, pa.nulls(len(structs), pa.string())], fields=fields, mask=mask)
