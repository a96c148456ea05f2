"""What files of older schema versions lack, so that they can still be read.

A version adds columns and takes none away: rows of an older one have null there, which the column's own documentation
explains, and the `row_id` that the newest version would give them. Stages do not read older files, they make them anew;
people do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from schemas.errors import ConfigError
from schemas.row_ids import KEY, RowIds
from schemas.transition import SCHEMA_VERSION, TRANSITION_SCHEMA, VERSION_KEY

_OF_4: Final = ("time_limit_s", "timed_out")

LACKING: Final[Mapping[str, tuple[str, ...]]] = {
    "1": (KEY, "scrubbed", *_OF_4),
    "2": (KEY, *_OF_4),
    "3": _OF_4,
    SCHEMA_VERSION: (),
}
"""Columns of the newest version that files of a version lack."""


def lacking(metadata: Mapping[bytes, bytes] | None, where: str) -> tuple[str, ...]:
    """The columns that a file of transitions lacks, by its metadata; `where` names it in errors.

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
    """What makes rows of a file, block by block in their order, rows of the newest version.

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
        """Whether the file lacks columns, which are made from others."""
        return bool(self._columns)

    def migrated(self, table: pa.Table) -> pa.Table:
        """The rows that follow those given before, with all columns in the order of `TRANSITION_SCHEMA`."""
        for name in self._columns:
            field = TRANSITION_SCHEMA.field(name)
            values = self._row_ids.of(table) if name == KEY else pa.nulls(table.num_rows, field.type)
            table = table.append_column(field, values)
        return table.select(TRANSITION_SCHEMA.names) if self._columns else table
