"""Rejects of all stages and generations: a table to browse, and the excerpt of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from trajmill.app.pages.run_files import Rejected
from trajmill.schemas import REJECT_SCHEMA, Reject, reject_table

FACETS: Final = ("stage", "unit", "reason", "connector")
"""Columns by which rejects are filtered."""

COLUMNS: Final = (*(name for name in REJECT_SCHEMA.names if name != "excerpt"), "stage", "generation", "file", "row")
"""Columns of the table: a reject without its excerpt, its stage and generation, and its position."""


def reject_index(files: Sequence[Rejected]) -> pl.DataFrame:
    """Return all rejects, in the order of the files and of their rows, with the columns `COLUMNS`."""
    parts = [
        pl.scan_parquet(file.path, glob=False, row_index_name="row")
        .drop("excerpt")
        .with_columns(
            pl.lit(file.stage).alias("stage"), pl.lit(file.generation).alias("generation"), pl.lit(number).alias("file")
        )
        .select(COLUMNS)
        for number, file in enumerate(files)
    ]
    return pl.concat(parts).collect() if parts else rejects_at_hand(())


def rejects_at_hand(rejects: Iterable[Reject]) -> pl.DataFrame:
    """Return the same table for rejects in memory."""
    table = pl.DataFrame(reject_table(rejects)).drop("excerpt").with_row_index("row")
    columns = [pl.lit("normalize").alias("stage"), pl.lit(1).alias("generation"), pl.lit(0).alias("file")]
    return table.with_columns(columns).select(COLUMNS)


def excerpt_of(files: Sequence[Rejected], row: Mapping[str, Any]) -> str:
    """Return the excerpt of a reject of the index, which was scrubbed when written; empty if none was kept."""
    scan = pl.scan_parquet(files[row["file"]].path, glob=False)
    return str(scan.select("excerpt").slice(row["row"], 1).collect().item())


def chosen_rejects(index: pl.DataFrame, chosen: Mapping[str, str], text: str = "") -> pl.DataFrame:
    """Return the rejects with every chosen value, and with the text in their detail, uri, member or trajectory,
    ignoring case.
    """
    filters = [pl.col(name) == value for name, value in chosen.items() if name in FACETS]
    if text:
        columns = ("detail", "uri", "member", "trajectory_id")
        looked = (pl.col(name).str.contains_any([text], ascii_case_insensitive=True) for name in columns)
        filters.append(pl.any_horizontal(looked))
    return index.filter(*filters) if filters else index


def reject_facets(index: pl.DataFrame, chosen: Mapping[str, str], text: str = "") -> dict[str, list[tuple[str, int]]]:
    """Count the values of every facet among the rejects that match the other choices, the most frequent first."""
    facets = {}
    for name in FACETS:
        rest = chosen_rejects(index, {key: value for key, value in chosen.items() if key != name}, text)
        counted = rest.group_by(name).len().sort(["len", name], descending=[True, False])
        facets[name] = list(counted.iter_rows())
    return facets
