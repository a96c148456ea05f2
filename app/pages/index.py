"""The trajectories of a run, a row each: what they are browsed, filtered and counted by. Made once, held in memory.

Of a million transitions it reads the columns that are needed, and of most of them only the first row of a trajectory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from trajmill.app.pages.run_files import Judged
from trajmill.schemas import ShardError, scan_transitions

KEPT: Final = "kept"
DROPPED: Final = "dropped"
FACETS: Final = ("domain", "fate", "reason", "outcome", "pool", "environment", "task", "source", "connector")
"""What trajectories are filtered by; `fate` is kept or dropped, `reason` any that speaks on one of their rows."""

_TASK_CHARACTERS: Final = 400
_SEARCHED: Final = ("instruction", "task", "environment", "native_id", "uri", "key")

SCHEMA: Final = pl.Schema(
    [
        *((name, pl.String) for name in ("key", "trajectory_id", "native_id", "domain", "source", "environment")),
        *((name, pl.String) for name in ("task", "instruction", "outcome", "agent", "connector", "uri")),
        *((name, pl.UInt32) for name in ("steps", "file", "first")),
        *((name, pl.String) for name in ("fate", "dropped_by")),
        ("reason", pl.List(pl.String)),
        *((name, pl.String) for name in ("group", "pool")),
    ]
)
"""Of the index. `key` is the trajectory's id and what tells its copies apart, as `row_id` begins; `file` and `first`
say where its rows stand, `steps` how many they are; `dropped_by` is the reason of a dropped one."""


def trajectory_index(files: Sequence[Judged]) -> pl.DataFrame:
    """The trajectories of files of transitions in the order of their rows, with the columns of `SCHEMA`.

    Args:
        files: of transitions, with what lies beside them; `file` counts them.

    Raises:
        ShardError: verdicts are not aligned to their transitions.
    """
    return joined([file_index(number, file) for number, file in enumerate(files)])


def joined(parts: Sequence[pl.DataFrame], draws: Sequence[Path] = ()) -> pl.DataFrame:
    """The trajectories of some files as one table, with the pools that they were drawn into.

    Args:
        parts: of each file (`file_index`).
        draws: tables of what was drawn (`RunFiles.draws`), by which a trajectory's pool is known.
    """
    found = pl.concat(parts) if parts else pl.DataFrame(schema=SCHEMA)
    if not draws:
        return found
    drawn = pl.concat([pl.scan_parquet(file).select("trajectory_id", "pool") for file in draws]).unique("trajectory_id")
    both = found.drop("pool").lazy().join(drawn, on="trajectory_id", how="left", maintain_order="left")
    pool = pl.when(pl.col("fate") == KEPT).then(pl.col("pool"))
    return both.with_columns(pool).select(SCHEMA.names()).collect()


def file_index(number: int, file: Judged) -> pl.DataFrame:
    """The trajectories of one file, of which nothing is said yet about pools; raises as `trajectory_index`."""
    scan = scan_transitions(file.transitions)
    named = scan.with_row_index("first").filter(pl.col("step") == 0).select("first", *_descriptions()).collect()
    starts, rows = named["first"].to_numpy().astype(np.int64), scan.select(pl.len()).collect().item()
    columns = {
        "steps": pl.Series(np.diff(np.append(starts, rows)), dtype=pl.UInt32),
        "file": pl.Series(np.full(len(starts), number), dtype=pl.UInt32),
    }
    told = _decisions(file, starts, rows)
    return named.with_columns(**columns, **told).select(SCHEMA.names()).cast(SCHEMA)


def _descriptions() -> list[pl.Expr]:
    def field(column: str, name: str) -> pl.Expr:
        return pl.col(column).struct.field(name)

    resolved = field("outcome", "resolved")
    place = pl.coalesce(field("environment", "id"), field("environment", "instance_id"))
    return [
        pl.col("row_id").str.head(-2).alias("key"),  # the first row's ends with -0
        *(pl.col(name) for name in ("trajectory_id", "native_id", "domain", "source")),
        place.alias("environment"),
        field("task", "id").alias("task"),
        field("task", "instruction").str.slice(0, _TASK_CHARACTERS).alias("instruction"),
        pl.when(resolved).then(pl.lit("resolved")).when(~resolved).then(pl.lit("unresolved")).otherwise(
            pl.lit("unknown")
        ).alias("outcome"),
        pl.coalesce(field("agent", "name"), field("agent", "model")).alias("agent"),
        field("provenance", "connector").alias("connector"),
        field("provenance", "uri").alias("uri"),
        pl.lit(None, pl.String).alias("pool"),
    ]  # fmt: skip


def _decisions(file: Judged, starts: Any, rows: int) -> dict[str, pl.Series]:
    """What was decided about each trajectory, or that nothing was."""
    if file.verdicts is None:
        return _undecided(len(starts))
    verdicts = pl.scan_parquet(file.verdicts, glob=False).select("kept", "reason", "group").collect()
    if len(verdicts) != rows:
        raise ShardError(f"{file.verdicts} has {len(verdicts)} rows beside {rows}: it is of other transitions.")
    first = verdicts[starts]
    of = pl.Series("of", np.cumsum(np.bincount(starts, minlength=rows)) - 1, dtype=pl.UInt32)
    reasons = (
        verdicts.select("reason")
        .with_columns(of)
        .filter(pl.col("reason").is_not_null())
        .unique()
        .sort("of", "reason")
        .group_by("of", maintain_order=True)
        .agg("reason")
    )
    every = pl.DataFrame({"of": pl.Series(range(len(starts)), dtype=pl.UInt32)})
    kept = first["kept"]
    told = every.join(reasons, on="of", how="left", maintain_order="left")["reason"].fill_null([])
    return {
        "fate": pl.Series(np.where(kept.to_numpy(), KEPT, DROPPED), dtype=pl.String),
        "dropped_by": first.select(pl.when(~pl.col("kept")).then("reason"))["reason"],
        "reason": told,
        "group": first["group"],
    }


def _undecided(count: int) -> dict[str, pl.Series]:
    nothing = pl.Series([None] * count, dtype=pl.String)
    none_told = pl.Series([[]] * count, dtype=pl.List(pl.String))
    return {"fate": nothing, "dropped_by": nothing, "reason": none_told, "group": nothing}


def found_in(index: pl.DataFrame, chosen: Mapping[str, str], text: str = "") -> pl.DataFrame:
    """The trajectories that have every chosen value, and the text in what describes them, in any case.

    Args:
        index: of trajectories.
        chosen: facet → value; the empty value is that of those which say nothing.
        text: looked for in instruction, task, environment, ids and uri.
    """
    kept = [_having(name, value) for name, value in chosen.items() if name in FACETS]
    if text:
        # one regular expression, so that case is folded for any alphabet; its text is taken literally
        pattern = "(?i)" + _literal(text)
        kept.append(pl.any_horizontal(pl.col(name).str.contains(pattern).fill_null(value=False) for name in _SEARCHED))
    return index.filter(*kept) if kept else index


def _literal(text: str) -> str:
    return "".join(f"\\x{{{ord(one):x}}}" if not one.isalnum() else one for one in text)


def _having(name: str, value: str) -> pl.Expr:
    if name == "reason":
        return pl.col(name).list.contains(value) if value else pl.col(name).list.len() == 0
    return pl.col(name) == value if value else pl.col(name).is_null()


def facet_counts(
    index: pl.DataFrame, chosen: Mapping[str, str], text: str = "", most: int = 10
) -> dict[str, list[tuple[str, int]]]:
    """Of every facet its most frequent values with their numbers among what the other choices leave, the largest first.

    A value that was chosen is always there. Where nothing is said the value is empty.
    """
    found = {}
    searched = found_in(index, {}, text)
    left = found_in(searched, chosen)
    for name in FACETS:
        others = {key: value for key, value in chosen.items() if key != name}
        rest = found_in(searched, others) if name in chosen else left
        column = rest.lazy().select(pl.col(name))
        values = column.explode(name) if name == "reason" else column
        counted = values.group_by(name).len().sort(["len", name], descending=[True, False], nulls_last=True).collect()
        rows = [(value or "", number) for value, number in counted.iter_rows()]
        found[name] = _shown(rows, chosen.get(name), most)
    return found


def _shown(rows: list[tuple[str, int]], wanted: str | None, most: int) -> list[tuple[str, int]]:
    head, rest = rows[:most], rows[most:]
    return [*head, *(row for row in rest if row[0] == wanted)]


def by_key(index: pl.DataFrame) -> dict[str, int]:
    """Key → row of the index."""
    return {key: number for number, key in enumerate(index["key"])}
