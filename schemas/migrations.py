"""Migrations, which make files of older schema versions readable.

A version only adds columns, or fields at the end of a struct. Rows of an older version get null there, which the
column's own documentation explains, and the `row_id` that the newest version would assign. Migrations serve people who
read older files; stages make such files anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from trajmill.schemas.errors import ConfigError
from trajmill.schemas.row_ids import KEY, RowIds
from trajmill.schemas.transition import SCHEMA_VERSION, TRANSITION_SCHEMA, VERSION_KEY

_ADDED_IN_6: Final = ("action.sampled",)
_ADDED_FROM_5: Final = ("observation.envelope", "next_observation.envelope", *_ADDED_IN_6)
_ADDED_FROM_4: Final = ("time_limit_s", "timed_out", *_ADDED_FROM_5)

LACKING: Final[Mapping[str, tuple[str, ...]]] = {
    "1": (KEY, "scrubbed", *_ADDED_FROM_4),
    "2": (KEY, *_ADDED_FROM_4),
    "3": _ADDED_FROM_4,
    "4": _ADDED_FROM_5,
    "5": _ADDED_IN_6,
    SCHEMA_VERSION: (),
}
"""Columns of the newest version, or fields of them (`observation.envelope`), that files of each version lack."""


def lacking(metadata: Mapping[bytes, bytes] | None, where: str) -> tuple[str, ...]:
    """Return the columns that a file of transitions lacks, judged by its metadata; `where` names the file in errors.

    Raises:
        ConfigError: The file holds no transitions, or has an unknown version.
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
        where: Name of the file in errors.
    """

    def __init__(self, metadata: Mapping[bytes, bytes] | None, where: str) -> None:
        self._columns = lacking(metadata, where)
        self._row_ids = RowIds()

    @property
    def is_needed(self) -> bool:
        """True if the file lacks columns."""
        return bool(self._columns)

    def migrate(self, table: pa.Table) -> pa.Table:
        """Convert the next block of rows, with all columns in the order of `TRANSITION_SCHEMA`."""
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
    """Append a field that is null everywhere to a column of structs."""
    array_ = column.combine_chunks()
    children = [array_.field(field_number) for field_number in range(array_.type.num_fields)]
    fields = [*array_.type.fields, kind.field(name)]
    mask = array_.is_null() if array_.null_count else None
    return pa.StructArray.from_arrays([*children, pa.nulls(len(array_), pa.string())], fields=fields, mask=mask)
