"""What files of older schema versions lack, so that they can still be read.

A version adds columns and takes none away: rows of an older one have null there, which the column's own documentation
explains. Stages do not read older files, they make them anew; people do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from schemas.errors import ConfigError
from schemas.transition import SCHEMA_VERSION, TRANSITION_SCHEMA, VERSION_KEY

LACKING: Final[Mapping[str, tuple[str, ...]]] = {"1": ("scrubbed",), SCHEMA_VERSION: ()}
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


def migrated(table: pa.Table, columns: tuple[str, ...]) -> pa.Table:
    """The table with the `columns` that it lacks, all null, in the order of `TRANSITION_SCHEMA`."""
    for name in columns:
        field = TRANSITION_SCHEMA.field(name)
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(TRANSITION_SCHEMA.names) if columns else table
