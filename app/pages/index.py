"""Index of the trajectories of a run, one row each, for browsing, filtering and counting. It is held in memory.

For a million transitions it reads only the required columns, most of them only in the first row of a trajectory. A
thread builds it file by file. Readers of the whole index wait; lists show the part that is ready, and how much that is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from trajmill.app.pages.run_files import Judged
from trajmill.schemas import ShardError, scan_transitions
from trajmill.schemas.errors import first_line

KEPT: Final = "kept"
DROPPED: Final = "dropped"
FACETS: Final = (
    "domain", "fate", "reason", "outcome", "pool", "placeholders", "environment", "task", "source", "connector"
)  # fmt: skip
"""Properties that trajectories are filtered by.

`fate` is kept or dropped, `reason` any reason of one of their rows, `placeholders` whether scrubbing put any into their
texts.
"""

NO_POOL: Final = "no pool (dropped)"
_TASK_CHARACTERS: Final = 400
_SEARCHED: Final = ("instruction", "task", "environment", "native_id", "uri", "key")

SCHEMA: Final = pl.Schema(
    [
        *((name, pl.String) for name in ("key", "trajectory_id", "native_id", "domain", "source", "environment")),
        *((name, pl.String) for name in ("task", "instruction", "outcome", "agent", "connector", "uri")),
        *((name, pl.UInt32) for name in ("steps", "file", "first", "placeholders")),
        *((name, pl.String) for name in ("fate", "dropped_by")),
        ("reason", pl.List(pl.String)),
        *((name, pl.String) for name in ("group", "pool")),
    ]
)
"""Schema of the index. `key` is the trajectory's id and its copy, the beginning of `row_id`; `file` and `first` give
the position of its rows, `steps` their number; `dropped_by` is the reason of a dropped one.
"""


def trajectory_index(files: Sequence[Judged]) -> pl.DataFrame:
    """Build the index of files of transitions, in the order of their rows, with the columns of `SCHEMA`.

    Args:
        files: Files of transitions with their verdicts; `file` counts them.

    Raises:
        ShardError: Verdicts are not aligned to their transitions.
    """
    return join_parts([file_index(number, file) for number, file in enumerate(files)])


def join_parts(parts: Sequence[pl.DataFrame], draws: Sequence[Path] = ()) -> pl.DataFrame:
    """Join the indexes of some files into one table, with the pools into which the trajectories were drawn.

    Args:
        parts: Index of each file (`file_index`).
        draws: Tables of draws (`RunFiles.draws`), which give a trajectory's pool.
    """
    table = pl.concat(parts) if parts else pl.DataFrame(schema=SCHEMA)
    if not draws:
        return table
    drawn = pl.concat([pl.scan_parquet(file).select("trajectory_id", "pool") for file in draws]).unique("trajectory_id")
    both = table.drop("pool").lazy().join(drawn, on="trajectory_id", how="left", maintain_order="left")
    pool = pl.when(pl.col("fate") == KEPT).then(pl.col("pool"))
    return both.with_columns(pool).select(SCHEMA.names()).collect()


def file_index(number: int, file: Judged) -> pl.DataFrame:
    """Build the index of one file, without pools; raises as `trajectory_index`."""
    scan = scan_transitions(file.transitions)
    named = scan.with_row_index("first").filter(pl.col("step") == 0).select("first", *_descriptions()).collect()
    scrubbed = scan.select(pl.col("scrubbed").fill_null(0)).collect()["scrubbed"].to_numpy()
    starts, rows = named["first"].to_numpy().astype(np.int64), len(scrubbed)
    columns = {
        "placeholders": pl.Series(np.add.reduceat(scrubbed, starts) if rows else scrubbed, dtype=pl.UInt32),
        "steps": pl.Series(np.diff(np.append(starts, rows)), dtype=pl.UInt32),
        "file": pl.Series(np.full(len(starts), number), dtype=pl.UInt32),
    }
    decisions = _decisions(file, starts, rows)
    return named.with_columns(**columns, **decisions).select(SCHEMA.names()).cast(SCHEMA)


def _descriptions() -> list[pl.Expr]:
    def field(column: str, name: str) -> pl.Expr:
        return pl.col(column).struct.field(name)

    resolved = field("outcome", "resolved")
    environment = pl.coalesce(field("environment", "id"), field("environment", "instance_id"))
    return [
        pl.col("row_id").str.head(-2).alias("key"),  # the first row's ends with -0
        *(pl.col(name) for name in ("trajectory_id", "native_id", "domain", "source")),
        environment.alias("environment"),
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
    """Read the decisions about each trajectory; nulls if nothing was judged."""
    if file.verdicts is None:
        return _undecided_columns(len(starts))
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
    is_kept = first["kept"]
    reason_lists = every.join(reasons, on="of", how="left", maintain_order="left")["reason"].fill_null([])
    return {
        "fate": pl.Series(np.where(is_kept.to_numpy(), KEPT, DROPPED), dtype=pl.String),
        "dropped_by": first.select(pl.when(~pl.col("kept")).then("reason"))["reason"],
        "reason": reason_lists,
        "group": first["group"],
    }


def _undecided_columns(count: int) -> dict[str, pl.Series]:
    nothing = pl.Series([None] * count, dtype=pl.String)
    none_told = pl.Series([[]] * count, dtype=pl.List(pl.String))
    return {"fate": nothing, "dropped_by": nothing, "reason": none_told, "group": nothing}


def filter_index(index: pl.DataFrame, chosen: Mapping[str, str], text: str = "") -> pl.DataFrame:
    """Filter the index by chosen values of facets, and by a text in descriptive columns, ignoring case.

    Args:
        chosen: Facet → value; the empty value selects rows without a value.
        text: Text to find in instruction, task, environment, ids and uri.
    """
    filters = [_having(name, value) for name, value in chosen.items() if name in FACETS]
    if text:
        # a regular expression of the literal text, so that case is folded for any alphabet
        pattern = "(?i)" + _literal(text)
        filters.append(
            pl.any_horizontal(pl.col(name).str.contains(pattern).fill_null(value=False) for name in _SEARCHED)
        )
    return index.filter(*filters) if filters else index


def _literal(text: str) -> str:
    return "".join(f"\\x{{{ord(character):x}}}" if not character.isalnum() else character for character in text)


def _having(name: str, value: str) -> pl.Expr:
    if name == "reason":
        return pl.col(name).list.contains(value) if value else pl.col(name).list.len() == 0
    return _facet(name) == value if value else _facet(name).is_null()


def _facet(name: str) -> pl.Expr:
    """The values of a facet: a column, or for pools and placeholders words made of columns."""
    if name == "placeholders":
        return pl.when(pl.col(name) > 0).then(pl.lit("some")).otherwise(pl.lit("none")).alias(name)
    dropped = pl.when(pl.col("fate") == DROPPED).then(pl.lit(NO_POOL))
    return pl.coalesce("pool", dropped).alias(name) if name == "pool" else pl.col(name)


def facet_counts(
    index: pl.DataFrame, chosen: Mapping[str, str], text: str = "", most: int = 10
) -> dict[str, list[tuple[str, int]]]:
    """Count, per facet, its most frequent values among the rows that match the other choices, the largest first.

    A chosen value is always included. The empty value stands for rows without a value.
    """
    facets = {}
    searched = filter_index(index, {}, text)
    left = filter_index(searched, chosen)
    for name in FACETS:
        others = {key: value for key, value in chosen.items() if key != name}
        rest = filter_index(searched, others) if name in chosen else left
        column = rest.lazy().select(_facet(name))
        values = column.explode(name) if name == "reason" else column
        counted = values.group_by(name).len().sort(["len", name], descending=[True, False], nulls_last=True).collect()
        rows = [(value or "", number) for value, number in counted.iter_rows()]
        facets[name] = _shown(rows, chosen.get(name), most)
    return facets


def _shown(rows: list[tuple[str, int]], wanted: str | None, most: int) -> list[tuple[str, int]]:
    head, rest = rows[:most], rows[most:]
    return [*head, *(row for row in rest if row[0] == wanted)]


DAMAGED: Final = (pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""Errors that reading a damaged file raises."""

