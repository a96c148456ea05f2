"""Reading transitions back: the small public read API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.schemas.errors import ConfigError, ShardError, first_line
from trajmill.schemas.migrations import lacking
from trajmill.schemas.row_ids import KEY, OF, RowIds
from trajmill.schemas.transition import TRANSITION_SCHEMA

if TYPE_CHECKING:
    import polars


def scan_transitions(path: str | Path) -> polars.LazyFrame:
    """Return a polars LazyFrame of the transitions at `path`, one row a transition, columns as in `TRANSITION_SCHEMA`.

    Args:
        path: A run's output folder, its `transitions` folder, a domain folder in it, or one Parquet file.

    Raises:
        ConfigError: There is no Parquet file of transitions, or a file has an unknown schema version.
        ShardError: A file is damaged.
    """
    import polars  # here, because importing it costs more than all of `schemas`

    by_columns: dict[tuple[str, ...], list[Path]] = {}
    for file in transition_files(path):
        by_columns.setdefault(_lacking(file), []).append(file)
    names = TRANSITION_SCHEMA.names
    nulls = polars.DataFrame(TRANSITION_SCHEMA.empty_table()).schema
    derived = {KEY: polars.struct(OF).map_batches(_row_ids, polars.String)}
    return polars.concat(
        polars.scan_parquet(files, glob=False)
        .with_columns(
            derived.get(name, polars.lit(None, nulls[name])).alias(name) for name in columns if "." not in name
        )
        .with_columns(_with_fields(name, inner) for name, inner in _within(columns).items())
        .select(names)
        for columns, files in by_columns.items()
    )


def _within(columns: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the missing struct fields by their column."""
    fields: dict[str, list[str]] = {}
    for path in columns:
        name, _, inner = path.partition(".")
        if inner:
            fields.setdefault(name, []).append(inner)
    return fields


def _with_fields(name: str, fields: list[str]) -> polars.Expr:
    """Return a column of structs with additional fields that are null everywhere."""
    import polars

    column = polars.col(name)
    whole = column.struct.with_fields(polars.lit(None, polars.String).alias(field) for field in fields)
    return polars.when(column.is_not_null()).then(whole).alias(name)


def _row_ids(rows: polars.Series) -> polars.Series:
    """Return the ids of all rows of files that lack them, in row order."""
    import polars

    columns = rows.struct.unnest().to_arrow()
    return polars.Series(RowIds().of(columns))


def transition_files(path: str | Path) -> list[Path]:
    """Return the sorted Parquet files of transitions at a path; arguments and errors as of `scan_transitions`."""
    root = Path(path)
    if root.is_dir():
        inner = root / "transitions"
        files = sorted((inner if inner.is_dir() else root).rglob("part-*.parquet"))
    else:
        files = [root] if root.is_file() else []
    if not files:
        raise ConfigError(
            f"{path} holds no transitions: wanted a run's folder, its transitions folder or a file of them."
        )
    for file in files:
        _lacking(file)
    return files


def _lacking(file: Path) -> tuple[str, ...]:
    try:
        metadata = pq.read_metadata(file).metadata
    except (pa.ArrowInvalid, OSError) as error:
        line = first_line(error).rstrip(".")
        raise ShardError(f"{file} cannot be read: {line}. The run that wrote it makes it again.") from error
    return lacking(metadata, str(file))
