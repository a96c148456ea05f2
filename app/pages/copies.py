"""Dropped duplicates and the trajectories kept in their place: clusters of a keeper and its copies, and a side-by-side
view.

The rejects name the keeper. A keeper that a later generation forgot cannot be found.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any, Final

import polars as pl

from trajmill.app.pages.differences import Line, difference
from trajmill.app.pages.why import COPIED, KEEPER
from trajmill.pipelines.judge.reasons import DUPLICATE_TRAJECTORY, NEAR_DUPLICATE

_COMPARED: Final = 400
"""Steps of each of two trajectories that are compared."""


def keeper_prefix(detail: str) -> str:
    """Extract the beginning of the trajectory id that a reject's detail names; empty if it names none."""
    prefix = pl.Series([detail]).str.extract(KEEPER, 1)[0]
    return prefix or ""


def find_copies(index: pl.DataFrame, rejects: pl.DataFrame) -> pl.DataFrame:
    """List the dropped copies, with the columns of the index and `keeper`, the kept one's key (null if not found).

    Args:
        rejects: Rejects of the same run; see `rejects.COLUMNS`.
    """
    drops = rejects.filter((pl.col("unit") == "trajectory") & pl.col("reason").is_in(COPIED)).select(
        "trajectory_id",
        "uri",
        pl.col("reason").alias("dropped_by"),
        pl.col("detail").str.extract(KEEPER, 1).alias("prefix"),
    )
    keepers = index.filter(pl.col("fate") == "kept").select(
        pl.col("trajectory_id").str.head(16).alias("prefix"), pl.col("key").alias("keeper")
    )
    lost = index.filter(pl.col("dropped_by").is_in(COPIED))
    joined = lost.join(
        drops.unique(["trajectory_id", "uri", "dropped_by"]),
        on=["trajectory_id", "uri", "dropped_by"],
        how="left",
        maintain_order="left",
    )
    return joined.join(keepers.unique("prefix"), on="prefix", how="left", maintain_order="left").drop("prefix")


def clusters(copies: pl.DataFrame) -> pl.DataFrame:
    """Count the copies of each keeper by reason (columns `keeper`, `near`, `equal`), the largest cluster first."""
    return (
        copies.filter(pl.col("keeper").is_not_null())
        .group_by("keeper")
        .agg(
            (pl.col("dropped_by") == NEAR_DUPLICATE).sum().alias("near"),
            (pl.col("dropped_by") == DUPLICATE_TRAJECTORY).sum().alias("equal"),
        )
        .sort(pl.col("near") > 0, pl.col("near") + pl.col("equal"), "keeper", descending=[True, True, False])
    )


@dataclass(frozen=True, slots=True)
class Beside:
    """Aligned steps of two trajectories.

    Attributes:
        kind: `equal`, or `differs`.
        left: Steps of the first, empty if it has none here.
        action: Lines in which their actions differ; for one pair of steps.
        answer: Lines in which their next observations differ.
    """

    kind: str
    left: Sequence[Mapping[str, Any]]
    right: Sequence[Mapping[str, Any]]
    action: Sequence[tuple[Line | None, Line | None]] = ()
    answer: Sequence[tuple[Line | None, Line | None]] = ()


def side_by_side(left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[Beside]:
    """Align two trajectories step by step by their actions; runs of equal steps are one entry."""
    ours, theirs = ([row["action"]["text"] for row in rows[:_COMPARED]] for rows in (left, right))
    pairs: list[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]] = []
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    for _, begin, end, start, stop in matcher.get_opcodes():
        pairs += zip_longest(left[begin:end], right[start:stop])
    sections: list[Beside] = []
    for equal, some in groupby(pairs, key=lambda pair: None not in pair and _content(pair[0]) == _content(pair[1])):
        if equal:
            ones, others = zip(*some, strict=True)
            sections.append(Beside("equal", ones, others))
        else:
            sections += [_beside(*pair) for pair in some]
    return sections


def _content(row: Mapping[str, Any] | None) -> tuple[str, str]:
    if row is None:
        return "", ""
    return row["action"]["text"] or "", (row["next_observation"] or {}).get("content") or ""


def _beside(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> Beside:
    (act, seen), (act_too, seen_too) = (_content(row) for row in (left, right))
    ours, theirs = [left] if left else [], [right] if right else []
    return Beside("differs", ours, theirs, pair_lines(act, act_too), pair_lines(seen, seen_too))


def pair_lines(left: str, right: str) -> list[tuple[Line | None, Line | None]]:
    """Pair the lines of two texts: those that differ, with a few around them; of equal texts, one line of note."""
    pairs: list[tuple[Line | None, Line | None]] = []
    gone: list[Line] = []
    come: list[Line] = []

    def settle() -> None:
        pairs.extend(zip_longest(gone, come))
        gone.clear()
        come.clear()

    for line in difference(left, right):
        if line.kind in ("gone", "new"):
            (gone if line.kind == "gone" else come).append(line)
            continue
        settle()
        pairs.append((line, line))
    settle()
    return pairs