PATIENCE_S: Final = 0.05
"""Seconds that a page waits for the rest of the index, so that a small run is shown completely at once."""


@dataclass(frozen=True, slots=True)
class SoFar:
    """Index as far as it has been read.

    Attributes:
        index: Index of the files read so far; see `index.SCHEMA`.
        read: Number of these files.
        seconds: Seconds since reading began.
    """

    index: pl.DataFrame
    read: int
    files: int
    seconds: float

    @property
    def is_whole(self) -> bool:
        """True if the index is complete."""
        return self.read == self.files


class IndexReading:
    """Background reading of the index of files of transitions, which begins on creation.

    Args:
        files: Files in the order in which the index counts them.
        draws: Tables of draws (`RunFiles.draws`).
    """

    def __init__(self, files: Sequence[Judged], draws: Sequence[Path]) -> None:
        self._files, self._draws = files, draws
        self._parts: list[pl.DataFrame] = []
        self._fault: Exception | None = None
        self._told, self._begin = threading.Condition(), time.monotonic()
        self._thread = threading.Thread(target=self._read, name="index", daemon=True)
        self._thread.start()

    @cached_property
    def whole(self) -> pl.DataFrame:
        """Complete index; access waits for it.

        Raises:
            ShardError: A file is damaged, or its verdicts belong to other transitions.
            ConfigError: A file has an unknown schema version.
        """
        self._thread.join()
        self._raise_fault()
        return join_parts(self._parts, self._draws)

    def so_far(self, patience: float = PATIENCE_S) -> SoFar:
        """Return the index after so many seconds, or sooner if complete; at least that of one file. Raises as
        `whole`.
        """
        until = time.monotonic() + patience
        with self._told:
            self._told.wait_for(lambda: self._parts or self._is_over)
            self._told.wait_for(lambda: self._is_over, until - time.monotonic())
            self._raise_fault()
            parts = list(self._parts)
        index = self.whole if len(parts) == len(self._files) else join_parts(parts, self._draws)
        return SoFar(index, len(parts), len(self._files), time.monotonic() - self._begin)

    @property
    def _is_over(self) -> bool:
        return self._fault is not None or len(self._parts) == len(self._files)

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _read(self) -> None:
        for number, file in enumerate(self._files):
            fault: Exception | None = None
            try:
                part = file_index(number, file)
            except DAMAGED as error:
                fault = ShardError(f"{file.transitions} cannot be read: {first_line(error)}")
            except Exception as error:  # noqa: BLE001 - who asks is told
                fault = error
            with self._told:
                self._fault = fault
                if fault is None:
                    self._parts.append(part)
                self._told.notify_all()
            if fault is not None:
                return
